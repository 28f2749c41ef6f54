// Command bench measures what is promised and prints one table. It exits 1 when
// a promise is broken, and ends with one line of figures.
//
//	go run ./test/bench              everything
//	go run ./test/bench -no-cluster  without what needs the local cluster
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	noCluster := flag.Bool("no-cluster", false, "leave out what needs the local cluster")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	start := time.Now()
	var all []figure
	failed := 0
	for _, s := range sources {
		if s.cluster && *noCluster {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring: %s\n", s.name)
		if s.unless != "" && os.Getenv(s.unless) == "" {
			fmt.Fprintf(os.Stderr, "  skipped: %s\n", s.skipped)
		}
		figures, err := s.measure(ctx)
		if err != nil {
			fmt.Fprintf(os.Stderr, "  %s: %v\n", s.name, err)
			failed++
		}
		all = append(all, figures...)
	}
	broken := show(all) + missing(all, *noCluster)
	word := "ok"
	if broken+failed > 0 {
		word = "FAILED"
	}
	fmt.Printf("bench: %s %d figures, %d promises broken, %d measurements failed, %.0f s\n", word, len(all), broken, failed, time.Since(start).Seconds())
	if broken+failed > 0 {
		os.Exit(1)
	}
}

// missing names the promises that nothing measured: they count as broken.
func missing(all []figure, noCluster bool) (n int) {
	for name, p := range promises {
		found := slices.ContainsFunc(all, func(f figure) bool { return f.Name == name })
		if !found && !(p.cluster && noCluster) {
			fmt.Printf("nothing measured: %s\n", name)
			n++
		}
	}
	return n
}

// show prints the table and returns the number of broken promises.
func show(all []figure) (broken int) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tinput\tmeasured\tpromised\t")
	for _, f := range all {
		promised, verdict := "", ""
		if p, ok := promises[f.Name]; ok {
			promised = p.String()
			if !p.kept(f.Value) {
				verdict = "BROKEN"
				broken++
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Name, f.Input, measured(f), promised, verdict)
	}
	w.Flush()
	return broken
}
