// Command sim runs simulated worlds, each from a seed: chaos with faults, then calm,
// in which the world has to settle. It ends with one line of figures, and with an
// error when a promise was not kept; then it names the seed, and a script as short
// as was found.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"rtj.dev/rtj/test/world"
)

func main() {
	seeds := flag.Uint64("seeds", 2000, "how many `worlds` to run")
	base := flag.Uint64("base", 0, "`seed` of the first, or of that of -cycles")
	one := flag.Int64("seed", -1, "run this `seed` alone, and print what happens")
	script := flag.String("script", "", "in the world of -seed do what this `file` says, instead of what is drawn")
	tries := flag.Int("tries", 3000, "how many `runs` shrinking may take")
	goOn := flag.Bool("keep-going", false, "go on after a promise was broken, and count them; nothing is shrunk")
	cycles := flag.Int("cycles", 0, "instead of worlds, preempt and resume one job so many `times`")
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "how many worlds are run at once")
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	err := fit(given)
	if err == nil {
		err = sensible(*seeds, *one, *cycles, *workers, *tries, given, flag.Args())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sim: %s\n", err)
		os.Exit(2)
	}
	debug.SetGCPercent(world.GCPercent)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok := false
	switch {
	case *cycles > 0:
		ok = preempt(*base, *cycles)
	case *one >= 0:
		ok = replay(uint64(*one), *script, *tries)
	default:
		ok = swarm(ctx, *base, *seeds, *workers, *tries, *goOn)
	}
	if !ok {
		os.Exit(1)
	}
}

// fit tells what is wrong with the flags that were given together.
func fit(given map[string]bool) error {
	switch {
	case given["script"] && !given["seed"]:
		return errors.New("-script is of one world: say which with -seed")
	case given["cycles"] && (given["seed"] || given["script"] || given["seeds"]):
		return errors.New("-cycles has a world of its own: leave -seed, -seeds and -script out; -base is its seed")
	case given["seed"] && (given["seeds"] || given["base"] || given["keep-going"]):
		return errors.New("-seed is one world, -seeds, -base and -keep-going are of many: give one or the other")
	}
	return nil
}

// sensible tells which value of a flag there is nothing to be done with.
func sensible(seeds uint64, one int64, cycles, workers, tries int, given map[string]bool, rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is no flag", rest[0])
	case seeds == 0:
		return errors.New("-seeds 0: one world at least")
	case given["seed"] && one < 0:
		return fmt.Errorf("-seed %d: seeds begin with 0", one)
	case given["cycles"] && cycles < 1:
		return fmt.Errorf("-cycles %d: once at least", cycles)
	case workers < 1:
		return fmt.Errorf("-workers %d: one at least", workers)
	case tries < 0:
		return fmt.Errorf("-tries %d: none at least", tries)
	}
	return nil
}

// total is what the worlds had in them.
type total struct {
	worlds, lives, attempts, calls, events atomic.Int64
}

func (t *total) add(r world.Result) {
	t.worlds.Add(1)
	t.lives.Add(int64(r.Lives))
	t.attempts.Add(int64(r.Attempts))
	t.calls.Add(int64(r.Calls))
	t.events.Add(int64(r.Events))
}

func (t *total) String() string {
	return fmt.Sprintf("%d worlds, %d jobs, %d attempts, %d hook calls, %d events",
		t.worlds.Load(), t.lives.Load(), t.attempts.Load(), t.calls.Load(), t.events.Load())
}

// swarm runs the seeds, on several cores, until the first promise that is broken.
func swarm(ctx context.Context, base, seeds uint64, workers, tries int, goOn bool) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		sum    total
		next   atomic.Uint64
		all    sync.WaitGroup
		first  sync.Once
		broken world.Result
		counts tally
	)
	began := time.Now()
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				n := next.Add(1) - 1
				if n >= seeds {
					return
				}
				r := world.Run(base + n)
				sum.add(r)
				if r.Broken == nil {
					continue
				}
				counts.add(r)
				if !goOn {
					first.Do(func() { broken = r })
					cancel()
				}
			}
		})
	}
	progress := make(chan struct{})
	go func() {
		defer close(progress)
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				fmt.Fprintf(os.Stderr, "sim: %s of %d, %.0f s, %s\n", &sum, seeds, time.Since(began).Seconds(), inUse())
			}
		}
	}()
	all.Wait()
	interrupted := ctx.Err() != nil && broken.Broken == nil
	cancel()
	<-progress
	seconds := time.Since(began).Seconds()
	rate := float64(sum.calls.Load()) / seconds
	switch {
	case counts.n > 0 && goOn:
		fmt.Printf("sim: FAILED %d worlds break promises; %s, %.0f s\n", counts.n, &sum, seconds)
		return false
	case broken.Broken != nil:
		explain(broken.Seed, tries)
		fmt.Printf("sim: FAILED seed %d breaks a promise; %s, %.0f s\n", broken.Seed, &sum, seconds)
		return false
	case interrupted:
		fmt.Printf("sim: FAILED interrupted; %s, no promise broken, %.0f s\n", &sum, seconds)
		return false
	}
	fmt.Printf("sim: ok seeds %d to %d, %s, 0 promises broken, %.0f s, %.0f calls/s\n", base, base+seeds-1, &sum, seconds, rate)
	return true
}

// inUse is what the process holds: the heap that lived at the end of the last
// collection, and goroutines. Neither may grow with the number of worlds.
func inUse() string {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return fmt.Sprintf("%.1f MiB live, %d goroutines", float64(live[0].Value.Uint64())/(1<<20), runtime.NumGoroutine())
}

// tally prints the worlds in which a promise is broken, and counts them.
type tally struct {
	mu sync.Mutex
	n  int
}

func (t *tally) add(r world.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	fmt.Printf("seed %d: %s\n", r.Seed, r.Broken)
}

// replay runs one seed and prints all of it.
func replay(seed uint64, file string, tries int) bool {
	script, result := world.Recorded(seed)
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			fmt.Printf("sim: FAILED %s\n", err)
			return false
		}
		script, result = world.RecordedScript(seed, world.ParseScript(string(text)))
		tries = 0
	}
	fmt.Print(script)
	if result.Broken != nil {
		if tries > 0 {
			explain(seed, tries)
		}
		fmt.Printf("sim: FAILED seed %d: %s\n", seed, result.Broken)
		return false
	}
	fmt.Printf("sim: ok seed %d, %d events, %d hook calls, %d jobs, %d attempts\n", seed, result.Events, result.Calls, result.Lives, result.Attempts)
	return true
}

// explain prints a short script that breaks the promise too.
func explain(seed uint64, tries int) {
	fmt.Fprintf(os.Stderr, "sim: looking for a short script, at most %d runs\n", tries)
	script, broken := world.Shrink(seed, tries, func(length int) { fmt.Fprintf(os.Stderr, "sim: %d lines\n", length) })
	if broken == nil {
		fmt.Printf("seed %d does not break it again: the world is not deterministic\n", seed)
		return
	}
	fmt.Printf("\nseed %d breaks a promise: %s\nwhat is left of it:\n\n%s\n", seed, broken, script)
}
