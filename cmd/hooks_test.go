package cmd

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// kubeconfig names an API server that is not there.
func kubeconfig(t *testing.T) string {
	t.Helper()
	return file(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: u, user: {}}]}`)
}

// serving runs a command that serves, until the test ends, and returns its address.
func serving(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	logs, errs := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := execute(ctx, args, strings.NewReader(""), io.Discard, errs)
		errs.Close()
		ended <- code
	}()
	t.Cleanup(func() {
		cancel()
		go io.Copy(io.Discard, logs)
		if code := <-ended; code != 0 {
			t.Errorf("rtj %s ended with exit code %d", args[0], code)
		}
	})
	lines := bufio.NewScanner(logs)
	var seen []string
	for lines.Scan() {
		seen = append(seen, lines.Text())
		if m := regexp.MustCompile(`(?:address|http)=(\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			go io.Copy(io.Discard, logs)
			return m[1]
		}
	}
	t.Fatalf("rtj says no address:\n%s", strings.Join(seen, "\n"))
	return ""
}

// The hooks are served, with what is needed for patches, and end when told to.
func TestHooksServe(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := serving(t, "hooks", "--kubeconfig", kubeconfig(t), "--http-address", "127.0.0.1:0", "--runner-token-file", token, "--max-request-bytes", "100000")

	response, err := http.Get("http://" + address + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("health: %s", response.Status)
	}
	body, err := yaml.YAMLToJSON([]byte(strings.Replace(request, "finalizing: false", "finalizing: true", 1)))
	if err != nil {
		t.Fatal(err)
	}
	for path, c := range map[string]struct {
		body []byte
		code int
	}{
		"/finalize":  {body, http.StatusOK},
		"/sync":      {[]byte("{}"), http.StatusBadRequest},
		"/customize": {bytes.Repeat([]byte(" "), 100001), http.StatusRequestEntityTooLarge},
	} {
		response, err := http.Post("http://"+address+path, "application/json", bytes.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != c.code {
			t.Errorf("%s: %s %s", path, response.Status, text)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// Without an API server the operator says so and ends, for whoever runs it to
// start it again.
func TestRunWithoutAnAPIServerSaysSo(t *testing.T) {
	code, _, errs := rtj("", "run", "--kubeconfig", kubeconfig(t), "--log-level", "error")
	if code != exitFailed || !strings.Contains(errs, "127.0.0.1:1") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
