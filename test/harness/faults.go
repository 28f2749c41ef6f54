package harness

import (
	"context"
	"net/http"
	"os"
	"path/filepath"

	"rtj.dev/rtj/test/faultproxy"
)

// Faults is a fault proxy between a runner and the API server.
type Faults struct {
	*faultproxy.Proxy
	runner Runner
	relay  *relay
	log    *os.File
}

// NewFaults restarts a runner behind a fault proxy, which disturbs nothing until
// it is set to. Its log of faults is beside those of the components. Leave ends
// that.
func (c *Cluster) NewFaults(ctx context.Context, runner Runner, seed uint64) (*Faults, error) {
	log, err := os.OpenFile(filepath.Join(c.Dir, "logs", "faults.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	f := &Faults{runner: runner, log: log}
	f.relay, err = c.newRelay(ctx, func(apiServer http.Handler) http.Handler {
		f.Proxy = faultproxy.New(faultproxy.Options{APIServer: apiServer, Seed: seed, Log: log})
		return f.Proxy
	})
	if err == nil {
		if err = runner.Stop(); err == nil {
			err = runner.Start(ctx, f.relay.Endpoint)
		}
		if err != nil {
			f.relay.close()
		}
	}
	if err != nil {
		log.Close()
		return nil, err
	}
	return f, nil
}

// Crash kills the runner and starts it again behind the proxy. A runner that ends
// because it cannot reach the API server is started again, as a kubelet does.
func (f *Faults) Crash(ctx context.Context) error {
	if err := f.runner.Kill(); err != nil {
		return err
	}
	return Until(ctx, startLimit, "the runner starts behind the fault proxy", func(ctx context.Context) (bool, string, error) {
		err := f.runner.Start(ctx, f.relay.Endpoint)
		return err == nil, "", err
	})
}

// Leave starts the runner without the proxy.
func (f *Faults) Leave(ctx context.Context) error {
	f.Set(nil)
	err := f.runner.Stop()
	if err == nil {
		err = f.runner.Start(ctx, Endpoint{})
	}
	f.relay.close()
	f.log.Close()
	return err
}
