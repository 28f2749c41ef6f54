//go:build e2e

// Package e2e runs ResumableTrainingJobs on a local cluster with a real control
// plane, real Kueue and JobSet, a real S3 server, and training processes, and
// disturbs them. See README.md.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"rtj.dev/rtj/test/cluster"
	"rtj.dev/rtj/test/harness"
)

// The environment of the suites; the runner sets it from its flags.
const (
	// envCluster names the state folder of a running cluster to use instead of a new one.
	envCluster = "E2E_CLUSTER"
	// envKeep leaves the namespaces of failed tests and a new cluster as they are.
	envKeep = "E2E_KEEP"
	// envNode is the kind of the nodes that train: process, the default, or kubelet.
	envNode = "E2E_NODE"
	// envRunner is who runs the hooks: embedded, the default, or metacontroller.
	envRunner = "E2E_RUNNER"
	// envMetacontroller is Metacontroller's binary. Tests of both runners need it too.
	envMetacontroller = "E2E_METACONTROLLER"
)

// Nodes of the cluster. Tests that lose a node have one of their own.
const (
	processNodes = 4
	// lostNode is lost; its jobs may also run on spareNode.
	lostNode  = 2
	spareNode = 3

	sharedPool = "shared"
	lostPool   = "lost"
)

var (
	world *harness.Cluster
	// runner runs the hooks. Tests that stop it run alone.
	runner harness.Runner
	// embedded and metacontroller are what it can be; metacontroller is nil where
	// there is no binary.
	embedded       *harness.Embedded
	metacontroller *harness.Metacontroller
	// run tells this run's namespaces from those of another on the same cluster.
	run = fmt.Sprintf("%x", time.Now().Unix()%0x100000)
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx)
	// From here on a signal ends this process, and the keeper of the cluster all else.
	stop()
	if err != nil {
		fmt.Println("cannot start:", err)
		return 1
	}
	code := m.Run()
	if runner == metacontroller && metacontroller != nil {
		_ = runner.Stop()
	}
	if os.Getenv(envCluster) == "" && os.Getenv(envKeep) == "" {
		if err := world.Close(); err != nil {
			fmt.Println("cannot take the cluster down:", err)
			return max(code, 1)
		}
	}
	return code
}

func start(ctx context.Context) error {
	options := cluster.Options{
		Progress: os.Stdout, ProcessNodes: processNodes, Operator: os.Getenv(envRunner) != "metacontroller",
		NodeArgs: []string{"--gpus=64"},
		// As in a stock Kueue, which also looks at plain pods.
		KueueFrameworks: []string{cluster.FrameworkJob, cluster.FrameworkJobSet, cluster.FrameworkPod},
		// Nodes are lost on purpose, and pods are given up soon after.
		NodeMonitorGracePeriod: 30 * time.Second, PodEvictionDelay: 2 * time.Second,
		Persistent: os.Getenv(envKeep) != "",
	}
	if os.Getenv(envNode) == "kubelet" {
		options.ProcessNodes, options.NodeArgs, options.KubeletNode = 0, nil, true
	}
	var err error
	if dir := os.Getenv(envCluster); dir != "" {
		world, err = harness.Open(dir)
	} else {
		world, err = harness.Start(ctx, options)
	}
	if err != nil {
		return err
	}
	if problem := harness.PythonProblem(world.Options.Root); problem != "" {
		return errors.New(problem)
	}
	if n := world.Options.ProcessNodes; n < processNodes && world.Options.TrainingKind() != "kubelet" {
		return fmt.Errorf("the cluster has %d process nodes, %d are needed", n, processNodes)
	}
	if err := startRunner(ctx); err != nil {
		return err
	}
	if world.Options.TrainingKind() == "kubelet" {
		patience *= 2
		return world.Pool(ctx, sharedPool, cluster.KubeletNodeName)
	}
	return errors.Join(
		world.Pool(ctx, sharedPool, cluster.ProcessNodeName(0), cluster.ProcessNodeName(1)),
		world.Pool(ctx, lostPool, cluster.ProcessNodeName(lostNode), cluster.ProcessNodeName(spareNode)))
}

func startRunner(ctx context.Context) error {
	embedded = world.NewEmbedded()
	if binary := os.Getenv(envMetacontroller); binary != "" {
		metacontroller = world.NewMetacontroller(binary)
	}
	switch name := os.Getenv(envRunner); {
	case name == "" || name == embedded.String():
		runner = embedded
	case metacontroller == nil || name != metacontroller.String():
		return fmt.Errorf("%s=%s needs %s", envRunner, name, envMetacontroller)
	default:
		if err := embedded.Stop(); err != nil {
			return err
		}
		runner = metacontroller
	}
	return runner.Start(ctx, harness.Endpoint{})
}
