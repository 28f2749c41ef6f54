// Command demo tells the story that RTJ exists for, on a local cluster with real
// processes: a training is preempted, checkpoints, waits, and goes on exactly
// where it stopped. It checks every claim that it makes, and leaves the cluster
// up to look around in.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"rtj.dev/rtj/test/cluster"
	"rtj.dev/rtj/test/harness"
)

// storyLimit bounds the story, the cluster being up.
const storyLimit = 5 * time.Minute

func main() {
	dir := flag.String("dir", "", "state folder of the cluster (default .local/cluster of the checkout)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := demo(ctx, *dir)
	stop()
	if err != nil {
		fmt.Printf("demo: failed: %v\n", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, dir string) error {
	if err := probe(); err != nil {
		return err
	}
	root, err := cluster.FindRoot()
	if err != nil {
		return err
	}
	if problem := harness.PythonProblem(root); problem != "" {
		return errors.New(problem)
	}
	if dir == "" {
		dir = filepath.Join(root, ".local", "cluster")
	}
	c, err := bringUp(ctx, root, dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, storyLimit, fmt.Errorf("the story took longer than %s", storyLimit))
	defer cancel()
	summary, err := tell(ctx, c)
	if err != nil && context.Cause(ctx) != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	fmt.Println()
	fmt.Println("The cluster is up (`make dev-down` ends it). Paste this to look around:")
	fmt.Printf("  export KUBECONFIG=%s\n  export PATH=%s:$PATH\n  kubectl get rtj,workloads,jobsets,pods -n %s\n\n", c.Kubeconfig, c.Programs.BinDir, namespace)
	if err != nil {
		return err
	}
	fmt.Println("demo: ok", summary)
	return nil
}

// probe says what this machine lacks, before anything is built for minutes.
func probe() error {
	missing := false
	for _, f := range cluster.Probe() {
		if f.Problem != "" {
			missing = true
			fmt.Printf("%s: %s: %s\n", f.What, f.Seen, f.Problem)
		}
	}
	if missing {
		return errors.New("this machine cannot run the local cluster yet; see above")
	}
	return nil
}

// bringUp starts the cluster, or adds what the demo needs to the one that is there.
func bringUp(ctx context.Context, root, dir string) (*harness.Cluster, error) {
	options := cluster.Options{}
	info, err := cluster.ReadInfo(dir)
	switch {
	case err == nil:
		options = info.Options
	case !errors.Is(err, cluster.ErrNoCluster):
		return nil, err
	}
	options.Root, options.Dir, options.Persistent, options.Progress = root, dir, true, os.Stdout
	options.ProcessNodes = max(options.ProcessNodes, 2)
	options.Operator = true
	if venv := "python=" + filepath.Join(root, ".venv"); !slices.Contains(options.NodeImages, venv) {
		options.NodeImages = append(options.NodeImages, venv)
	}
	fmt.Println("The local cluster: a real API server, scheduler, Kueue, JobSet and S3 server, as processes of this machine.")
	c, startErr := harness.Start(ctx, options)
	if startErr != nil || err != nil {
		return c, startErr
	}
	// One that was there may run an operator of yesterday.
	fmt.Println("        the operator is built and started anew")
	if err := c.StopComponent(cluster.Operator); err != nil {
		return nil, err
	}
	return c, c.StartComponent(ctx, cluster.Operator)
}
