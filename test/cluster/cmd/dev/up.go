package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"rtj.dev/rtj/test/cluster"
)

// upFlags are those of `dev up`. On a cluster that exists, only what is given
// changes.
type upFlags struct {
	dir                     *string
	nodes                   string
	fakeNodes, processNodes int
	operator, jobsetPods    bool
	frameworks, kueueConfig string
	nodeGrace, evictAfter   time.Duration
	kueueGates, jobsetGates gatesFlag
	images, operatorArgs    listFlag
	existing                bool
	context                 string
}

func (u *upFlags) add(flags *flag.FlagSet) {
	u.kueueGates, u.jobsetGates = gatesFlag{}, gatesFlag{}
	u.dir = dirFlag(flags)
	flags.StringVar(&u.nodes, "nodes", "fake", "kinds of nodes, comma-separated: fake, process, kubelet, none")
	flags.IntVar(&u.fakeNodes, "fake-nodes", 4, "number of fake nodes; on a cluster that exists, at least so many")
	flags.IntVar(&u.processNodes, "process-nodes", 1, "number of process nodes; on a cluster that exists, at least so many")
	flags.Var(&u.images, "node-image", "NAME=DIR, an environment of process and kubelet nodes (repeatable; default python=.venv)")
	flags.BoolVar(&u.operator, "operator", false, "also run the operator (rtj run)")
	flags.Var(&u.operatorArgs, "operator-arg", "further argument of rtj run (repeatable)")
	flags.StringVar(&u.frameworks, "kueue-frameworks", "", "Kueue integrations, comma-separated: batch/job, jobset.x-k8s.io/jobset, pod (default the first two)")
	flags.Var(u.kueueGates, "kueue-feature-gate", "NAME=true or NAME=false (repeatable)")
	flags.StringVar(&u.kueueConfig, "kueue-config", "", "YAML `file` that is laid over Kueue's configuration")
	flags.Var(u.jobsetGates, "jobset-feature-gate", "NAME=true or NAME=false (repeatable)")
	flags.BoolVar(&u.jobsetPods, "jobset-pod-webhook", false, "install JobSet's webhook on pods")
	flags.DurationVar(&u.nodeGrace, "node-monitor-grace-period", 0, "time after which a silent node is lost (default 50s)")
	flags.DurationVar(&u.evictAfter, "pod-eviction-delay", 0, "time that pods stay on a lost node (default 5m)")
	flags.BoolVar(&u.existing, "existing", false, "install RTJ into the current kubeconfig context instead")
	flags.StringVar(&u.context, "context", "", "with --existing: another kubeconfig context")
}

func up(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	var u upFlags
	u.add(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("up takes no arguments, got %q", flags.Args())
	}
	if u.existing {
		return cluster.InstallExisting(ctx, u.context, os.Stdout)
	}
	stored, err := storedOptions(*u.dir)
	if err != nil {
		return err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	opts, err := u.options(stored, given)
	if err != nil {
		return err
	}
	opts.Dir, opts.Persistent, opts.Progress = *u.dir, true, os.Stdout
	begin := time.Now()
	c, err := cluster.Start(ctx, opts)
	if err != nil {
		return err
	}
	fmt.Printf("up in %.1f s; paste this to use it:\n%s", time.Since(begin).Seconds(), shellLines(c))
	return nil
}

// options lays the flags that were given over the options of the cluster that
// exists, nil if there is none.
func (u *upFlags) options(stored *cluster.Options, given map[string]bool) (cluster.Options, error) {
	var opts cluster.Options
	if stored != nil {
		opts = *stored
	}
	want := map[string]bool{"fake": given["fake-nodes"], "process": given["process-nodes"]}
	if stored == nil || given["nodes"] {
		for kind := range strings.SplitSeq(u.nodes, ",") {
			if !slices.Contains([]string{"fake", "process", "kubelet", "none"}, kind) {
				return opts, fmt.Errorf("--nodes %q: kinds are fake, process, kubelet and none", u.nodes)
			}
			want[kind] = true
		}
	}
	if want["fake"] {
		opts.FakeNodes = max(opts.FakeNodes, u.fakeNodes)
	}
	if want["process"] {
		opts.ProcessNodes = max(opts.ProcessNodes, u.processNodes)
	}
	if want["kubelet"] {
		opts.KubeletNode = true
	}
	var err error
	for name, set := range map[string]func(){
		"operator":                  func() { opts.Operator = u.operator },
		"operator-arg":              func() { opts.OperatorArgs = u.operatorArgs },
		"node-image":                func() { opts.NodeImages = u.images },
		"kueue-frameworks":          func() { opts.KueueFrameworks = strings.Split(u.frameworks, ",") },
		"kueue-feature-gate":        func() { opts.KueueFeatureGates = u.kueueGates },
		"jobset-feature-gate":       func() { opts.JobSetFeatureGates = u.jobsetGates },
		"jobset-pod-webhook":        func() { opts.JobSetPodWebhook = u.jobsetPods },
		"node-monitor-grace-period": func() { opts.NodeMonitorGracePeriod = u.nodeGrace },
		"pod-eviction-delay":        func() { opts.PodEvictionDelay = u.evictAfter },
		"kueue-config":              func() { opts.KueueConfig, err = readYAML(u.kueueConfig) },
	} {
		if given[name] {
			set()
		}
	}
	return opts, err
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

// gatesFlag collects feature gates.
type gatesFlag map[string]bool

func (g gatesFlag) String() string { return fmt.Sprint(map[string]bool(g)) }

func (g gatesFlag) Set(v string) error {
	name, value, _ := strings.Cut(v, "=")
	on, err := strconv.ParseBool(value)
	if err != nil || name == "" {
		return fmt.Errorf("%q is not NAME=true or NAME=false", v)
	}
	g[name] = on
	return nil
}

func readYAML(path string) (map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(data, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return values, nil
}

// listFlag collects the values of a repeatable flag.
type listFlag []string

func (l *listFlag) String() string { return strings.Join(*l, " ") }

func (l *listFlag) Set(v string) error {
	*l = append(*l, v)
	return nil
}
