package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOptionsSayWhatIsWrong(t *testing.T) {
	for want, o := range map[string]Options{
		"fake nodes":                {FakeNodes: -1},
		"1001 fake nodes":           {FakeNodes: 1001},
		"17 process nodes":          {ProcessNodes: 17},
		`"ray.io/rayjob"`:           {KueueFrameworks: []string{"ray.io/rayjob"}},
		"node monitor grace period": {NodeMonitorGracePeriod: time.Second},
		"pod eviction delay":        {PodEvictionDelay: -time.Second},
	} {
		o.Root = t.TempDir()
		if err := o.complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error about %s, got %v", want, err)
		}
	}
	good := Options{Root: t.TempDir(), FakeNodes: 1000, ProcessNodes: 16, KueueFrameworks: []string{FrameworkPod}}
	if err := good.complete(); err != nil {
		t.Error(err)
	}
}

func TestARunningClusterCanOnlyGrow(t *testing.T) {
	base := func() Options {
		return Options{FakeNodes: 2, ProcessNodes: 1, KueueFrameworks: []string{FrameworkJob},
			KueueConfig:            map[string]any{"waitForPodsReady": map[string]any{"timeout": "5m"}},
			NodeMonitorGracePeriod: time.Minute}
	}
	// What is compared with is read back from cluster.json.
	data, err := json.Marshal(base())
	if err != nil {
		t.Fatal(err)
	}
	var old Options
	if err := json.Unmarshal(data, &old); err != nil {
		t.Fatal(err)
	}
	same := base()
	if err := same.extends(old); err != nil {
		t.Errorf("the same options: %v", err)
	}
	grown := base()
	grown.FakeNodes, grown.ProcessNodes, grown.Operator, grown.KubeletNode = 3, 2, true, true
	if err := grown.extends(old); err != nil {
		t.Errorf("more nodes and the operator: %v", err)
	}
	if err := same.extends(grown); err == nil || !strings.Contains(err.Error(), "no kubelet node") {
		t.Errorf("a kubelet node that is to go: %v", err)
	}
	for want, change := range map[string]func(*Options){
		"fewer fake nodes":          func(o *Options) { o.FakeNodes = 1 },
		"fewer process nodes":       func(o *Options) { o.ProcessNodes = 0 },
		"Kueue integrations":        func(o *Options) { o.KueueFrameworks = []string{FrameworkPod} },
		"Kueue feature gates":       func(o *Options) { o.KueueFeatureGates = map[string]bool{"PriorityBoost": true} },
		"Kueue configuration":       func(o *Options) { o.KueueConfig = nil },
		"JobSet feature gates":      func(o *Options) { o.JobSetFeatureGates = map[string]bool{"ElasticJobSet": true} },
		"JobSet pod webhook":        func(o *Options) { o.JobSetPodWebhook = true },
		"node monitor grace period": func(o *Options) { o.NodeMonitorGracePeriod = time.Hour },
		"pod eviction delay":        func(o *Options) { o.PodEvictionDelay = time.Hour },
	} {
		o := base()
		change(&o)
		if err := o.extends(old); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error that names %q, got %v", want, err)
		}
	}
}

func TestTheVirtualEnvironmentIsTheDefaultImage(t *testing.T) {
	root := t.TempDir()
	none := Options{Root: root, ProcessNodes: 1}
	if err := none.complete(); err != nil || none.NodeImages != nil {
		t.Errorf("without .venv: %v, %v", none.NodeImages, err)
	}
	if err := os.MkdirAll(filepath.Join(root, ".venv", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ".venv", "bin", "python"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	found := Options{Root: root, ProcessNodes: 1}
	if err := found.complete(); err != nil || len(found.NodeImages) != 1 || found.NodeImages[0] != "python="+filepath.Join(root, ".venv") {
		t.Errorf("with .venv: %v, %v", found.NodeImages, err)
	}
	given := Options{Root: root, ProcessNodes: 1, NodeImages: []string{"a=/b"}}
	if err := given.complete(); err != nil || len(given.NodeImages) != 1 || given.NodeImages[0] != "a=/b" {
		t.Errorf("given: %v, %v", given.NodeImages, err)
	}
}

func TestFindRootLooksUpwards(t *testing.T) {
	root := t.TempDir()
	inner := filepath.Join(root, "test", "node", "agent")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(root, "go.mod"):                 "module rtj.dev/rtj\n",
		filepath.Join(root, "test", "node", "go.mod"): "module rtj.dev/rtj/test/node\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("RTJ_ROOT", "")
	t.Chdir(inner)
	if got, err := FindRoot(); err != nil || got != root {
		t.Errorf("got %s, %v; want %s", got, err, root)
	}
	t.Chdir(t.TempDir())
	if got, err := FindRoot(); err == nil {
		t.Errorf("found %s outside of a checkout", got)
	}
	t.Setenv("RTJ_ROOT", root)
	if got, err := FindRoot(); err != nil || got != root {
		t.Errorf("RTJ_ROOT: got %s, %v; want %s", got, err, root)
	}
}
