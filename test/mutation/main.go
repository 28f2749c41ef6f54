// Command mutation changes the core in many small ways, one at a time, and sees
// whether the tests notice. A change that no test notices is a hole in the
// tests, code that nothing needs, or equivalent; docs/mutation.md has those that
// were judged to be equivalent, and why.
//
//	go run ./test/mutation                    every mutant
//	go run ./test/mutation -file drain.go     those of one file
//	go run ./test/mutation -sample 200        about so many, evenly spread
//	go run ./test/mutation -mutant 17         one, as a diff and with the output of its tests
//	go run ./test/mutation -list              what would be run
//	go run ./test/mutation -unreached         what no test runs, in a minute
//	go run ./test/mutation -json report.json  the report for machines
//	go run ./test/mutation -again report.json only those that survived then or are new
//
// All mutants are compiled into one test binary of each suite, from copies of
// the sources that only the compiler sees; the environment says which one is
// switched on. It exits 1 when fewer than -at-least percent are killed by tests of
// whole decisions or lives, and 2 when the tests fail without any mutant.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"
	"time"
)

// folders are what is mutated.
var folders = []string{"compose", "compose/checkpoint"}

type options struct {
	atLeast   float64
	file      string
	sample    int
	mutant    int
	list      bool
	unreached bool
	json      string
	again     string
	parallel  int
	suites    string
}

func main() {
	var o options
	flag.Float64Var(&o.atLeast, "at-least", 90, "exit 1 when fewer percent of the mutants are killed by other tests than those of a part")
	flag.StringVar(&o.file, "file", "", "only mutants of files whose path contains one of these, separated by commas, or matches it, as compose/*.go does")
	flag.IntVar(&o.sample, "sample", 0, "run about so many, evenly spread; 0: all")
	flag.IntVar(&o.mutant, "mutant", -1, "show this mutant as a diff and run it alone, with the output of the tests")
	flag.BoolVar(&o.list, "list", false, "list the mutants and run nothing")
	flag.BoolVar(&o.unreached, "unreached", false, "list the mutants whose code no test runs, and run none")
	flag.StringVar(&o.json, "json", "", "write the report as JSON to this file; - for standard output")
	flag.StringVar(&o.again, "again", "", "run only the mutants that survived in this JSON report or are not in it, and count the others as they were")
	flag.IntVar(&o.parallel, "parallel", 2, "how many tests run side by side")
	flag.StringVar(&o.suites, "suites", "", "only these, separated by commas: "+strings.Join(suiteNames(), ", "))
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	code, err := run(ctx, &o)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutation: %v\n", err)
		code = 2
	}
	cancel()
	os.Exit(code)
}

func run(ctx context.Context, o *options) (code int, err error) {
	start := time.Now()
	packages, err := load(ctx, folders...)
	if err != nil {
		return 2, err
	}
	all := find(packages)
	var before map[key]*result
	if o.again != "" {
		if before, err = readReport(o.again); err != nil {
			return 2, err
		}
	}
	chosen, err := choose(all, o, before)
	if err != nil {
		return 2, err
	}
	if o.list {
		for _, c := range chosen {
			fmt.Printf("%5d  %s:%d  %s  %s\n", c.ID, c.File, c.Line, c.Where, c.text())
		}
		fmt.Printf("mutation: %d mutants\n", len(chosen))
		return 0, nil
	}
	suites, err := chooseSuites(o.suites)
	if err != nil {
		return 2, err
	}
	bench, err := build(ctx, packages, suites)
	if err != nil {
		return 2, err
	}
	defer func() { err = errors.Join(err, bench.remove()) }()
	if err := bench.survey(ctx, o.parallel); err != nil {
		return 2, err
	}
	if o.unreached {
		bench.listUnreached(chosen)
		return 0, nil
	}
	if o.mutant >= 0 {
		return bench.show(ctx, chosen[0])
	}
	results, err := bench.runAll(ctx, chosen, o.parallel)
	if err != nil {
		return 2, err
	}
	results = carried(all, results, before)
	judged, err := readJudged("docs/mutation.md")
	if err != nil {
		return 2, err
	}
	r := newReport(results, judged, len(results) == len(all))
	if o.json != "" {
		if err := r.writeJSON(o.json); err != nil {
			return 2, err
		}
	}
	r.print(time.Since(start))
	if r.Percent < o.atLeast {
		return 1, nil
	}
	return 0, nil
}

// choose are the mutants that are to be run.
func choose(all []*change, o *options, before map[key]*result) ([]*change, error) {
	var chosen []*change
	for _, c := range all {
		old := before[c.key()]
		if !chosenFile(c.File, o.file) || o.mutant >= 0 && c.ID != o.mutant || old != nil && old.killed() {
			continue
		}
		chosen = append(chosen, c)
	}
	if o.sample > 0 && o.sample < len(chosen) {
		var some []*change
		for i := range o.sample {
			some = append(some, chosen[i*len(chosen)/o.sample])
		}
		chosen = some
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no mutant is chosen; there are %d", len(all))
	}
	return chosen, nil
}

// chosenFile reports whether the file is one of those that are asked for.
func chosenFile(file, wanted string) bool {
	for want := range strings.SplitSeq(wanted, ",") {
		if matches, err := path.Match(want, file); matches && err == nil || strings.Contains(file, want) {
			return true
		}
	}
	return false
}
