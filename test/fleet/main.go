// Command fleet measures what many jobs cost: thousands queue, then quota comes
// for hundreds of them at once, on fake nodes that start pods at once. It prints
// its figures for the table of benchmarks, and ends with one line.
//
//	go run ./test/fleet -jobs 2000 -admit 200
//	go run ./test/fleet -metacontroller /path/to/metacontroller    # also with it
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"rtj.dev/rtj/test/cluster"
	"rtj.dev/rtj/test/figures"
	"rtj.dev/rtj/test/harness"
)

// limit bounds the measurement with one runner.
const limit = 15 * time.Minute

// gpusPerNode is what a fake node has.
const gpusPerNode = 8

type options struct {
	jobs, admit int
	// metacontroller is the binary that runs the hooks; empty: rtj run does.
	metacontroller string
}

func main() {
	var o options
	flag.IntVar(&o.jobs, "jobs", 2000, "jobs that queue, each of one pod with one GPU")
	flag.IntVar(&o.admit, "admit", 200, "jobs that are admitted at once")
	metacontroller := flag.String("metacontroller", os.Getenv("E2E_METACONTROLLER"), "metacontroller binary; with it everything is measured twice: under rtj run, and under Metacontroller")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	summary, err := both(ctx, o, *metacontroller)
	stop()
	if err != nil {
		fmt.Println("fleet: failed:", err)
		os.Exit(1)
	}
	fmt.Println("fleet: ok", summary)
}

// both measures with one runner and then, where there is a binary, with the other,
// each on a cluster of its own.
func both(ctx context.Context, o options, metacontroller string) (string, error) {
	summary, err := bounded(ctx, o)
	if err != nil || metacontroller == "" {
		return summary, err
	}
	o.metacontroller = metacontroller
	second, err := bounded(ctx, o)
	return summary + "; " + second, err
}

func bounded(ctx context.Context, o options) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	return measure(ctx, o)
}

func measure(ctx context.Context, o options) (summary string, err error) {
	if o.admit < 1 || o.jobs < o.admit {
		return "", fmt.Errorf("-admit %d: must be 1 to -jobs, which is %d", o.admit, o.jobs)
	}
	c, err := harness.Start(ctx, cluster.Options{
		Progress: os.Stdout, FakeNodes: (o.admit + gpusPerNode - 1) / gpusPerNode, Operator: o.metacontroller == "",
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	runner, stop, err := startRunner(ctx, c, o.metacontroller)
	if err != nil {
		return "", err
	}
	defer stop()
	f, err := newFleet(ctx, c, o)
	if err != nil {
		return "", err
	}

	begun := time.Now()
	queued, err := f.queue(ctx)
	if err != nil {
		return "", err
	}
	afterQueueing, err := runner.used()
	if err != nil {
		return "", err
	}
	admission := time.Now()
	started, err := f.admit(ctx)
	if err != nil {
		return "", err
	}
	if err := f.untilRunning(ctx); err != nil {
		return "", err
	}
	running := time.Since(admission)
	all, err := runner.used()
	if err != nil {
		return "", err
	}
	requests, err := requestsByVerb(c, begun)
	if err != nil {
		return "", err
	}

	input := fmt.Sprintf("%d jobs, %s", o.jobs, runner.name)
	admitted := fmt.Sprintf("%d of %d jobs, %s", o.admit, o.jobs, runner.name)
	figures.Print("jobs created until all are queued", input, queued.Seconds(), "s")
	figures.Print("jobs created until all are queued, CPU", input, afterQueueing.cpu.Seconds(), "s")
	figures.Print("quota until the last JobSet starts", admitted, started.Seconds(), "s")
	figures.Print("quota until all run", admitted, running.Seconds(), "s")
	figures.Print("quota until all run, CPU", admitted, (all.cpu - afterQueueing.cpu).Seconds(), "s")
	figures.Print("peak memory", input, float64(all.peak)/(1<<20), "MiB")
	for _, r := range requests {
		figures.Print("API requests of the hooks' and the applier's clients, "+r.verb, input+", both steps", float64(r.count), "requests")
	}
	return fmt.Sprintf("%s: %d jobs queued in %.1f s, %d JobSets started in %.1f s, CPU %.1f s, peak %d MiB",
		runner.name, o.jobs, queued.Seconds(), o.admit, started.Seconds(), all.cpu.Seconds(), all.peak>>20), nil
}

// startRunner returns what runs the hooks, which stop ends.
func startRunner(ctx context.Context, c *harness.Cluster, metacontroller string) (r *runner, stop func(), err error) {
	if metacontroller == "" {
		for _, s := range c.Status(ctx) {
			if s.Name == cluster.Operator {
				return &runner{name: "embedded", pids: []int{s.PID}}, func() {}, nil
			}
		}
		return nil, nil, errors.New("the operator does not run")
	}
	path, err := filepath.Abs(metacontroller)
	if err != nil {
		return nil, nil, err
	}
	m := c.NewMetacontroller(path)
	if err := m.Start(ctx, harness.Endpoint{}); err != nil {
		return nil, nil, err
	}
	return &runner{name: "Metacontroller", pids: m.PIDs()}, func() { _ = m.Stop() }, nil
}
