// Command explore tries every order of the events of small worlds, until nothing is
// new, and prints how many states there are, and which rules of the core decided in
// them, and after which. It fails where a promise is broken, where a world does not
// close, and where a rule neither decided nor is known not to in such worlds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/test/world"
)

func main() {
	var ask asked
	flag.StringVar(&ask.world, "world", "", "explore the one with this `name` alone; coverage is then not judged")
	flag.IntVar(&ask.jobs, "jobs", 0, "explore one of so many `jobs` instead; coverage is then not judged")
	flag.IntVar(&ask.urgent, "urgent", 0, "with -jobs: how many of them `preempt` the others")
	flag.IntVar(&ask.acts, "acts", 0, "with -jobs: how many `acts` of people are tried in a run")
	flag.IntVar(&ask.faults, "faults", 0, "with -jobs: how many `faults` are tried in a run")
	flag.BoolVar(&ask.coarse, "coarse", false, "with -jobs: tell worlds apart only by about how long ago times are")
	limit := flag.Duration("limit", time.Hour, "give up after this `time`")
	audit := flag.Int("audit", 0, "explore one in `so many` worlds of a known fingerprint a second time, and compare; 0: none")
	verbose := flag.Bool("v", false, "print every rule and pair")
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { ask.given = append(ask.given, f.Name) })
	worlds, err := ask.worlds()
	switch {
	case err != nil:
	case flag.NArg() > 0:
		err = fmt.Errorf("%q is no flag", flag.Arg(0))
	case *audit < 0:
		err = fmt.Errorf("-audit %d: one in so many, or 0", *audit)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "explore: %s\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()

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
	decided, rules := sum.Coverage.Reached()
	if ask.all() {
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
		verdict, len(worlds), sum.States, sum.Steps, sum.Calls, decided, rules, len(sum.Coverage.Pairs), time.Since(began).Seconds())
	if failures > 0 {
		os.Exit(1)
	}
}

// asked is which worlds are to be explored.
type asked struct {
	world                      string
	jobs, urgent, acts, faults int
	coarse                     bool
	// given are the flags that were.
	given []string
}

// all tells whether it is those of [world.SmallWorlds].
func (a *asked) all() bool {
	return !slices.Contains(a.given, "world") && !slices.Contains(a.given, "jobs")
}

// worlds returns them, or what is wrong with the flags.
func (a *asked) worlds() ([]world.SmallWorld, error) {
	has := func(name string) bool { return slices.Contains(a.given, name) }
	if has("jobs") {
		switch {
		case has("world"):
			return nil, errors.New("-world and -jobs each say which world: give one of them")
		case a.jobs < 1 || a.jobs > 26:
			return nil, fmt.Errorf("-jobs %d: a world has one job at least, and 26 at most, since their names are letters", a.jobs)
		case a.urgent < 0 || a.urgent > a.jobs:
			return nil, fmt.Errorf("-urgent %d: none at least, and all %d jobs at most", a.urgent, a.jobs)
		case a.acts < 0:
			return nil, fmt.Errorf("-acts %d: none at least", a.acts)
		case a.faults < 0:
			return nil, fmt.Errorf("-faults %d: none at least", a.faults)
		}
		c := world.Small(a.jobs, a.urgent, a.acts, a.faults)
		c.CoarseTimes = a.coarse
		return []world.SmallWorld{{Name: "the world", Config: c}}, nil
	}
	for _, name := range []string{"urgent", "acts", "faults", "coarse"} {
		if has(name) {
			return nil, fmt.Errorf("-%s is for a world that is described by -jobs: give that too", name)
		}
	}
	worlds := world.SmallWorlds()
	if !has("world") {
		return worlds, nil
	}
	var names []string
	for _, w := range worlds {
		if w.Name == a.world {
			return []world.SmallWorld{w}, nil
		}
		names = append(names, w.Name)
	}
	return nil, fmt.Errorf("no world is called %q; there are: %s", a.world, strings.Join(names, "; "))
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
	switch {
	case audit > 0 && w.CoarseTimes:
		audited = ", none explored twice since times are coarse"
	case audit > 0:
		audited = fmt.Sprintf(", %d explored twice", found.Audited)
	}
	fmt.Printf("%s: %s; %d states, %d steps, %d ends%s, %.0f s\n", strings.TrimSpace(w.Name), verdict, found.States, found.Steps, found.Ends, audited, time.Since(began).Seconds())
	return found
}
