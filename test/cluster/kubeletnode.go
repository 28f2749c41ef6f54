package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"rtj.dev/rtj/test/cluster/internal/build"
	"rtj.dev/rtj/test/cluster/internal/cgroup"
	"rtj.dev/rtj/test/cluster/internal/pki"
	"rtj.dev/rtj/test/cluster/internal/proc"
)

// KubeletNodeName is the name of the node with a real kubelet.
const KubeletNodeName = "kubelet-0"

// Components of a kubelet node, in the order in which they start. The first one
// holds the mount and network namespaces in which all but the gateway run; see
// test/kubeletnode.
const (
	NodeNamespaces = "node-namespaces"
	NodeGateway    = "node-gateway"
	Containerd     = "containerd"
	CoreDNS        = "coredns"
	Kubelet        = "kubelet"
)

// kubeletNode are the components of the kubelet node.
func (c *Cluster) kubeletNode() []component {
	return []component{c.nodeNamespaces(), c.nodeGateway(), c.containerd(), c.coreDNS(), c.kubelet()}
}

func (i Info) kubeletNodePath() string { return i.path("bin", "kubelet-node") }

func (i Info) pausePath() string { return i.path("bin", "pause") }

// nodeConfig is a file of the kubelet node's configuration.
func (i Info) nodeConfig(elem ...string) string {
	return i.path(append([]string{"config", KubeletNodeName}, elem...)...)
}

// podCgroup is the cgroup below which all containers of the kubelet node are.
func (i Info) podCgroup() string { return "rtj-" + i.ID }

func (c *Cluster) nodeNamespaces() component {
	return component{
		name: NodeNamespaces, grace: time.Second,
		spec: func() (proc.Spec, error) {
			return proc.Spec{
				Name: NodeNamespaces, Path: c.kubeletNodePath(), Dir: c.Dir, Sys: newNodeNamespaces(),
				Args: []string{"hold", "--dir=" + c.path("nodes", KubeletNodeName), "--addresses=" + serviceIP + "," + dnsIP},
			}, nil
		},
		ready: func(context.Context) error {
			path, err := c.inNode("/run/kubelet-node/ready")
			if err == nil {
				_, err = os.Stat(path)
			}
			return err
		},
	}
}

// holder is the pid of the process that holds the node's namespaces.
func (c *Cluster) holder() (int, error) {
	r, err := c.table().Get(NodeNamespaces)
	if err != nil || !r.Alive() {
		return 0, fmt.Errorf("%s does not run", NodeNamespaces)
	}
	return r.PID, nil
}

// inNode is where a path of the node's mount namespace is seen from outside.
func (c *Cluster) inNode(path string) (string, error) {
	pid, err := c.holder()
	return fmt.Sprintf("/proc/%d/root%s", pid, path), err
}

// nodeProgram is the spec of a program that runs in the node's namespaces.
func (c *Cluster) nodeProgram(name, program string, args ...string) (proc.Spec, error) {
	pid, err := c.holder()
	return proc.Spec{
		Name: name, Path: c.kubeletNodePath(), Dir: "/",
		Args: append([]string{"enter", fmt.Sprint(pid), program}, args...),
		// containerd looks for its shim and for runc, and those for others.
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}, err
}

func (c *Cluster) nodeGateway() component {
	return component{
		name: NodeGateway, grace: time.Second,
		spec: func() (proc.Spec, error) {
			pid, err := c.holder()
			if err != nil {
				return proc.Spec{}, err
			}
			args := []string{
				"gateway", fmt.Sprintf("--holder=%d", pid),
				fmt.Sprintf("--api-server=%d", c.Ports[APIServer]), "--api-service=" + net.JoinHostPort(serviceIP, "443"),
				fmt.Sprintf("--node-port=%d", c.Ports[Kubelet]), fmt.Sprintf("--node-port=%d", c.Ports[CoreDNS]),
				fmt.Sprintf("--machine-port=%d", c.Ports["s3"]), "--pause=" + c.pausePath(),
			}
			for _, image := range c.Options.NodeImages {
				args = append(args, "--image="+image)
			}
			return proc.Spec{Name: NodeGateway, Path: c.kubeletNodePath(), Args: args, Dir: c.Dir}, nil
		},
		ready: func(ctx context.Context) error { return c.nodeListens(ctx, "/run/kubelet-node/gateway.sock") },
	}
}

