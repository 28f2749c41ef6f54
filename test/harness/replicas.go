package harness

import (
	"context"
	"net/http"
	"regexp"
	"syscall"
	"time"
)

// Replica is one of several processes of `rtj run` that elect a leader.
type Replica struct {
	*process
	cluster *Cluster
	// Identity is in the lease, and in the user agent of its requests.
	Identity string
}

// httpAddress is how the operator says where it serves.
var httpAddress = regexp.MustCompile(`msg=running .*http=(\S+)`)

// StartReplica starts a replica and returns once it is ready, as leader or as
// standby. It ends with the cluster, if not before.
func (c *Cluster) StartReplica(ctx context.Context, identity string) (*Replica, error) {
	rtj, err := c.BuildRTJ(ctx)
	if err != nil {
		return nil, err
	}
	p, err := c.startProcess(identity, nil, rtj, "run", "--kubeconfig="+c.RTJKubeconfig,
		"--leader-elect", "--leader-elect-identity="+identity)
	if err != nil {
		return nil, err
	}
	r := &Replica{p, c, identity}
	var address string
	err = Until(ctx, startLimit, identity+" serves", func(context.Context) (bool, string, error) {
		found := httpAddress.FindStringSubmatch(r.Log())
		if found != nil {
			address = found[1]
		}
		return found != nil, "", nil
	})
	if err == nil {
		err = p.untilReady(ctx, c, http.DefaultClient, "http://"+address+"/readyz")
	}
	if err != nil {
		p.kill()
		return nil, err
	}
	return r, nil
}

// Log is what it has said.
func (r *Replica) Log() string { return r.cluster.LogTail(r.Identity, 1000) }

// Signal sends it a signal.
func (r *Replica) Signal(s syscall.Signal) error { return r.cmd.Process.Signal(s) }

// Done is closed when it has ended.
func (r *Replica) Done() <-chan struct{} { return r.done }

// Ended waits until it has ended, and returns its exit code, -1 after a signal.
func (r *Replica) Ended(ctx context.Context, limit time.Duration) (int, error) {
	err := Until(ctx, limit, r.Identity+" ends", func(context.Context) (bool, string, error) {
		select {
		case <-r.done:
			return true, "", nil
		default:
			return false, "it runs", nil
		}
	})
	if err != nil {
		return 0, err
	}
	return r.cmd.ProcessState.ExitCode(), nil
}

// Stop ends it, if it runs; also while it is stopped by SIGSTOP.
func (r *Replica) Stop() {
	_ = r.Signal(syscall.SIGCONT)
	r.stop()
}
