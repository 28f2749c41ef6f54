package cmd

import (
	"context"
	"sync"

	"github.com/spf13/cobra"

	"rtj.dev/rtj/hooks/server"
	"rtj.dev/rtj/metacontroller/applier"
	"rtj.dev/rtj/metacontroller/manifests"
)

func newRun() *cobra.Command {
	flags := struct {
		hookingFlags
		httpFlags
		electionFlags
		workers int
	}{}
	command := &cobra.Command{
		Use:   "run",
		Short: "Run the operator: hooks and applier in one process",
		Long: `Watches ResumableTrainingJobs and their children, decides, and makes the cluster
what was decided. Nothing else has to be installed for it but the CRD, Kueue and
JobSet.

Of several replicas the one that holds the Lease acts; the others are ready to take
over and say so at /readyz. One that can no longer be sure of the Lease sends
nothing more to the API server that writes, and exits with code 1.`,
		Example: `  rtj run --kubeconfig ~/.kube/config
  rtj run --http-address :8080 --log-format json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.electionFlags.validate(); err != nil {
				return err
			}
			logger, err := flags.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			config, err := flags.config()
			if err != nil {
				return err
			}
			controllers, err := applier.Parse(manifests.CompositeController)
			if err != nil {
				return err
			}
			listener, err := flags.listen()
			if err != nil {
				return err
			}
			defer listener.Close()
			registry := newRegistry()
			replica, err := flags.electionFlags.start(config, &flags.clusterFlags, "rtj", registry, logger)
			if err != nil {
				return err
			}
			defer replica.recorder.Close()
			r, err := flags.hookingFlags.start(replica.config, registry, logger)
			if err != nil {
				return err
			}
			defer r.stop()
			defer server.KeepHeapFloor()()
			a, err := applier.New(applier.Options{
				Config: replica.config, Controller: controllers[0], Hooks: r.hooks, Workers: flags.workers,
				Logger: logger, Registerer: registry, Events: replica.recorder,
			})
			if err != nil {
				return err
			}
			r.hooks.OnNews(a.Enqueue)
			handler, err := server.NewHandler(server.Options{Registry: registry, Logger: logger, Ready: func() error {
				return replica.ready(func() error {
					if !a.Ready() {
						return errNotYet
					}
					return nil
				})
			}})
			if err != nil {
				return err
			}
			logger.Info("running", "version", Version(), "server", config.Host, "http", listener.Addr().String())
			return together(cmd.Context(),
				func(ctx context.Context) error {
					return replica.lead(ctx, func(ctx context.Context) error {
						defer r.patches.Close()
						return a.Run(ctx)
					})
				},
				func(ctx context.Context) error {
					return server.Serve(ctx, listener, handler, server.TLS{}, logger)
				})
		},
	}
	flags.hookingFlags.add(command)
	flags.electionFlags.add(command, "rtj", defaultNamespace)
	command.Flags().StringVar(&flags.address, "http-address", "127.0.0.1:0", "address of /healthz, /readyz and /metrics")
	command.Flags().IntVar(&flags.workers, "workers", applier.DefaultWorkers, "number of jobs that are synced at once")
	return command
}

// together runs all functions until one fails or ctx ends, then ends the others,
// and returns the first failure.
func together(ctx context.Context, functions ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	failures := make(chan error, len(functions))
	for _, f := range functions {
		group.Go(func() {
			defer cancel()
			failures <- f(ctx)
		})
	}
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}
