package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"rtj.dev/rtj/test/cluster/internal/build"
	"rtj.dev/rtj/test/cluster/internal/pki"
	"rtj.dev/rtj/test/cluster/internal/proc"
)

const processNodePrefix = "process-"

func processNodeName(i int) string { return processNodePrefix + strconv.Itoa(i) }

// ProcessNodeName is the name of the i-th process node, and of its component.
func ProcessNodeName(i int) string { return processNodeName(i) }

func (c *Cluster) processNodePath() string { return c.path("bin", "process-node") }

// prepareProcessNode builds the program and gives the node its identity.
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
	return issue(authority, c.Info, identity{name, "system:node:" + name, []string{"system:nodes"}})
}

func (c *Cluster) processNode(i int) component {
	name := processNodeName(i)
	port := c.Ports[name]
	return component{
		name: name, port: port, grace: 20 * time.Second,
		spec: func() (proc.Spec, error) {
			dir := c.path("nodes", name)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return proc.Spec{}, err
			}
			args := []string{
				"--kubeconfig=" + c.kubeconfig(name), "--name=" + name, "--dir=" + dir,
				"--pod-cidr=" + c.slot().NodeRange(i),
				"--api-server=" + c.APIServer, "--cluster-ca=" + c.ClusterCA,
			}
			if len(c.Options.NodeImages) > 0 {
				args = append(args, "--images="+strings.Join(c.Options.NodeImages, ","))
			}
			return proc.Spec{Name: name, Path: c.processNodePath(), Args: append(args, c.Options.NodeArgs...), Dir: c.Dir}, nil
		},
	}
}
