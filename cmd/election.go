package cmd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"rtj.dev/rtj/metacontroller/election"
	"rtj.dev/rtj/metacontroller/manager"
)

// electionFlags say whether and how replicas elect the one that writes.
type electionFlags struct {
	mode                      string
	namespace, name, identity string
	installed                 string
	leaseDuration             time.Duration
	renewDeadline             time.Duration
	retryPeriod               time.Duration
}

const (
	electAuto = "auto"
	electOn   = "true"
	electOff  = "false"
)

// add adds the flags. installed is the namespace of the Lease outside of a pod;
// empty: that of the kubeconfig's context.
func (f *electionFlags) add(command *cobra.Command, name, installed string) {
	f.installed = installed
	otherwise := installed
	if otherwise == "" {
		otherwise = "that of the kubeconfig's context"
	}
	flags := command.Flags()
	flags.StringVar(&f.mode, "leader-elect", electAuto, "whether only the replica that holds a Lease acts: true, false, or auto, which is true in a pod")
	flags.Lookup("leader-elect").NoOptDefVal = electOn
	flags.StringVar(&f.namespace, "leader-elect-resource-namespace", "", "namespace of the Lease; the default is that of the pod, else "+otherwise)
	flags.StringVar(&f.name, "leader-elect-resource-name", name, "name of the Lease; replicas that do the same share it, others must not")
	flags.StringVar(&f.identity, "leader-elect-identity", "", "name of this replica in the Lease; the default is host name, process and start")
	flags.DurationVar(&f.leaseDuration, "leader-elect-lease-duration", election.DefaultLeaseDuration, "how long after the last renewal of a leader that is gone another takes over")
	flags.DurationVar(&f.renewDeadline, "leader-elect-renew-deadline", election.DefaultRenewDeadline, "how long after its last renewal a leader writes; then it writes nothing more and exits with code 1")
	flags.DurationVar(&f.retryPeriod, "leader-elect-retry-period", election.DefaultRetryPeriod, "how often the Lease is renewed")
}

// defaultNamespace is where RTJ is installed.
const defaultNamespace = "rtj-system"

// podNamespace is where a pod finds the name of its namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// validate refuses what cannot work, before anything is reached for.
func (f *electionFlags) validate() error {
	// Renewals may be that much late; client-go insists.
	const jitter = 1.2
	switch {
	case f.mode != electAuto && f.mode != electOn && f.mode != electOff:
		return badInput("--leader-elect: want true, false or auto, got %q", f.mode)
	case f.leaseDuration < time.Second || f.leaseDuration%time.Second != 0:
		return badInput("--leader-elect-lease-duration: want whole seconds, at least 1s, got %s", f.leaseDuration)
	case f.renewDeadline >= f.leaseDuration:
		return badInput("--leader-elect-renew-deadline: must be shorter than --leader-elect-lease-duration (%s), got %s: the time between them is what keeps two replicas from writing at once", f.leaseDuration, f.renewDeadline)
	case f.retryPeriod <= 0 || float64(f.renewDeadline) <= jitter*float64(f.retryPeriod):
		return badInput("--leader-elect-retry-period: must be above zero and shorter than --leader-elect-renew-deadline (%s) divided by %g, got %s", f.renewDeadline, jitter, f.retryPeriod)
	}
	for flag, name := range map[string]string{"name": f.name, "namespace": f.namespace} {
		if flag == "namespace" && name == "" {
			continue
		}
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return badInput("--leader-elect-resource-%s: %q: %s", flag, name, problems[0])
		}
	}
	return nil
}

func (f *electionFlags) lockNamespace(cluster *clusterFlags) string {
	if f.namespace != "" {
		return f.namespace
	}
	if text, err := os.ReadFile(podNamespace); err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text))
	}
	if f.installed != "" {
		return f.installed
	}
	return cluster.namespace()
}

func (f *electionFlags) replica() string {
	if f.identity != "" {
		return f.identity
	}
	return observer()
}

// replica is this process among others that do the same.
type replica struct {
	// config is for everything that writes: it refuses to, without the lease.
	config   *rest.Config
	recorder *manager.Recorder
	// election is nil where there is none.
	election *election.Election
}

// start prepares the election, if there is to be one, and the events.
func (f *electionFlags) start(config *rest.Config, cluster *clusterFlags, component string, registry prometheus.Registerer, logger *slog.Logger) (*replica, error) {
	identity := f.replica()
	config = rest.CopyConfig(config)
	// The audit log of the API server then tells who wrote what.
	config.UserAgent += " (" + identity + ")"
	r := &replica{config: config}
	elect := f.mode == electOn || f.mode == electAuto && cluster.inCluster()
	fence := election.NewFence(f.renewDeadline)
	if elect {
		r.config = rest.CopyConfig(config)
		r.config.Wrap(fence.Wrap)
	}
	var err error
	if r.recorder, err = manager.NewRecorder(manager.RecorderOptions{
		Config: r.config, Component: component, Host: identity, Registerer: registry, Logger: logger,
	}); err != nil || !elect {
		return r, err
	}
	if r.election, err = election.New(election.Options{
		Config: config, Fence: fence, Namespace: f.lockNamespace(cluster), Name: f.name, Identity: identity,
		LeaseDuration: f.leaseDuration, RenewDeadline: f.renewDeadline, RetryPeriod: f.retryPeriod,
		Events: r.recorder, Logger: logger,
	}); err != nil {
		r.recorder.Close()
	}
	return r, err
}

// lead runs what writes, once this replica may. The last events are written before
// the lease is given back.
func (r *replica) lead(ctx context.Context, work func(context.Context) error) error {
	if r.election == nil {
		return work(ctx)
	}
	return r.election.Run(ctx, func(ctx context.Context) error {
		defer r.recorder.Close()
		return work(ctx)
	})
}

// ready tells whether this replica can do its part: lead, or take over.
func (r *replica) ready(leading func() error) error {
	if r.election != nil && !r.election.Leading() {
		return r.election.Standby()
	}
	return leading()
}

// errNotYet is why a replica that has just begun to lead is not ready.
var errNotYet = errors.New("the caches are not complete yet")
