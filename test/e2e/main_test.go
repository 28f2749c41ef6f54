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
	// envMetacontroller is the binary that runs the hooks instead of the embedded applier.
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
	// metacontroller runs the hooks; nil: the operator does.
	metacontroller *harness.Metacontroller
	// run tells this run's namespaces from those of another on the same cluster.
	run = fmt.Sprintf("%x", time.Now().Unix()%0x100000)
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx); err != nil {
		fmt.Println("cannot start:", err)
		return 1
	}
	code := m.Run()
	if metacontroller != nil {
		metacontroller.Stop()
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
		Progress: os.Stdout, ProcessNodes: processNodes, Operator: os.Getenv(envMetacontroller) == "",
		NodeArgs: []string{"--gpus=64"},
		// As in a stock Kueue, which also looks at plain pods.
		KueueFrameworks: []string{cluster.FrameworkJob, cluster.FrameworkJobSet, cluster.FrameworkPod},
		// Nodes are lost on purpose, and pods are given up soon after.
		NodeMonitorGracePeriod: 30 * time.Second, PodEvictionDelay: 2 * time.Second,
		Persistent: os.Getenv(envKeep) != "",
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
	if world.Options.ProcessNodes < processNodes {
		return fmt.Errorf("the cluster has %d process nodes, %d are needed", world.Options.ProcessNodes, processNodes)
	}
	if binary := os.Getenv(envMetacontroller); binary != "" {
		if metacontroller, err = world.StartMetacontroller(ctx, binary); err != nil {
			return err
		}
	}
	return errors.Join(
		world.Pool(ctx, sharedPool, cluster.ProcessNodeName(0), cluster.ProcessNodeName(1)),
		world.Pool(ctx, lostPool, cluster.ProcessNodeName(lostNode), cluster.ProcessNodeName(spareNode)))
}
