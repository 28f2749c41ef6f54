package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/hooks/server"
	"rtj.dev/rtj/metacontroller/applier"
	"rtj.dev/rtj/metacontroller/manager"
	"rtj.dev/rtj/metacontroller/webhook"
)

// applyFlags are those of rtj apply.
type applyFlags struct {
	clusterFlags
	logFlags
	httpFlags
	electionFlags
	controllerFiles
	fromCluster      bool
	selector         string
	keepFinalizers   bool
	workers          int
	maxResponseBytes int64
}

func newApply() *cobra.Command {
	flags := &applyFlags{}
	command := &cobra.Command{
		Use:   "apply (-f FILE|FOLDER)... | --from-cluster",
		Short: "Run CompositeControllers of Metacontroller's API, for any hooks",
		Long: `Runs CompositeControllers (metacontroller.k8s.io/v1alpha1) in place of Metacontroller:
watches the parents of each, calls its sync, finalize and customize hooks over HTTP,
and makes the children and the status what they answer. Nothing in it is specific to
training jobs; rtj run does that.

Controllers come from files, which are read once, at the start: restart after an
edit. Any fault in a file ends the command before it begins. Or they come from the
cluster, with --from-cluster: then they are followed, and a controller is restarted
when its spec or annotations change. There a faulty one is refused, with a line in
the log and a Warning event on it, and does not stop the others. Either way, what
the cluster lacks (a CRD that is installed later) is waited for.

/readyz answers 200 once the caches of all controllers that are not refused are
complete. Of several replicas the one that holds the Lease acts; a standby is ready
when it can take over.

When a CompositeController is deleted from the cluster, the finalizer that it left
on parents is removed half a minute later, since nobody calls its finalize hook any
more; parents and children stay. For one that came from a file, or that was deleted
while nothing ran, use rtj apply release-finalizers.

What a controller may do is what the user of the kubeconfig, or the service account,
may: get, list, watch and patch parents, patch their status, and update their
finalizers where OwnerReferencesPermissionEnforcement is on; get, list, watch,
create, patch and delete children, and patch the status of those whose status the
hook writes; list and watch related kinds; create and patch events; get the Secrets
and ConfigMaps that its hooks name; get, list and watch compositecontrollers with
--from-cluster; get, create, update and watch leases for the election.`,
		Example: `  rtj apply -f controller.yaml
  rtj apply -f controllers/ -f more.yaml --kubeconfig ~/.kube/config --http-address :8080
  rtj apply --from-cluster --selector team=search --log-format json`,
		Args: noFileArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd) },
	}
	flags.clusterFlags.add(command)
	flags.logFlags.add(command)
	flags.controllerFiles.add(command)
	flags.electionFlags.add(command, "rtj-apply", "")
	command.Flags().BoolVar(&flags.fromCluster, "from-cluster", false, "run the CompositeController objects of the cluster, and follow their changes")
	command.Flags().StringVarP(&flags.selector, "selector", "l", "", "with --from-cluster: only those with these labels, such as team=search,tier!=test")
	command.Flags().BoolVar(&flags.keepFinalizers, "keep-finalizers", false, "with --from-cluster: leave the finalizer on parents when a CompositeController is deleted, so that they cannot be deleted before it is back")
	command.Flags().IntVar(&flags.workers, "workers", applier.DefaultWorkers, "number of parents of one controller that are synced at once")
	command.Flags().StringVar(&flags.address, "http-address", "127.0.0.1:0", "address of /healthz, /readyz and /metrics")
	command.Flags().Int64Var(&flags.maxResponseBytes, "max-response-bytes", webhook.DefaultMaxResponseBytes, "size of the largest answer of a hook")
	command.AddCommand(newReleaseFinalizers())
	return command
}

// controllers reads the files, or what else is to be run.
func (f *applyFlags) controllers(cmd *cobra.Command) ([]*applier.CompositeController, labels.Selector, error) {
	switch {
	case !f.fromCluster && len(f.names) == 0:
		return nil, nil, badInput("nothing to run: give -f FILE or --from-cluster; see %s --help", cmd.CommandPath())
	case f.fromCluster && len(f.names) > 0:
		return nil, nil, badInput("-f and --from-cluster exclude each other: kubectl apply the files, or leave out --from-cluster")
	case !f.fromCluster && f.selector != "":
		return nil, nil, badInput("--selector chooses among the CompositeControllers of the cluster: it needs --from-cluster")
	case !f.fromCluster && f.keepFinalizers:
		return nil, nil, badInput("--keep-finalizers is about CompositeControllers that are deleted from the cluster: it needs --from-cluster")
	case f.workers < 1:
		return nil, nil, badInput("--workers: want at least 1, got %d", f.workers)
	case f.maxResponseBytes < 1:
		return nil, nil, badInput("--max-response-bytes: want at least 1, got %d", f.maxResponseBytes)
	}
	selector, err := labels.Parse(f.selector)
	if err != nil {
		return nil, nil, badInput("--selector: %w", err)
	}
	if f.fromCluster {
		return nil, selector, nil
	}
	controllers, err := f.read(cmd.InOrStdin())
	return controllers, nil, err
}

