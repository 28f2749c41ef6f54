package cmd

import (
	"github.com/spf13/cobra"

	"rtj.dev/rtj/hooks/server"
)

func newHooks() *cobra.Command {
	flags := struct {
		hookingFlags
		httpFlags
	}{}
	command := &cobra.Command{
		Use:   "hooks",
		Short: "Serve the hooks for an installed Metacontroller",
		Long: `Serves POST /sync, /finalize and /customize in Metacontroller's contract v2, and
/healthz, /readyz and /metrics.

Anyone who reaches it gets answers. The store is only read, and the patches of a
decision (the claim of an attempt, the release of quota, the notice to yield) are
only carried out, for a runner that shows the token of --runner-token-file or a
certificate signed by --client-ca-file; without either, jobs do not start.`,
		Example: `  rtj hooks --http-address :8443 --tls-cert-file tls.crt --tls-key-file tls.key \
    --runner-token-file /var/run/rtj/token`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := flags.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			runners, err := flags.runners()
			if err != nil {
				return err
			}
			config, err := flags.config()
			if err != nil {
				return err
			}
			listener, err := flags.listen()
			if err != nil {
				return err
			}
			registry := newRegistry()
			r, err := flags.start(config, registry, logger)
			if err != nil {
				listener.Close()
				return err
			}
			defer r.stop()
			defer server.KeepHeapFloor()()
			handler, err := server.NewHandler(server.Options{
				Hooks: r.hooks, Runners: runners, MaxBytes: flags.maxBytes, Registry: registry, Logger: logger,
			})
			if err != nil {
				listener.Close()
				return err
			}
			if runners == nil {
				logger.Warn("no runner can authenticate itself, so no store will be read, no patch carried out and no job will start; set --runner-token-file or --client-ca-file")
			}
			logger.Info("serving hooks", "address", listener.Addr().String(), "version", Version())
			return server.Serve(cmd.Context(), listener, handler, flags.tls, logger)
		},
	}
	flags.hookingFlags.add(command)
	command.Flags().StringVar(&flags.address, "http-address", ":8080", "address to listen on")
	flags.addHooks(command)
	return command
}
