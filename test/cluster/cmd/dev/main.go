// Command dev runs the local cluster: see `dev help`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// command is one of dev's verbs.
type command struct {
	name    string
	usage   string
	summary string
	run     func(ctx context.Context, args []string) error
}

func commands() []command {
	return []command{
		{"up", "up [flags]", "bring the cluster up, or complete it", up},
		{"down", "down [--dir DIR] [--keep-logs]", "end and remove everything of the cluster", down},
		{"status", "status [--dir DIR] [--json]", "show the components; exit 1 unless all are ready", status},
		{"smoke", "smoke [--dir DIR]", "check the running cluster end to end", smoke},
		{"example", "example [--dir DIR]", "train examples/numpy there, with a queue of its own", example},
		{"probe", "probe [--node kubelet]", "say whether this machine can run the cluster, and what to set", probe},
		{"build", "build [--kubelet]", "build the programs into the cache", buildPrograms},
		{"env", "env [--dir DIR]", "print the lines to paste into a shell, and where S3 is", env},
		{"start", "start [--dir DIR] COMPONENT...", "start components that were stopped or killed", startComponents},
		{"stop", "stop [--dir DIR] COMPONENT...", "end components with SIGTERM", stopComponents},
		{"kill", "kill [--dir DIR] COMPONENT...", "end components with SIGKILL", killComponents},
		{"restart", "restart [--dir DIR] COMPONENT...", "stop and start components; the operator and nodes are built anew", restartComponents},
		{"logs", "logs [--dir DIR] [-n LINES] COMPONENT", "print the end of a component's log", logs},
	}
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := dispatch(ctx, os.Args[1:])
	cancel()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errSilent):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// errSilent ends with status 1 where the output has said everything.
var errSilent = errors.New("failed")

func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 {
		for _, c := range commands() {
			if c.name == args[0] {
				return c.run(ctx, args[1:])
			}
		}
	}
	fmt.Fprintln(os.Stderr, "dev runs a real Kubernetes control plane with Kueue, JobSet and S3 on this machine.")
	fmt.Fprintln(os.Stderr)
	for _, c := range commands() {
		fmt.Fprintf(os.Stderr, "  dev %-42s %s\n", c.usage, c.summary)
	}
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		return nil
	}
	return fmt.Errorf("no command %q", args[0])
}