func (f *applyFlags) run(cmd *cobra.Command) error {
	controllers, selector, err := f.controllers(cmd)
	if err != nil {
		return err
	}
	if err := f.validate(); err != nil {
		return err
	}
	logger, err := f.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	config, err := f.config()
	if err != nil {
		return err
	}
	listener, err := f.listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	registry := newRegistry()
	replica, err := f.start(config, &f.clusterFlags, "rtj-apply", registry, logger)
	if err != nil {
		return err
	}
	defer replica.recorder.Close()
	dynamicClient, err := client(replica.config)
	if err != nil {
		return err
	}
	m, err := manager.New(manager.Options{
		Config: replica.config, Hooks: f.hooks(dynamicClient, logger),
		Controllers: controllers, FromCluster: f.fromCluster, Selector: selector, KeepFinalizers: f.keepFinalizers,
		Workers: f.workers, Limits: applier.Limits{ResponseBytes: f.maxResponseBytes}, Logger: logger, Registerer: registry, Events: replica.recorder,
	})
	if err != nil {
		return err
	}
	handler, err := server.NewHandler(server.Options{Registry: registry, Logger: logger, Ready: func() error { return replica.ready(m.Ready) }})
	if err != nil {
		return err
	}
	for _, file := range f.passedOver {
		logger.Info("passed over: not a CompositeController", "file", file)
	}
	logger.Info("running", "version", Version(), "server", config.Host, "http", listener.Addr().String(), "controllers", len(controllers))
	return together(cmd.Context(),
		func(ctx context.Context) error { return replica.lead(ctx, m.Run) },
		func(ctx context.Context) error { return server.Serve(ctx, listener, handler, server.TLS{}, logger) })
}

// hooks reaches the hooks of a controller over HTTP.
func (f *applyFlags) hooks(client dynamic.Interface, logger *slog.Logger) func(*applier.CompositeController) (manager.Hooks, error) {
	return func(c *applier.CompositeController) (manager.Hooks, error) {
		return webhook.New(webhook.Options{Controller: c, Client: client, Logger: logger, MaxResponseBytes: f.maxResponseBytes})
	}
}

func newReleaseFinalizers() *cobra.Command {
	flags := struct {
		clusterFlags
		controllerFiles
	}{}
	command := &cobra.Command{
		Use:   "release-finalizers (-f FILE|FOLDER)...",
		Short: "Remove the finalizers of CompositeControllers that are not run any more",
		Long: `Removes the finalizer of each controller in the files from all its parents, so that
they can be deleted although nobody calls the finalize hook any more. Parents and
children stay as they are; a parent that is being deleted goes, without its finalize
hook. Stop what runs the controllers first: it would put the finalizers back.`,
		Example: `  rtj apply release-finalizers -f controller.yaml`,
		Args:    noFileArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(flags.names) == 0 {
				return badInput("-f is missing: the file with the CompositeController; see %s --help", cmd.CommandPath())
			}
			controllers, err := flags.read(cmd.InOrStdin())
			if err != nil {
				return err
			}
			config, err := flags.config()
			if err != nil {
				return err
			}
			dynamicClient, err := client(config)
			if err != nil {
				return err
			}
			var faults []error
			for _, c := range controllers {
				n := 0
				err := manager.ReleaseFinalizers(cmd.Context(), dynamicClient, c, func(namespace, name string) {
					n++
					fmt.Fprintf(cmd.OutOrStdout(), "%s %s: released\n", c.Spec.ParentResource.Resource.Resource, contract.ObjectKey(namespace, name))
				})
				if err != nil {
					faults = append(faults, fmt.Errorf("CompositeController %s: %w", c.Name, err))
				}
				fmt.Fprintf(cmd.OutOrStdout(), "CompositeController %s: %d released\n", c.Name, n)
			}
			return errors.Join(faults...)
		},
	}
	flags.clusterFlags.add(command)
	flags.controllerFiles.add(command)
	return command
}
