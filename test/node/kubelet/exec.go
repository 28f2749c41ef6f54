package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"rtj.dev/rtj/test/node/sandbox"
)

// Time limits of an exec's connection, those of a kubelet.
const (
	execIdle   = 4 * time.Hour
	execCreate = 30 * time.Second
)

func (m *manager) serveExec(rw http.ResponseWriter, r *http.Request) {
	namespace, pod, name := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	w := m.find(namespace, pod)
	if w == nil {
		http.Error(rw, fmt.Sprintf("pod %s/%s is not on node %s", namespace, pod, m.Name), http.StatusNotFound)
		return
	}
	box, err := w.runningBox(name)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	options, err := remotecommand.NewOptions(r)
	if err == nil && options.TTY {
		err = errors.New("a process node has no terminals; leave out -t")
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(rw, r, executor{box}, pod, "", name, r.URL.Query()["command"], options, execIdle, execCreate,
		remotecommand.SupportedStreamingProtocols)
}

// runningBox finds the running container of that name by the pod's directory.
func (w *worker) runningBox(name string) (*sandbox.Container, error) {
	attempts, err := attemptsIn(w.containerDir(name))
	if err != nil {
		return nil, err
	}
	if len(attempts) > 0 {
		box, err := sandbox.Open(filepath.Join(w.containerDir(name), strconv.Itoa(attempts[len(attempts)-1])))
		if err != nil {
			return nil, err
		}
		if end, err := box.Ended(); err != nil || end == nil {
			return box, err
		}
	}
	return nil, fmt.Errorf("container %q of pod %q does not run", name, w.rec.Name)
}

type executor struct{ box *sandbox.Container }

func (e executor) ExecInContainer(ctx context.Context, _, _, _ string, cmd []string, in io.Reader, out, errOut io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	// Interfaces that hold nil are not nil for os/exec.
	var stdout, stderr io.Writer
	if out != nil {
		stdout = out
	}
	if errOut != nil {
		stderr = errOut
	}
	code, err := e.box.Exec(ctx, cmd, in, stdout, stderr)
	if err == nil && code != 0 {
		err = utilexec.CodeExitError{Code: code, Err: fmt.Errorf("exit code %d", code)}
	}
	return err
}
