// Process-node is a Kubernetes node whose containers are processes of the
// machine that it runs on. See README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"rtj.dev/rtj/test/node/sandbox"
)

func main() {
	// Shims and inits of containers are this binary too.
	sandbox.Main(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command(&options{}).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "process-node:", err)
		os.Exit(1)
	}
}
