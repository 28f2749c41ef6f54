// Package cmd holds the subcommands of rtj.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes of rtj.
const (
	exitOK = 0
	// exitFailed: what was asked for could not be done.
	exitFailed = 1
	// exitBadInput: a flag, an argument or a file is not what it must be.
	exitBadInput = 2
)

// inputError is the fault of who called the command.
type inputError struct{ err error }

func (e *inputError) Error() string { return e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

func badInput(format string, args ...any) error {
	return &inputError{fmt.Errorf(format, args...)}
}

// Main runs rtj and returns its exit code. An error is one line on stderr.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return execute(ctx, args, stdin, stdout, stderr)
}

// execute is Main until ctx ends.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "rtj: %v\n", err)
	var input *inputError
	if errors.As(err, &input) {
		return exitBadInput
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "rtj",
		Short: "Checkpoint-aware interruption and resumption of training on Kubernetes",
		Long: `rtj runs distributed training jobs that can be interrupted at any time: Kueue
decides when a job may run, JobSet runs it, an S3-compatible store holds its
checkpoints, and rtj joins the three.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return badInput("unknown command %q; see rtj --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return badInput("%v; see %s --help", err, cmd.CommandPath())
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newRun(), newApply(), newHooks(), newHook(), newVersion())
	return root
}

// noArguments refuses arguments with a message that names the command.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return badInput("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}
