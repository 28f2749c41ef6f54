package harness

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"rtj.dev/rtj/test/cluster"
)

// process is a child that ends with the cluster.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
}

// startProcess starts a program whose output goes to the log of a name.
func (c *Cluster) startProcess(name string, env []string, path string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(c.Dir, "logs", name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir, log, log
	cmd.Env = append(append(os.Environ(), cluster.MarkerEnv+"="+c.ID), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{name, cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		p.kill()
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// untilReady waits for a URL of the process to answer 200.
func (p *process) untilReady(ctx context.Context, c *Cluster, client *http.Client, url string) error {
	err := Until(ctx, startLimit, p.name+" is ready", func(ctx context.Context) (bool, string, error) {
		select {
		case <-p.done:
			return true, "", nil
		default:
			return answers(ctx, client, url)
		}
	})
	select {
	case <-p.done:
		err = fmt.Errorf("%s ended: %s", p.name, p.cmd.ProcessState)
	default:
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, c.LogTail(p.name, 10))
	}
	return nil
}

func answers(ctx context.Context, client *http.Client, url string) (bool, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return false, "", err
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK, response.Status, nil
}
