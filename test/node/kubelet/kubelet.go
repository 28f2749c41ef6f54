// Package kubelet is what a kubelet is on other nodes: it registers the node,
// watches the pods that are bound to it, runs their containers with package
// sandbox, and reports what becomes of them.
//
// Each pod has one goroutine, its worker, that owns everything about it and
// compares, whenever something happened, what should be with what is. Nothing
// about containers is remembered only in memory: see package sandbox.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"rtj.dev/rtj/test/node/image"
	"rtj.dev/rtj/test/node/sandbox"
)

// Config is what a node is made from. All fields are required, unless they say
// otherwise.
type Config struct {
	Name    string
	Dir     string       // state; created if missing
	PodCIDR netip.Prefix // loopback; the first address is the node's own
	Images  image.Set
	Client  *rest.Config
	// APIServer is where containers find the API server.
	APIServer *url.URL
	// ConfigRefresh is how late ConfigMap and Secret volumes follow.
	ConfigRefresh time.Duration
	Allocatable   corev1.ResourceList
	Labels        map[string]string // optional
	Taints        []corev1.Taint    // optional
	LeaseDuration time.Duration
	Port          int    // of the log server; 0 is a free one
	TLSCert       string // PEM file; optional, with TLSKey
	TLSKey        string
	ClientCA      string // PEM file; optional
	// StopContainers ends all containers when the node ends.
	StopContainers bool
	Log            *slog.Logger
}

// kubelet is the running node.
type kubelet struct {
	Config
	host   sandbox.Host
	client kubernetes.Interface
	events record.EventRecorder
	nodeIP netip.Addr
	// node is the reference for events of the node.
	node *corev1.ObjectReference
	pods *manager
}

// Run is the node, until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return err
	}
	cfg.Dir = dir
	// Secrets are below; containers reach their volumes by mounts.
	if err := os.MkdirAll(filepath.Join(dir, podsDir), 0o700); err != nil {
		return err
	}
	unlock, err := sandbox.LockDir(dir)
	if err != nil {
		return fmt.Errorf("another node uses %s: %w", dir, err)
	}
	defer unlock()
	host, err := sandbox.Probe(dir, os.Geteuid() != 0)
	if err != nil {
		return err
	}
	cfg.Log.Info(host.String())
	client, err := kubernetes.NewForConfig(cfg.Client)
	if err != nil {
		return err
	}
	a := &kubelet{Config: cfg, host: host, client: client, nodeIP: cfg.PodCIDR.Masked().Addr().Next()}
	return a.run(ctx)
}

func (a *kubelet) run(ctx context.Context) error {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: a.client.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	a.events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "process-node", Host: a.Name})

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var err error
	if a.pods, err = newManager(a); err != nil {
		return err
	}
	server, err := a.serve(ctx)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	start := func(name string, f func(context.Context) error) {
		all.Go(func() {
			if err := f(ctx); err != nil && !errors.Is(err, context.Canceled) {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	start("log server", server.run)
	if err := a.register(ctx, server.port); err != nil {
		cancel(err)
	} else {
		start("heartbeat", func(ctx context.Context) error { return a.heartbeat(ctx, server.port) })
		start("pods", a.pods.run)
	}
	all.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if a.StopContainers {
		a.Log.Info("ending all containers")
		return EndAll(a.Dir, io.Discard)
	}
	return nil
}
