// Command explore tries every order of the events of small worlds, until nothing is
// new, and prints how many states there are, and which rules of the core decided in
// them, and after which. It fails where a promise is broken, where a world does not
// close, and where a rule neither decided nor is known not to in such worlds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/test/world"
)

func main() {
	only := flag.String("world", "", "explore the one with this `name` alone; coverage is then not judged")
	jobs := flag.Int("jobs", 0, "explore one of so many `jobs` instead")
	urgent := flag.Int("urgent", 0, "how many of them `preempt` the others")
	acts := flag.Int("acts", 0, "how many `acts` of people are tried in a run")
	faults := flag.Int("faults", 0, "how many `faults` are tried in a run")
	limit := flag.Duration("limit", time.Hour, "give up after this `time`")
	audit := flag.Int("audit", 0, "explore one in `so many` worlds of a known fingerprint a second time, and compare; 0: none")
	verbose := flag.Bool("v", false, "print every rule and pair")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()

	worlds, all := world.SmallWorlds(), true
	if *jobs > 0 {
		worlds, all = []world.SmallWorld{{Name: "the world", Config: world.Small(*jobs, *urgent, *acts, *faults)}}, false
	}
	if *only != "" {
		worlds, all = slices.DeleteFunc(worlds, func(w world.SmallWorld) bool { return w.Name != *only }), false
	}
	began := time.Now()
	var sum world.Exploration
	failures := 0
	for _, w := range worlds {
		found := explore(ctx, w, *audit)
		sum.States += found.States
		sum.Steps += found.Steps
		sum.Calls += found.Calls
		sum.Coverage.Add(found.Coverage)
		if !found.Closed {
			failures++
		}
	}
	if *verbose {
		for _, line := range sum.Coverage.Lines() {
			fmt.Println(line)
		}
	}
	rules := 0
	for _, names := range compose.Tables() {
		rules += len(names)
	}
	if all {
		wrong := world.JudgeCoverage(sum.Coverage)
		failures += len(wrong)
		for _, line := range wrong {
			fmt.Println(line)
		}
	}
	verdict := "ok closed;"
	if failures > 0 {
		verdict = "FAILED"
	}
	fmt.Printf("explore: %s %d worlds, %d states, %d steps, %d hook calls, %d of %d rules, %d pairs, %.0f s\n",
		verdict, len(worlds), sum.States, sum.Steps, sum.Calls, len(sum.Coverage.Rules), rules, len(sum.Coverage.Pairs), time.Since(began).Seconds())
	if failures > 0 {
		os.Exit(1)
	}
}

func explore(ctx context.Context, w world.SmallWorld, audit int) *world.Exploration {
	began := time.Now()
	found := world.Explore(w.Config, world.Options{
		Workers: runtime.GOMAXPROCS(0), Audit: audit,
		Stop: func() bool { return ctx.Err() != nil },
		Progress: func(x *world.Exploration) {
			fmt.Fprintf(os.Stderr, "explore: %s: %d states, %d steps, %d left, %.0f s\n", w.Name, x.States, x.Steps, x.Left, time.Since(began).Seconds())
		},
	})
	verdict := "closed"
	switch {
	case found.Unsound != "":
		verdict = "FAILED, the fingerprint leaves something out"
		fmt.Printf("%s\n%s\n", found.Unsound, found.Script)
	case found.Broken != nil:
		verdict = "FAILED, a promise is broken"
		fmt.Printf("%s\n\n%s\n", found.Broken, found.Script)
	case !found.Closed:
		verdict = fmt.Sprintf("FAILED, not closed, %d left", found.Left)
	}
	audited := ""
	if audit > 0 {
		audited = fmt.Sprintf(", %d explored twice", found.Audited)
	}
	fmt.Printf("%s: %s; %d states, %d steps, %d ends%s, %.0f s\n", strings.TrimSpace(w.Name), verdict, found.States, found.Steps, found.Ends, audited, time.Since(began).Seconds())
	return found
}
