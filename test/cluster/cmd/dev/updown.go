package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/test/cluster"
)

const defaultFakeNodes = 4

func up(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	dir := dirFlag(flags)
	nodes := flags.String("nodes", "fake", "kinds of nodes, comma-separated: fake, process, none")
	fakeNodes := flags.Int("fake-nodes", defaultFakeNodes, "number of fake nodes")
	processNodes := flags.Int("process-nodes", 1, "number of process nodes")
	operator := flags.Bool("operator", false, "also run the operator (rtj run)")
	frameworks := flags.String("kueue-frameworks", "", "Kueue integrations, comma-separated (batch/job, jobset.x-k8s.io/jobset, pod); default the first two")
	nodeGrace := flags.Duration("node-monitor-grace-period", 0, "time after which a silent node is lost (default 50s)")
	evictAfter := flags.Duration("pod-eviction-delay", 0, "time that pods stay on a lost node (default 5m)")
	jobsetPods := flags.Bool("jobset-pod-webhook", false, "install JobSet's webhook on pods")
	images := listFlag{}
	flags.Var(&images, "node-image", "NAME=ENVIRONMENT of process nodes (repeatable)")
	operatorArgs := listFlag{}
	flags.Var(&operatorArgs, "operator-arg", "further argument of rtj run (repeatable)")
	existing := flags.Bool("existing", false, "install RTJ into the current kubeconfig context instead")
	contextName := flags.String("context", "", "with --existing: kubeconfig context")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *existing {
		return upExisting(ctx, *contextName)
	}

	opts, err := storedOptions(*dir)
	if err != nil {
		return err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	fresh := opts == nil
	if fresh {
		opts = &cluster.Options{}
	}
	opts.Dir, opts.Persistent, opts.Progress = *dir, true, os.Stdout
	kinds := strings.Split(*nodes, ",")
	for _, k := range kinds {
		if !slices.Contains([]string{"fake", "process", "none"}, k) {
			return fmt.Errorf("--nodes %q: kinds are fake, process and none", *nodes)
		}
	}
	if (fresh || given["nodes"] || given["fake-nodes"]) && slices.Contains(kinds, "fake") {
		opts.FakeNodes = *fakeNodes
	}
	if (fresh || given["nodes"] || given["process-nodes"]) && slices.Contains(kinds, "process") {
		opts.ProcessNodes = *processNodes
	}
	if given["operator"] {
		opts.Operator = *operator
	}
	if given["operator-arg"] {
		opts.OperatorArgs = operatorArgs
	}
	if given["node-image"] {
		opts.NodeImages = images
	}
	if *frameworks != "" {
		opts.KueueFrameworks = strings.Split(*frameworks, ",")
	}
	if given["node-monitor-grace-period"] {
		opts.NodeMonitorGracePeriod = *nodeGrace
	}
	if given["pod-eviction-delay"] {
		opts.PodEvictionDelay = *evictAfter
	}
	if given["jobset-pod-webhook"] {
		opts.JobSetPodWebhook = *jobsetPods
	}

	begin := time.Now()
	c, err := cluster.Start(ctx, *opts)
	if err != nil {
		return err
	}
	fmt.Printf("up in %.1f s; paste this to use it:\n%s", time.Since(begin).Seconds(), shellLines(c))
	return nil
}

// storedOptions are those of a cluster that exists, nil if there is none.
func storedOptions(dir string) (*cluster.Options, error) {
	info, err := cluster.ReadInfo(dir)
	if errors.Is(err, cluster.ErrNoCluster) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	opts := info.Options
	opts.Root = ""
	return &opts, nil
}

func shellLines(c *cluster.Cluster) string {
	return fmt.Sprintf("  export KUBECONFIG=%s\n  export PATH=%s:$PATH\n", c.Kubeconfig, c.Programs.BinDir)
}

func down(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("down", flag.ContinueOnError)
	dir := dirFlag(flags)
	keepLogs := flags.Bool("keep-logs", false, "keep logs and the audit log")
	if err := parse(flags, args); err != nil {
		return err
	}
	err := cluster.Down(ctx, *dir, *keepLogs)
	if errors.Is(err, cluster.ErrNoCluster) {
		fmt.Println("nothing to take down:", err)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Println("down:", *dir)
	return nil
}

func env(_ context.Context, args []string) error {
	c, _, err := open("env", args)
	if err != nil {
		return err
	}
	fmt.Print(shellLines(c))
	return nil
}

// dirFlag is the state folder, by default .local/cluster in the checkout.
func dirFlag(flags *flag.FlagSet) *string {
	fallback := ".local/cluster"
	if root, err := cluster.FindRoot(); err == nil {
		fallback = filepath.Join(root, fallback)
	}
	return flags.String("dir", fallback, "state folder")
}

func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errSilent // the flag package has said why
	}
	return nil
}

// open parses the flags of a command on a cluster that exists.
func open(name string, args []string) (*cluster.Cluster, []string, error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	dir := dirFlag(flags)
	if err := parse(flags, args); err != nil {
		return nil, nil, err
	}
	c, err := cluster.Open(*dir)
	return c, flags.Args(), err
}

// listFlag collects the values of a repeatable flag.
type listFlag []string

func (l *listFlag) String() string { return strings.Join(*l, " ") }

func (l *listFlag) Set(v string) error {
	*l = append(*l, v)
	return nil
}

func upExisting(ctx context.Context, contextName string) error {
	return cluster.InstallExisting(ctx, contextName, os.Stdout)
}
