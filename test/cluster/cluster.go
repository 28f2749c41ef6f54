package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"rtj.dev/rtj/test/cluster/internal/build"
	"rtj.dev/rtj/test/cluster/internal/privatefs"
	"rtj.dev/rtj/test/cluster/internal/proc"
)

// Cluster is a local cluster that this process started or opened.
type Cluster struct {
	Info
	// RESTConfig is the administrator's, RTJConfig that of user "rtj".
	RESTConfig *rest.Config
	RTJConfig  *rest.Config

	mu       sync.Mutex
	children map[string]*proc.Process
	// ownerPipe is held open for as long as this process lives; the keeper of
	// a cluster that is not persistent takes it down when the pipe breaks.
	ownerPipe *os.File
}

// Start brings a cluster up, or completes one that is partly up, and returns
// once everything is ready. A cluster that is not persistent is taken down
// again if that fails.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	if err := privatefs.Probe(); err != nil {
		return nil, err
	}
	if opts.KubeletNode {
		if err := problems(ProbeKubeletNode()); err != nil {
			return nil, fmt.Errorf("a kubelet node cannot run here: %w", err)
		}
	}
	programs, err := build.All(ctx, opts.Root, cache, build.Wanted{KubeletNode: opts.KubeletNode}, opts.Progress)
	if err != nil {
		return nil, err
	}
	if err := sweep(ctx, cache); err != nil {
		fmt.Fprintf(opts.Progress, "cleaning up after an earlier run: %v\n", err)
	}
	if opts.Dir, err = stateDir(opts.Dir, cache); err != nil {
		return nil, err
	}
	lock, err := lockDir(ctx, opts.Dir, func(pid int) {
		fmt.Fprintf(opts.Progress, "waiting for another command on %s (pid %d)\n", opts.Dir, pid)
	})
	if err != nil {
		return nil, err
	}
	c, err := start(ctx, opts, programs)
	lock.Release()
	if err != nil && !opts.Persistent {
		if downErr := Down(context.WithoutCancel(ctx), opts.Dir, false); downErr != nil && !errors.Is(downErr, ErrNoCluster) {
			err = errors.Join(err, downErr)
		}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func stateDir(dir, cache string) (string, error) {
	if dir != "" {
		return filepath.Abs(dir)
	}
	parent := filepath.Join(cache, "clusters")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, "c")
}

