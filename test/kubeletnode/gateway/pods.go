package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"rtj.dev/rtj/test/kubeletnode/namespaces"
)

// podsDir holds one file for each pod, named after its sandbox, with the path of
// its network namespace: a gateway that is started again finds them there.
const podsDir = namespaces.RunDir + "/pods"

// request is what the CNI plugin asks: to open the ports in the namespace of a
// sandbox, or without a namespace to close them.
type request struct {
	Sandbox   string `json:"sandbox"`
	Namespace string `json:"namespace,omitempty"`
}

// reply is empty if it was done.
type reply struct {
	Error string `json:"error,omitempty"`
}

const askLimit = 10 * time.Second

func (g *gateway) answer(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(askLimit))
	var q request
	err := json.NewDecoder(conn).Decode(&q)
	if errors.Is(err, io.EOF) {
		return // somebody looked whether the gateway listens
	}
	if err == nil && q.Sandbox != filepath.Base(q.Sandbox) {
		err = fmt.Errorf("sandbox %q is not a name", q.Sandbox)
	}
	if err == nil && q.Namespace == "" {
		err = g.remove(q.Sandbox)
	} else if err == nil {
		err = g.add(q.Sandbox, q.Namespace)
	}
	var r reply
	if err != nil {
		r.Error = err.Error()
		fmt.Fprintf(os.Stderr, "sandbox %s: %v\n", q.Sandbox, err)
	}
	_ = json.NewEncoder(conn).Encode(r)
}

func (g *gateway) record(sandbox string) string {
	return namespaces.Path(g.Holder, filepath.Join(podsDir, sandbox))
}

func (g *gateway) add(sandbox, namespace string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pods[sandbox] != nil {
		return nil
	}
	listeners, err := g.open(namespaces.Path(g.Holder, namespace))
	if err != nil {
		return err
	}
	g.pods[sandbox] = listeners
	if err := os.MkdirAll(filepath.Dir(g.record(sandbox)), 0o700); err != nil {
		return err
	}
	return os.WriteFile(g.record(sandbox), []byte(namespace), 0o600)
}

// remove closes a sandbox's listeners, which would keep its network namespace.
func (g *gateway) remove(sandbox string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.pods[sandbox] {
		_ = l.Close()
	}
	delete(g.pods, sandbox)
	if err := os.Remove(g.record(sandbox)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// restore opens the ports in the pods that are there. Those whose namespace is
// gone are forgotten.
func (g *gateway) restore() error {
	files, err := os.ReadDir(namespaces.Path(g.Holder, podsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		namespace, err := os.ReadFile(g.record(f.Name()))
		if err != nil {
			return err
		}
		if err := g.add(f.Name(), string(namespace)); err != nil {
			fmt.Fprintf(os.Stderr, "sandbox %s: %v\n", f.Name(), err)
			if err := g.remove(f.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}
