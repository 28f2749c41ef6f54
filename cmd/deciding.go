package cmd

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/hooks/live"
	"rtj.dev/rtj/hooks/patch"
)

// hookingFlags are those of whatever runs the hooks.
type hookingFlags struct {
	clusterFlags
	logFlags
	podIntegration bool
}

func (f *hookingFlags) add(command *cobra.Command) {
	f.clusterFlags.add(command)
	f.logFlags.add(command)
	command.Flags().BoolVar(&f.podIntegration, podIntegrationFlag, true, podIntegrationUsage)
}

const (
	podIntegrationFlag  = "kueue-pod-integration"
	podIntegrationUsage = "whether Kueue manages plain pods (its default); a LocalQueue named default then captures the pods of jobs"
)

// running are the hooks with all that they need, and what must be closed.
type running struct {
	hooks   *hooks.Hooks
	patches *patch.Writer
}

// newRegistry has the metrics of the process.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// start starts the hooks.
func (f *hookingFlags) start(config *rest.Config, registry *prometheus.Registry, logger *slog.Logger) (*running, error) {
	dynamicClient, err := client(config)
	if err != nil {
		return nil, err
	}
	r := &running{}
	metrics, err := hooks.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	r.patches = patch.New(patch.Options{
		Client:    dynamicClient,
		SyncAgain: func(namespace, name string) { r.hooks.News(namespace, name) },
		Count:     metrics.CountPatch,
		Logger:    logger,
	})
	r.hooks = hooks.New(hooks.Options{
		Store:          catalog.NewReader(catalog.OpenS3(catalog.S3Options{}), catalog.Options{}),
		Secrets:        &live.Secrets{Client: dynamicClient},
		Launcher:       live.Launcher{Client: dynamicClient},
		Patches:        r.patches,
		Observer:       observer(),
		PodIntegration: f.podIntegration,
		Metrics:        metrics,
		Logger:         logger,
	})
	return r, nil
}

// stop ends what the hooks started.
func (r *running) stop() {
	r.patches.Close()
	r.hooks.Close()
}

// startID tells this start of the process from others, also where process numbers
// come again.
var startID = strconv.FormatInt(time.Now().UnixNano(), 36)

// observer names this process, differently at each start.
func observer() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%.100s-%d-%s", host, os.Getpid(), startID)
}
