package cmd

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/server"
	"rtj.dev/rtj/metacontroller/applier"
	"rtj.dev/rtj/metacontroller/manager"
	"rtj.dev/rtj/metacontroller/manifests"
)

// registered collects the names of what is registered.
type registered struct {
	prometheus.Registerer
	names []string
}

var nameOfMetric = regexp.MustCompile(`fqName: "([^"]+)"`)

func (r *registered) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		c.Describe(descriptions)
		close(descriptions)
	}()
	for d := range descriptions {
		r.names = append(r.names, nameOfMetric.FindStringSubmatch(d.String())[1])
	}
	return nil
}

// docs/metrics.md has a row for each metric, and none for others.
func TestEveryMetricIsDocumented(t *testing.T) {
	r := &registered{}
	logger := slog.New(slog.DiscardHandler)
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	if _, err := hooks.NewMetrics(r); err != nil {
		t.Fatal(err)
	}
	recorder, err := manager.NewRecorder(manager.RecorderOptions{Config: config, Logger: logger, Registerer: r})
	if err != nil {
		t.Fatal(err)
	}
	defer recorder.Close()
	controllers, err := applier.Parse(manifests.CompositeController)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := applier.New(applier.Options{Config: config, Controller: controllers[0], Logger: logger, Registerer: r}); err != nil {
		t.Fatal(err)
	}
	if _, err := manager.New(manager.Options{Config: config, Logger: logger, Registerer: r}); err != nil {
		t.Fatal(err)
	}
	names := append(r.names, servedAfterACall(t)...)
	slices.Sort(names)

	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(rtj_[a-z_]+)` \\|").FindAllSubmatch(text, -1) {
		documented = append(documented, string(m[1]))
	}
	slices.Sort(documented)
	if !slices.Equal(documented, names) {
		t.Errorf("docs/metrics.md has %v\nregistered are    %v", documented, names)
	}
}

// servedAfterACall are the metrics of RTJ that the server itself serves. Its
// registry shows only those with a value.
func servedAfterACall(t *testing.T) []string {
	t.Helper()
	registry := prometheus.NewRegistry()
	h := hooks.New(hooks.Options{})
	defer h.Close()
	handler, err := server.NewHandler(server.Options{Hooks: h, Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/sync", io.NopCloser(strings.NewReader("{}"))))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "rtj_") {
			names = append(names, family.GetName())
		}
	}
	return names
}
