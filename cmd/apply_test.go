package cmd

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const compositeController = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: greeter}
spec:
  parentResource: {apiVersion: example.dev/v1, resource: greetings}
  childResources:
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}
  generateSelector: true
  hooks:
    sync: {version: v2, webhook: {url: "http://127.0.0.1:1/sync"}}
`

// folder makes a folder with files, given as name, text, name, text.
func folder(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Whatever a person gets wrong is said in one line that names the place.
func TestApplyRefusesBadInput(t *testing.T) {
	good := file(t, "good.yaml", compositeController)
	bad := func(old, text string) string {
		if !strings.Contains(compositeController, old) {
			t.Fatalf("nothing to replace: %s", old)
		}
		return file(t, "bad.yaml", strings.Replace(compositeController, old, text, 1))
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing to run":         {nil, "nothing to run: give -f FILE or --from-cluster; see rtj apply --help"},
		"file without -f":        {[]string{good}, "rtj apply takes no arguments, got \"" + good + "\"; a file is named by -f " + good},
		"no such file":           {[]string{"-f", "missing.yaml"}, "-f missing.yaml: no such file or directory"},
		"empty file":             {[]string{"-f", file(t, "empty.yaml", "")}, "empty.yaml: no CompositeController in the file"},
		"only comments":          {[]string{"-f", file(t, "comments.yaml", "# soon\n---\n")}, "comments.yaml: no CompositeController in the file"},
		"empty folder":           {[]string{"-f", folder(t, "README.md", "")}, "no .yaml, .yml or .json file in this folder"},
		"a bad file in a folder": {[]string{"-f", folder(t, "a.yaml", compositeController, "b.yml", "hello: there\n")}, `b.yml: document 1: want metacontroller.k8s.io/v1alpha1 CompositeController, got "" ""`},
		"a folder without any":   {[]string{"-f", folder(t, "crd.yaml", "kind: Pod\n")}, "no CompositeController in this folder; passed over: "},
		"a pod beside one":       {[]string{"-f", folder(t, "all.yaml", compositeController+"---\nkind: Pod\n")}, `all.yaml: document 2 (from line `},
		"not YAML":               {[]string{"-f", bad("metadata: {", "metadata: [")}, "bad.yaml: document 1: "},
		"not YAML, the line":     {[]string{"-f", bad("metadata: {", "metadata: a: {")}, "line 3"},
		"unknown field":          {[]string{"-f", bad("generateSelector", "generateSelektor")}, `bad.yaml: document 1: unknown field "spec.generateSelektor"`},
		"other kind":             {[]string{"-f", bad("CompositeController", "DecoratorController")}, `want metacontroller.k8s.io/v1alpha1 CompositeController, got "metacontroller.k8s.io/v1alpha1" "DecoratorController"`},
		"rolling":                {[]string{"-f", bad("InPlace", "RollingInPlace")}, "bad.yaml: CompositeController greeter: spec.childResources[0].updateStrategy.method: RollingInPlace is not supported"},
		"no address of a hook":   {[]string{"-f", bad(`url: "http://127.0.0.1:1/sync"`, "timeout: 3s")}, "CompositeController greeter: spec.hooks.sync.webhook"},
		"no webhook":             {[]string{"-f", bad(`, webhook: {url: "http://127.0.0.1:1/sync"}`, "")}, "CompositeController greeter: spec.hooks.sync.webhook: missing"},
		"twice":                  {[]string{"-f", good, "-f", folder(t, "more.yaml", compositeController)}, "CompositeController greeter is in " + good + " and again in "},
		"files and cluster":      {[]string{"-f", good, "--from-cluster"}, "-f and --from-cluster exclude each other"},
		"selector without":       {[]string{"-f", good, "-l", "a=b"}, "--selector chooses among the CompositeControllers of the cluster: it needs --from-cluster"},
		"keep without":           {[]string{"-f", good, "--keep-finalizers"}, "it needs --from-cluster"},
		"bad selector":           {[]string{"--from-cluster", "-l", "a=b=c"}, "--selector: "},
		"no workers":             {[]string{"-f", good, "--workers", "0"}, "--workers: want at least 1, got 0"},
		"no answers":             {[]string{"-f", good, "--max-response-bytes", "0"}, "--max-response-bytes: want at least 1, got 0"},
		"no kubeconfig":          {[]string{"-f", good, "--kubeconfig", "missing"}, "--kubeconfig: "},
		"address":                {[]string{"-f", good, "--kubeconfig", kubeconfig(t), "--http-address", "nowhere:port"}, "--http-address: "},
		"log level":              {[]string{"-f", good, "--log-level", "loud"}, `--log-level: want debug, info, warn or error, got "loud"`},
		"elect":                  {[]string{"-f", good, "--leader-elect=maybe"}, `--leader-elect: want true, false or auto, got "maybe"`},
		"lease in parts":         {[]string{"-f", good, "--leader-elect-lease-duration", "1500ms"}, "--leader-elect-lease-duration: want whole seconds, at least 1s, got 1.5s"},
		"renewed too late":       {[]string{"-f", good, "--leader-elect-renew-deadline", "15s"}, "--leader-elect-renew-deadline: must be shorter than --leader-elect-lease-duration (15s), got 15s"},
		"retried too late":       {[]string{"-f", good, "--leader-elect-retry-period", "9s"}, "--leader-elect-retry-period: must be above zero and shorter than --leader-elect-renew-deadline (10s) divided by 1.2, got 9s"},
		"name of the lease":      {[]string{"-f", good, "--leader-elect-resource-name", "My Lease"}, `--leader-elect-resource-name: "My Lease": a lowercase RFC 1123 subdomain`},
		"release what":           {[]string{"release-finalizers"}, "-f is missing: the file with the CompositeController; see rtj apply release-finalizers --help"},
		"release without -f":     {[]string{"release-finalizers", good}, "a file is named by -f " + good},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := rtj("", append([]string{"apply"}, c.args...)...)
			if code != exitBadInput || !strings.Contains(errs, c.want) || out != "" {
				t.Errorf("exit code %d, stdout %q\ngot  %s\nwant %s", code, out, errs, c.want)
			}
			if strings.Count(errs, "\n") != 1 {
				t.Errorf("more than one line: %s", errs)
			}
		})
	}
}

// That a Secret is named is no fault of the file; it is read when a hook is called.
func TestApplyTakesControllersThatNameSecrets(t *testing.T) {
	text := strings.Replace(compositeController, `/sync"`, `/sync", authorization: {secretRef: {name: token, namespace: ops, key: token}}`, 1)
	controllers, err := readControllers(file(t, "secret.yaml", text), nil)
	if err != nil || len(controllers) != 1 || controllers[0].Spec.Hooks.Sync.Webhook.Authorization == nil {
		t.Errorf("%v, %v", controllers, err)
	}
}

// A folder may hold what belongs to a controller, such as the CRD of its parents.
func TestApplyPassesOverOtherKindsInFolders(t *testing.T) {
	files := controllerFiles{names: []string{folder(t, "a.yaml", compositeController, "crd.yaml", "apiVersion: v1\nkind: Pod\n")}}
	controllers, err := files.read(nil)
	if err != nil || len(controllers) != 1 {
		t.Errorf("%v, %v", controllers, err)
	}
	if len(files.passedOver) != 1 || !strings.HasSuffix(files.passedOver[0], "crd.yaml (Pod)") {
		t.Errorf("passed over: %q", files.passedOver)
	}
}

func TestApplyReadsStandardInput(t *testing.T) {
	code, _, errs := rtj("kind: Pod\n", "apply", "-f", "-")
	if code != exitBadInput || !strings.Contains(errs, "standard input: document 1: want ") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// Without an API server it goes on trying, serves health, and is not ready; it
// ends in peace when told to.
func TestApplyServesHealthWhileItWaits(t *testing.T) {
	for _, mode := range []string{"--leader-elect", "--leader-elect=false"} {
		t.Run(mode, func(t *testing.T) {
			address := serving(t, "apply", "-f", folder(t, "a.yaml", compositeController, "b.json", `{"apiVersion": "metacontroller.k8s.io/v1alpha1", "kind": "CompositeController", "metadata": {"name": "other"}, "spec": {"parentResource": {"apiVersion": "v1", "resource": "others"}, "hooks": {"sync": {"version": "v2", "webhook": {"url": "http://127.0.0.1:1/"}}}}}`),
				"--kubeconfig", kubeconfig(t), mode)
			for path, want := range map[string]int{"/healthz": http.StatusOK, "/metrics": http.StatusOK} {
				response, err := http.Get("http://" + address + path)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(response.Body)
				response.Body.Close()
				if err != nil || response.StatusCode != want {
					t.Errorf("%s: %s %s %v", path, response.Status, text, err)
				}
			}
			http.DefaultClient.CloseIdleConnections()
		})
	}
}

// A replica that has not seen the lease cannot take over.
func TestApplyIsNotReadyWithoutTheLease(t *testing.T) {
	address := serving(t, "apply", "-f", file(t, "a.yaml", compositeController), "--kubeconfig", kubeconfig(t), "--leader-elect")
	response, err := http.Get("http://" + address + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "lease") {
		t.Errorf("%s %s %v", response.Status, text, err)
	}
	http.DefaultClient.CloseIdleConnections()
}
