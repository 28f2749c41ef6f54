package cmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// request is one for a job that was just applied.
const request = `
controller: {}
parent:
  apiVersion: training.rtj.dev/v1beta1
  kind: ResumableTrainingJob
  metadata: {name: llama, namespace: team-a, uid: u-1, generation: 1}
  spec:
    queueName: team-a
    checkpoint: {storage: {uri: s3://bucket/prefix}}
    template:
      spec:
        replicatedJobs:
        - name: workers
          replicas: 1
          template: {spec: {parallelism: 2, completions: 2, template: {spec: {containers: [{name: train, image: i}]}}}}
children: {"Workload.kueue.x-k8s.io/v1beta2": {}, "JobSet.jobset.x-k8s.io/v1alpha2": {}, "ConfigMap.v1": {}}
related:
  LocalQueue.kueue.x-k8s.io/v1beta2:
    team-a/team-a: {metadata: {name: team-a, namespace: team-a}, spec: {clusterQueue: cluster}}
  ClusterQueue.kueue.x-k8s.io/v1beta2:
    cluster: {metadata: {name: cluster}}
finalizing: false
`

const now = "2026-11-29T10:00:00Z"

// rtj runs the command.
func rtj(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Main(args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// file writes a file and returns its name.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// answer runs an offline hook that must succeed.
func answer(t *testing.T, stdin string, args ...string) map[string]any {
	t.Helper()
	code, out, errs := rtj(stdin, args...)
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var a map[string]any
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return a
}

func TestHookSyncPrintsAnswerPatchesAndRules(t *testing.T) {
	path := file(t, "request.yaml", request)
	a := answer(t, "", "hook", "sync", "--request", path, "--now", now)
	for _, key := range []string{"status", "children", "resyncAfterSeconds", "finalized", "patches", "rules"} {
		if _, ok := a[key]; !ok {
			t.Errorf("%s is missing", key)
		}
	}
	if len(a) != 6 {
		t.Errorf("%d keys, want 6", len(a))
	}
	child := a["children"].([]any)[0].(map[string]any)
	if child["kind"] != "Workload" {
		t.Errorf("child %v", child["kind"])
	}
	if p := a["patches"].([]any)[0].(map[string]any); p["name"] != "run-id" {
		t.Errorf("patch %v", p)
	}
	if r := a["rules"].([]any)[0].(map[string]any); r["table"] == nil || r["rule"] == nil {
		t.Errorf("rule %v", r)
	}
}

// JSON and YAML, a file and standard input: the same bytes come out, every time.
func TestHookSyncIsStable(t *testing.T) {
	asJSON, err := yaml.YAMLToJSON([]byte(request))
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := rtj("", "hook", "sync", "--request", file(t, "request.yaml", request), "--now", now)
	for name, got := range map[string]func() (int, string, string){
		"again": func() (int, string, string) {
			return rtj("", "hook", "sync", "--request", file(t, "request.yaml", request), "--now", now)
		},
		"JSON": func() (int, string, string) {
			return rtj("", "hook", "sync", "--request", file(t, "request.json", string(asJSON)), "--now", now)
		},
		"YAML stdin": func() (int, string, string) { return rtj(request, "hook", "sync", "--request", "-", "--now", now) },
		"JSON stdin": func() (int, string, string) {
			return rtj(string(asJSON), "hook", "sync", "--request", "-", "--now", now)
		},
	} {
		if code, out, errs := got(); code != 0 || out != want {
			t.Errorf("%s: exit code %d, %s%s", name, code, errs, out)
		}
	}
}

func TestHookFinalize(t *testing.T) {
	a := answer(t, strings.Replace(request, "finalizing: false", "finalizing: true", 1), "hook", "finalize", "--request", "-", "--now", now)
	if a["finalized"] != true || len(a["children"].([]any)) != 0 {
		t.Errorf("finalized %v, children %v", a["finalized"], a["children"])
	}
}

func TestHookCustomize(t *testing.T) {
	text := request[:strings.Index(request, "children:")]
	a := answer(t, text, "hook", "customize", "--request", "-")
	if len(a["relatedResources"].([]any)) == 0 {
		t.Errorf("answer %v", a)
	}
}

// phase is the phase and the reason of an answer.
func phase(a map[string]any) string {
	status := a["status"].(map[string]any)
	for _, item := range status["conditions"].([]any) {
		if c := item.(map[string]any); c["type"] == "Ready" {
			return status["phase"].(string) + "/" + c["reason"].(string)
		}
	}
	return status["phase"].(string)
}

func TestCatalogFolders(t *testing.T) {
	withDamage := t.TempDir()
	// A manifest that is none, where the run is below the folder.
	run := filepath.Join(withDamage, "team-a", "llama", "u-1", "manifests")
	if err := os.MkdirAll(run, 0o700); err != nil {
		t.Fatal(err)
	}
	const id = "000001-000000000100-5f0c9a1be2d4-9b1de02f6c7a8e55"
	if err := os.WriteFile(filepath.Join(run, id+".json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ dir, want string }{
		"a missing one is an empty store":  {filepath.Join(t.TempDir(), "none"), "Pending/CreatingWorkload"},
		"an empty one is an empty store":   {t.TempDir(), "Pending/CreatingWorkload"},
		"one that cannot be read is said":  {file(t, "file", ""), "Pending/StoreUnreachable"},
		"one with a manifest that is none": {withDamage, "Pending/CreatingWorkload"},
	} {
		t.Run(name, func(t *testing.T) {
			a := answer(t, request, "hook", "sync", "--request", "-", "--catalog", c.dir, "--now", now)
			if got := phase(a); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			passed, _ := json.Marshal(a["status"].(map[string]any)["checkpoint"])
			if c.dir == withDamage && (!strings.Contains(string(passed), id) || !strings.Contains(string(passed), "CorruptManifest")) {
				t.Errorf("checkpoint status %s", passed)
			}
		})
	}
}

func TestExplainIsForPeople(t *testing.T) {
	code, out, errs := rtj(request, "hook", "sync", "--request", "-", "--now", now, "--explain")
	if code != 0 {
		t.Fatal(errs)
	}
	for _, want := range []string{"team-a/llama", "phase", "Pending", "because", "CreatingWorkload", "Workload", "create", "run-id", "TABLE", "RULE", "WHY"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestHookOutputYAML(t *testing.T) {
	code, out, errs := rtj(request, "hook", "sync", "--request", "-", "--now", now, "--output", "yaml")
	var a map[string]any
	if err := yaml.UnmarshalStrict([]byte(out), &a); code != 0 || err != nil || a["status"] == nil {
		t.Errorf("exit code %d, %s%v\n%s", code, errs, err, out)
	}
}

// Whatever is wrong with what was given is said in one line, with exit code 2.
func TestBadInputIsOneLineAndExitCode2(t *testing.T) {
	sync := func(more ...string) []string { return append([]string{"hook", "sync", "--request", "-"}, more...) }
	for name, c := range map[string]struct {
		stdin string
		args  []string
		says  string
	}{
		"no request":             {"", []string{"hook", "sync"}, "--request is missing"},
		"a missing file":         {"", []string{"hook", "sync", "--request", "/no/such/file"}, "no such file"},
		"not YAML":               {"a: [b", sync(), "standard input: not YAML"},
		"a key twice":            {"a: 1\na: 2", sync(), `key "a" already set`},
		"not JSON":               {`{"parent":`, sync(), "standard input: parent: "},
		"an unknown field":       {request + "surprise: 1\n", sync(), `unknown field "surprise"`},
		"null children":          {strings.Replace(request, `children: {"Workload.kueue.x-k8s.io/v1beta2": {}, "JobSet.jobset.x-k8s.io/v1alpha2": {}, "ConfigMap.v1": {}}`, "children: null", 1), sync(), "children: want an object, got null"},
		"a wrong type":           {strings.Replace(request, "replicas: 1", "replicas: one", 1), sync(), "spec.template.spec.replicatedJobs[0].replicas: want int32, got string"},
		"the wrong hook":         {request, []string{"hook", "finalize", "--request", "-"}, "finalizing: is false"},
		"a time that is none":    {request, sync("--now", "noon"), `--now: want a time such as 2026-11-29T10:00:00Z, got "noon"`},
		"an unknown output":      {request, sync("--output", "xml"), `--output: want json or yaml, got "xml"`},
		"an unknown flag":        {request, sync("--loud"), "unknown flag: --loud"},
		"an argument":            {request, sync("extra"), `takes no arguments, got "extra"`},
		"an unknown hook":        {"", []string{"hook", "snyc"}, `unknown hook "snyc"`},
		"an unknown command":     {"", []string{"hok"}, `unknown command "hok"`},
		"a kubeconfig not there": {"", []string{"run", "--kubeconfig", "/no/such/file"}, "--kubeconfig"},
		"a token file not there": {"", []string{"hooks", "--runner-token-file", "/no/such/file"}, "--runner-token-file"},
		"a log level":            {"", []string{"run", "--log-level", "loud"}, "--log-level: want debug, info, warn or error"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := rtj(c.stdin, c.args...)
			if code != 2 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.says) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want 2 and %q", code, out, errs, c.says)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"hook"}, {"hook", "sync", "--help"}, {"run", "--help"}, {"hooks", "--help"}, {"version"}} {
		if code, out, errs := rtj("", args...); code != 0 || out == "" || errs != "" {
			t.Errorf("rtj %s: exit code %d, stdout %q, stderr %q", strings.Join(args, " "), code, out, errs)
		}
	}
}
