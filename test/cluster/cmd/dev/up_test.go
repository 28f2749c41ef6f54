package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"rtj.dev/rtj/test/cluster"
)

func TestFlagsBecomeOptions(t *testing.T) {
	config := filepath.Join(t.TempDir(), "kueue.yaml")
	if err := os.WriteFile(config, []byte("waitForPodsReady: {timeout: 2m}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	exists := cluster.Options{FakeNodes: 6, ProcessNodes: 2, Operator: true, KueueFrameworks: []string{"pod"},
		NodeImages: []string{"a=/a"}, NodeMonitorGracePeriod: time.Minute}
	with := func(change func(*cluster.Options)) cluster.Options {
		o := exists
		change(&o)
		return o
	}
	for _, c := range []struct {
		name   string
		stored *cluster.Options
		args   []string
		want   cluster.Options
	}{
		{"a new cluster has fake nodes", nil, nil, cluster.Options{FakeNodes: 4}},
		{"none", nil, []string{"--nodes=none"}, cluster.Options{}},
		{"a new one with processes", nil, []string{"--nodes=process"}, cluster.Options{ProcessNodes: 1}},
		{"both", nil, []string{"--nodes=fake,process", "--fake-nodes=2"}, cluster.Options{FakeNodes: 2, ProcessNodes: 1}},
		{"a kubelet", nil, []string{"--nodes=fake,kubelet"}, cluster.Options{FakeNodes: 4, KubeletNode: true}},
		{"a kubelet can be added", &exists, []string{"--nodes=kubelet"}, with(func(o *cluster.Options) { o.KubeletNode = true })},
		{"a number says that kind too", nil, []string{"--process-nodes=3"}, cluster.Options{FakeNodes: 4, ProcessNodes: 3}},
		{"nothing given changes nothing", &exists, nil, exists},
		{"the operator can be added", &cluster.Options{FakeNodes: 1}, []string{"--operator"}, cluster.Options{FakeNodes: 1, Operator: true}},
		{"more nodes", &exists, []string{"--process-nodes=5"}, with(func(o *cluster.Options) { o.ProcessNodes = 5 })},
		{"there are enough already", &exists, []string{"--nodes=fake,process"}, exists},
		{"everything else", nil, []string{"--nodes=none", "--node-image=x=/x", "--node-image=y=/y", "--operator", "--operator-arg=-v",
			"--kueue-frameworks=batch/job,pod", "--kueue-feature-gate=A=true", "--kueue-feature-gate=B=false", "--kueue-config=" + config,
			"--jobset-feature-gate=C=true", "--jobset-pod-webhook", "--node-monitor-grace-period=20s", "--pod-eviction-delay=1s"},
			cluster.Options{NodeImages: []string{"x=/x", "y=/y"}, Operator: true, OperatorArgs: []string{"-v"},
				KueueFrameworks: []string{"batch/job", "pod"}, KueueFeatureGates: map[string]bool{"A": true, "B": false},
				KueueConfig:        map[string]any{"waitForPodsReady": map[string]any{"timeout": "2m"}},
				JobSetFeatureGates: map[string]bool{"C": true}, JobSetPodWebhook: true,
				NodeMonitorGracePeriod: 20 * time.Second, PodEvictionDelay: time.Second}},
	} {
		got, err := parseUp(t, c.stored, c.args)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--nodes=real"}, {"--kueue-feature-gate=A"}, {"--kueue-feature-gate==true"}, {"--kueue-config=/nonexistent"}, {"--what"},
	} {
		if got, err := parseUp(t, nil, args); err == nil {
			t.Errorf("%q: got %+v, want an error", args, got)
		}
	}
}

func parseUp(t *testing.T, stored *cluster.Options, args []string) (cluster.Options, error) {
	t.Helper()
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var u upFlags
	u.add(flags)
	if err := flags.Parse(args); err != nil {
		return cluster.Options{}, err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return u.options(stored, given)
}
