package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"rtj.dev/rtj/test/cluster/internal/build"
	"rtj.dev/rtj/test/cluster/internal/manifest"
	"rtj.dev/rtj/test/cluster/internal/pki"
	"rtj.dev/rtj/test/cluster/internal/proc"
)

const (
	processNodePrefix = "process-"
	// processNodeGrace is how long a node may take to end; its containers run
	// on without it.
	processNodeGrace = 5 * time.Second
)

// ProcessNodeName is the name of the i-th process node, and of its component.
func ProcessNodeName(i int) string { return processNodePrefix + strconv.Itoa(i) }

func (i Info) processNodePath() string { return i.path("bin", "process-node") }

func (i Info) processNodeDir(name string) string { return i.path("nodes", name) }

// nodePeers lets nodes see the pods of other nodes, which they need to write
// the names of a pod's peers into its hosts file. The Node authorizer lets a
// node see only its own.
const nodePeers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: rtj-local-process-nodes}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: rtj-local-process-nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: rtj-local-process-nodes}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes"}]
`

func (c *Cluster) allowNodePeers(ctx context.Context, apply *applier) error {
	roles, err := manifest.Parse([]byte(nodePeers))
	if err != nil {
		return err
	}
	return apply.all(ctx, roles)
}

// prepareProcessNode builds the program and gives the node its identities, as
// a client of the API server and as a server of logs.
func (c *Cluster) prepareProcessNode(ctx context.Context, name string) error {
	module := filepath.Join(c.Options.Root, "test", "node")
	if _, err := os.Stat(filepath.Join(module, "go.mod")); err != nil {
		return fmt.Errorf("process nodes need the module test/node: %w", err)
	}
	if err := build.Local(ctx, module, ".", c.processNodePath()); err != nil {
		return fmt.Errorf("build process-node: %w", err)
	}
	authority, err := pki.Open(c.path("pki"))
	if err != nil {
		return err
	}
	if err := issue(authority, c.Info, identity{name, "system:node:" + name, []string{"system:nodes"}}); err != nil {
		return err
	}
	i, err := strconv.Atoi(strings.TrimPrefix(name, processNodePrefix))
	if err != nil {
		return err
	}
	address, err := nodeAddress(c.slot().NodeRange(i))
	if err != nil {
		return err
	}
	_, err = authority.Serving(name+"-serving", address)
	return err
}

// nodeAddress is the first address of a range: the node's own.
func nodeAddress(cidr string) (string, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", err
	}
	return prefix.Addr().Next().String(), nil
}

func (c *Cluster) processNode(i int) component {
	name := ProcessNodeName(i)
	port := c.Ports[name]
	return component{
		name: name, port: port, grace: processNodeGrace,
		ready: func(ctx context.Context) error { return c.processNodeReady(ctx, i) },
		spec: func() (proc.Spec, error) {
			dir := c.processNodeDir(name)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return proc.Spec{}, err
			}
			args := []string{
				"--kubeconfig=" + c.kubeconfig(name), "--name=" + name, "--dir=" + dir,
				"--pod-cidr=" + c.slot().NodeRange(i), fmt.Sprintf("--port=%d", port),
				"--api-server=" + c.APIServer, "--cluster-ca=" + c.ClusterCA,
				"--tls-cert-file=" + c.pki(name+"-serving.crt"), "--tls-private-key-file=" + c.pki(name+"-serving.key"),
				"--labels=" + NodeKindLabel + "=process",
			}
			if len(c.Options.NodeImages) > 0 {
				args = append(args, "--images="+strings.Join(c.Options.NodeImages, ","))
			}
			return proc.Spec{Name: name, Path: c.processNodePath(), Args: append(args, c.Options.NodeArgs...), Dir: c.Dir}, nil
		},
	}
}

// processNodeReady: the process listens, and the API server has heard of it. A
// node that was lost a moment ago still shows as Ready, so the second alone
// would not do.
func (c *Cluster) processNodeReady(ctx context.Context, i int) error {
	name := ProcessNodeName(i)
	address, err := nodeAddress(c.slot().NodeRange(i))
	if err != nil {
		return err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(c.Ports[name])))
	if err != nil {
		return err
	}
	_ = conn.Close()
	return c.ready(ctx, name)
}

// cleanProcessNode ends the containers that a process node, which no longer
// runs, has left behind.
func cleanProcessNode(ctx context.Context, info Info, name string) error {
	dir := info.processNodeDir(name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, info.processNodePath(), "cleanup", "--dir="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("clean up after %s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}