// nodeListens: somebody listens on a socket of the node.
func (c *Cluster) nodeListens(ctx context.Context, socket string) error {
	path, err := c.inNode(socket)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	return conn.Close()
}

// prepareKubeletNode makes what a component of the kubelet node needs.
func (c *Cluster) prepareKubeletNode(ctx context.Context, name string) error {
	switch name {
	case NodeNamespaces:
		return c.prepareNamespaces(ctx)
	case Containerd:
		return c.prepareContainerd(ctx)
	case CoreDNS:
		return c.prepareCoreDNS(ctx)
	case Kubelet:
		return c.prepareKubelet()
	}
	return nil
}

// prepareNamespaces builds the programs and ends what is left of a node whose
// namespaces nobody holds any more: it could not be entered again.
func (c *Cluster) prepareNamespaces(ctx context.Context) error {
	for _, name := range []string{Kubelet, CoreDNS, Containerd, NodeGateway} {
		if _, err := c.table().Get(name); err == nil {
			if err := c.table().Stop(name, 0); err != nil {
				return err
			}
		}
	}
	if err := endShims(c.table()); err != nil {
		return err
	}
	if err := cgroup.Remove(c.podCgroup()); err != nil {
		return err
	}
	module := filepath.Join(c.Options.Root, "test", "kubeletnode")
	if err := build.Local(ctx, module, ".", c.kubeletNodePath()); err != nil {
		return fmt.Errorf("build kubelet-node: %w", err)
	}
	if err := build.Local(ctx, module, "./pause", c.pausePath()); err != nil {
		return fmt.Errorf("build pause: %w", err)
	}
	return nil
}

// bringUpKubeletNode starts one component after the other.
func (c *Cluster) bringUpKubeletNode(ctx context.Context, run func(...component) error) error {
	for _, comp := range c.kubeletNode() {
		if err := run(comp); err != nil {
			return err
		}
		if err := c.waitReady(ctx, comp); err != nil {
			return err
		}
	}
	return nil
}

// endShims ends containerd's shims, which hold their containers and outlive it.
// No record names them.
func endShims(table proc.Table) error {
	marked, err := table.Marked()
	if err != nil {
		return err
	}
	for _, id := range marked {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", id.PID))
		if err != nil || !strings.HasPrefix(string(name), "containerd-shim") {
			continue
		}
		if _, err := id.Signal(syscall.SIGKILL); err != nil {
			return err
		}
	}
	return nil
}

// newNodeNamespaces are the namespaces that the node has for itself.
func newNodeNamespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
}

func isKubeletNode(name string) bool {
	return slices.Contains([]string{NodeNamespaces, NodeGateway, Containerd, CoreDNS, Kubelet}, name)
}

// cleanKubeletNode ends the containers, which outlive everything else.
func cleanKubeletNode(info Info) error {
	if err := cgroup.Remove(info.podCgroup()); err != nil {
		return fmt.Errorf("end the containers of %s: %w", KubeletNodeName, err)
	}
	return nil
}

// kubeletIdentities are the node's as a client of the API server and as a server.
func (c *Cluster) kubeletIdentities() error {
	authority, err := pki.Open(c.path("pki"))
	if err != nil {
		return err
	}
	if err := issue(authority, c.Info, identity{KubeletNodeName, "system:node:" + KubeletNodeName, []string{"system:nodes"}}); err != nil {
		return err
	}
	_, err = authority.Serving(KubeletNodeName + "-serving")
	return err
}
