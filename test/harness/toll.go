package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"rtj.dev/rtj/test/cluster"
)

// Request is a write of the operator on its way to the API server.
type Request struct {
	Method string
	// Path of the resource, without the server.
	Path string
	Body string
}

// Is reports whether the request is of a method on a path that ends so.
func (r Request) Is(method, suffix string) bool {
	return r.Method == method && strings.HasSuffix(r.Path, suffix)
}

// Verdict is what happens to a request.
type Verdict int

const (
	// Pass sends it on.
	Pass Verdict = iota
	// Refuse answers that the service is unavailable.
	Refuse
	// KillBefore kills the operator, and the request is lost with it.
	KillBefore
	// KillAfter sends it on, and kills the operator before the answer.
	KillAfter
)

// Toll stands between the operator and the API server and judges each write. It
// makes a crash happen at a chosen write, each time.
type Toll struct {
	cluster *Cluster
	server  *http.Server
	target  *httputil.ReverseProxy
	group   sync.WaitGroup
	left    bool

	mu     sync.Mutex
	judge  func(Request) Verdict
	killed chan struct{}
}

// NewToll restarts the operator so that it reaches the API server through the
// toll. Leave ends that.
func (c *Cluster) NewToll(ctx context.Context) (*Toll, error) {
	transport, err := rest.TransportFor(c.RTJConfig)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(c.APIServer)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &Toll{cluster: c, judge: func(Request) Verdict { return Pass }, killed: make(chan struct{})}
	t.target = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	t.server = &http.Server{Handler: t, ReadHeaderTimeout: 10 * time.Second, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
	t.group.Go(func() { _ = t.server.Serve(listener) })
	kubeconfig, err := t.kubeconfig("http://" + listener.Addr().String())
	if err == nil {
		err = t.restart(ctx, "--kubeconfig="+kubeconfig)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *Toll) kubeconfig(server string) (string, error) {
	const name = "toll"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	config.CurrentContext = name
	path := filepath.Join(t.cluster.Dir, "toll.kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// restart ends the operator and starts it with further arguments, the last of
// which win.
func (t *Toll) restart(ctx context.Context, args ...string) error {
	if err := t.cluster.StopComponent(cluster.Operator); err != nil {
		return err
	}
	before := t.cluster.Options.OperatorArgs
	t.cluster.Options.OperatorArgs = append(append([]string{}, before...), args...)
	defer func() { t.cluster.Options.OperatorArgs = before }()
	return t.cluster.StartComponent(ctx, cluster.Operator)
}

// Judge sets what happens to the writes from now on.
func (t *Toll) Judge(judge func(Request) Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.judge = judge
}

// Killed is closed once the operator was killed.
func (t *Toll) Killed() <-chan struct{} { return t.killed }

// Leave starts the operator without the toll, whether it runs or not. A second
// call does nothing.
func (t *Toll) Leave(ctx context.Context) error {
	if t.left {
		return nil
	}
	t.left = true
	err := t.restart(ctx)
	t.close()
	return err
}

func (t *Toll) close() {
	t.server.Close()
	t.group.Wait()
	os.Remove(filepath.Join(t.cluster.Dir, "toll.kubeconfig"))
}

// ServeHTTP judges a write and passes everything else.
func (t *Toll) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		t.target.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	// One at a time, so that nothing follows the write at which the operator dies.
	t.mu.Lock()
	defer t.mu.Unlock()
	verdict := t.judge(Request{Method: r.Method, Path: r.URL.Path, Body: string(body)})
	switch verdict {
	case Pass:
		t.target.ServeHTTP(w, r)
	case Refuse:
		http.Error(w, "refused by the toll", http.StatusServiceUnavailable)
	case KillBefore:
		t.kill()
	case KillAfter:
		lost := &discarded{header: http.Header{}}
		t.target.ServeHTTP(lost, r)
		t.kill()
		if lost.code >= 300 {
			fmt.Fprintf(os.Stderr, "toll: the write at which the operator was killed was answered %d\n", lost.code)
		}
	}
}

func (t *Toll) kill() {
	if err := t.cluster.SignalComponent(cluster.Operator, syscall.SIGKILL); err != nil {
		fmt.Fprintln(os.Stderr, "toll:", err)
	}
	t.judge = func(Request) Verdict { return Refuse }
	close(t.killed)
}

// discarded is an answer that nobody gets.
type discarded struct {
	header http.Header
	code   int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }
func (d *discarded) WriteHeader(code int)        { d.code = code }
