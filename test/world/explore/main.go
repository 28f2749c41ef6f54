// Command explore tries every order of the events of small worlds, until nothing is
// new, and prints how many states there are and which rules of the core decided in
// them, and after which.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"

	"rtj.dev/rtj/test/world"
)

func main() {
	jobs := flag.Int("jobs", 2, "number of `jobs`")
	urgent := flag.Int("urgent", 1, "how many of them `preempt` the others")
	acts := flag.Int("acts", 0, "how many `acts` of people are tried in a run")
	faults := flag.Int("faults", 1, "how many `faults` are tried in a run")
	limit := flag.Duration("limit", time.Hour, "give up after this `time`")
	verbose := flag.Bool("v", false, "print every rule and pair")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()

	began := time.Now()
	found := world.Explore(world.Small(*jobs, *urgent, *acts, *faults), runtime.GOMAXPROCS(0),
		func() bool { return ctx.Err() != nil },
		func(x *world.Exploration) {
			fmt.Fprintf(os.Stderr, "explore: %d states, %d steps, %d left, %.0f s\n", x.States, x.Steps, x.Left, time.Since(began).Seconds())
		})
	if *verbose {
		for _, line := range found.Summary() {
			fmt.Println(line)
		}
	}
	figures := fmt.Sprintf("%d states, %d steps, %d ends, %d hook calls, %d rules fired, %d pairs, %.0f s",
		found.States, found.Steps, found.Ends, found.Calls, len(found.Rules), len(found.Pairs), time.Since(began).Seconds())
	switch {
	case found.Broken != nil:
		fmt.Printf("a promise is broken: %s\n\n%s\n", found.Broken, found.Script)
		fmt.Printf("explore: FAILED %s\n", figures)
	case !found.Closed:
		fmt.Printf("explore: FAILED not closed; %s\n", figures)
	default:
		fmt.Printf("explore: ok closed; %s\n", figures)
		return
	}
	os.Exit(1)
}