func start(ctx context.Context, opts Options, programs build.Result) (*Cluster, error) {
	info, err := ReadInfo(opts.Dir)
	switch {
	case errors.Is(err, ErrNoCluster):
		if info, err = create(ctx, opts, programs); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	default:
		if err := opts.extends(info.Options); err != nil {
			return nil, err
		}
		info.Options, info.Programs = opts, programs
		if err := info.write(); err != nil {
			return nil, err
		}
	}
	if err := issueIdentities(info); err != nil {
		return nil, err
	}
	if err := issueS3Keys(info); err != nil {
		return nil, err
	}
	c, err := newCluster(info)
	if err != nil {
		return nil, err
	}
	if err := c.bringUp(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Open returns the cluster in a state folder, for commands on it.
func Open(dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	info, err := ReadInfo(dir)
	if err != nil {
		return nil, err
	}
	info.Options.Dir = dir
	if err := info.Options.complete(); err != nil {
		return nil, err
	}
	return newCluster(info)
}

func newCluster(info Info) (*Cluster, error) {
	c := &Cluster{Info: info, children: map[string]*proc.Process{}}
	var err error
	if c.RESTConfig, err = restConfig(info.Kubeconfig); err != nil {
		return nil, err
	}
	if c.RTJConfig, err = restConfig(info.RTJKubeconfig); err != nil {
		return nil, err
	}
	return c, nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 200, 400
	return config, nil
}

// Close takes the cluster down and removes its state folder.
func (c *Cluster) Close() error {
	err := Down(context.Background(), c.Dir, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ownerPipe != nil {
		_ = c.ownerPipe.Close()
		c.ownerPipe = nil
	}
	if errors.Is(err, ErrNoCluster) {
		return nil
	}
	return err
}

// S3Keys are the root credentials of the S3 server.
func (c *Cluster) S3Keys() (access, secret string, err error) { return c.s3Keys() }

// LogTail returns the last lines of a component's log.
func (c *Cluster) LogTail(name string, lines int) string { return c.table().Tail(name, lines) }

// StartComponent starts a component that was stopped or killed, with the same
// ports and data, and waits until it is ready.
func (c *Cluster) StartComponent(ctx context.Context, name string) error {
	comp, err := c.component(name)
	if err != nil {
		return err
	}
	if !c.runs(name) {
		if err := c.prepare(ctx, comp); err != nil {
			return err
		}
		if err := c.launch(comp); err != nil {
			return err
		}
	}
	return c.waitReady(ctx, comp)
}

// StopComponent ends a component as its operator would: SIGTERM, and SIGKILL
// when it takes too long.
func (c *Cluster) StopComponent(name string) error {
	comp, err := c.component(name)
	if err != nil {
		return err
	}
	return c.table().Stop(name, comp.grace)
}

// KillComponent ends a component with SIGKILL.
func (c *Cluster) KillComponent(name string) error {
	if _, err := c.component(name); err != nil {
		return err
	}
	return c.table().Stop(name, 0)
}

// SignalComponent sends a signal to a component's process, for example SIGSTOP.
func (c *Cluster) SignalComponent(name string, sig syscall.Signal) error {
	r, err := c.table().Get(name)
	if err != nil {
		return err
	}
	there, err := r.Signal(sig)
	if err == nil && !there {
		err = fmt.Errorf("%s does not run", name)
	}
	return err
}

func (c *Cluster) component(name string) (component, error) {
	var names []string
	for _, comp := range c.components() {
		if comp.name == name {
			return comp, nil
		}
		names = append(names, comp.name)
	}
	return component{}, fmt.Errorf("no component %q in this cluster; it has %v", name, names)
}

// components in the order in which they start.
func (c *Cluster) components() []component {
	all := []component{c.keeper(), c.etcd(), c.s3(), c.apiServer(), c.controllerManager(), c.scheduler(), c.kueue(), c.jobset(), c.kwok()}
	for i := range c.Options.ProcessNodes {
		all = append(all, c.processNode(i))
	}
	if c.Options.KubeletNode {
		all = append(all, c.kubeletNode()...)
	}
	if c.Options.Operator {
		all = append(all, c.operator())
	}
	return all
}

func (c *Cluster) runs(name string) bool {
	r, err := c.table().Get(name)
	return err == nil && r.Alive()
}

// launch starts the process of a component.
func (c *Cluster) launch(comp component) error {
	spec, err := comp.spec()
	if err != nil {
		return fmt.Errorf("%s: %w", comp.name, err)
	}
	p, err := c.table().Start(spec)
	for _, f := range spec.Files {
		_ = f.Close()
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.children[comp.name] = p
	c.mu.Unlock()
	return nil
}

// readyLimit bounds the start of one component.
const readyLimit = 2 * time.Minute

// waitReady waits for every component, and fails with the end of its log as
// soon as one dies.
func (c *Cluster) waitReady(ctx context.Context, comps ...component) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not ready after %s", readyLimit))
	defer cancel()
	for _, comp := range comps {
		if comp.ready == nil {
			continue
		}
		for {
			err := comp.ready(ctx)
			if err == nil {
				break
			}
			for _, other := range comps {
				if dead := c.death(other.name); dead != nil {
					return dead
				}
			}
			if sleep(ctx, 50*time.Millisecond) != nil {
				return fmt.Errorf("%s: %w: %w\n%s", comp.name, context.Cause(ctx), err, c.quoteLog(comp.name))
			}
		}
	}
	return nil
}

// death says how a component ended, or nil while it runs.
func (c *Cluster) death(name string) error {
	c.mu.Lock()
	child := c.children[name]
	c.mu.Unlock()
	how := "ended"
	if child != nil {
		select {
		case <-child.Done():
			how = "ended: " + child.ExitText()
		default:
			return nil
		}
	} else if c.runs(name) {
		return nil
	}
	return fmt.Errorf("%s %s\n%s", name, how, c.quoteLog(name))
}

func (c *Cluster) quoteLog(name string) string {
	const lines, width = 15, 400
	tail := c.LogTail(name, lines)
	if tail == "" {
		tail = "(empty)"
	}
	quoted := strings.Split(tail, "\n")
	for i, line := range quoted {
		if len(line) > width {
			quoted[i] = line[:width] + " ..."
		}
	}
	return fmt.Sprintf("last lines of %s:\n%s", c.table().LogPath(name), strings.Join(quoted, "\n"))
}
