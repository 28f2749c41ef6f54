// Command check runs everything that needs no cluster, step by step, and ends
// with one line of figures. It exits 1 when anything failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	label := flag.String("label", "test", "what the summary line starts with")
	only := flag.String("only", "", "run only the steps of this group: go, lint, generate, sdk")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	start := time.Now()
	if *only != "" && !slices.ContainsFunc(steps, func(s step) bool { return s.group == *only }) {
		fmt.Fprintf(os.Stderr, "check: no step is in group %q\n", *only)
		os.Exit(2)
	}
	var total figures
	for _, step := range steps {
		if *only != "" && step.group != *only {
			continue
		}
		if ctx.Err() != nil {
			total.failed++
			break
		}
		total.add(step.run(ctx))
	}
	word := "ok"
	if total.failed > 0 {
		word = "FAILED"
	}
	fmt.Printf("%s: %s %d passed, %d failed, %d skipped, %.0f s\n", *label, word, total.passed, total.failed, total.skipped, time.Since(start).Seconds())
	if total.failed > 0 {
		os.Exit(1)
	}
}

// figures count tests; a step that has none of its own counts as one.
type figures struct{ passed, failed, skipped int }

func (f *figures) add(o figures) {
	f.passed += o.passed
	f.failed += o.failed
	f.skipped += o.skipped
}

// step is one command; count reads its output.
type step struct {
	group string
	name  string
	dir   string
	argv  []string
	count counter
}

// counter turns a command's output into figures, and prints what a person needs.
type counter func(cmd *exec.Cmd) figures

func (s step) run(ctx context.Context) figures {
	start := time.Now()
	fmt.Printf("--- %s\n", s.name)
	cmd := exec.CommandContext(ctx, s.argv[0], s.argv[1:]...)
	cmd.Dir = s.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	f := s.count(cmd)
	fmt.Printf("    %d passed, %d failed, %d skipped, %.0f s\n", f.passed, f.failed, f.skipped, time.Since(start).Seconds())
	return f
}
