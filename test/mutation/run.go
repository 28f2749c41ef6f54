package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"rtj.dev/rtj/test/mutation/mutant"
)

// result is what became of a mutant.
type result struct {
	*change
	// By is the suite that killed it, and Test the test; both empty when it survived.
	By      string `json:"by,omitempty"`
	Test    string `json:"test,omitempty"`
	Timeout bool   `json:"timeout,omitempty"`
	// Reached: some test runs the code.
	Reached bool `json:"reached"`
	// Judged is why nothing can kill it.
	Judged string `json:"judged,omitempty"`

	output []byte
}

func (r *result) killed() bool { return r.By != "" }

// try runs the suites that reach the mutant, until one kills it.
func (b *bench) try(ctx context.Context, c *change) (*result, error) {
	r := &result{change: c}
	for _, t := range b.suites {
		parts := t.reach[c.reachedAs]
		if len(parts) == 0 {
			continue
		}
		r.Reached = true
		o, err := t.run(ctx, parts, t.limit, mutant.Variable+"="+strconv.Itoa(c.ID))
		if err != nil || ctx.Err() != nil {
			return r, err
		}
		if o.failed {
			r.By, r.Test, r.Timeout, r.output = t.name, o.test, o.timeout, o.output
			break
		}
	}
	return r, nil
}

// runAll tries the mutants, in any order, and returns the results in theirs.
func (b *bench) runAll(ctx context.Context, chosen []*change, parallel int) ([]*result, error) {
	results := make([]*result, len(chosen))
	p := newProgress(len(chosen))
	err := sideBySide(ctx, parallel, len(chosen), func(i int) error {
		r, err := b.try(ctx, chosen[i])
		if err != nil {
			return err
		}
		r.output = nil
		results[i] = r
		p.add(r)
		return nil
	})
	return results, err
}

// progress is told to a person every few seconds.
type progress struct {
	mu                     sync.Mutex
	start, told            time.Time
	done, total, survivors int
}

func newProgress(total int) *progress {
	return &progress{start: time.Now(), told: time.Now(), total: total}
}

func (p *progress) add(r *result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if !r.killed() {
		p.survivors++
		fmt.Fprintln(os.Stderr, r.survival())
	}
	if time.Since(p.told) < 5*time.Second && p.done < p.total {
		return
	}
	p.told = time.Now()
	left := time.Since(p.start) / time.Duration(p.done) * time.Duration(p.total-p.done)
	fmt.Fprintf(os.Stderr, "%d of %d mutants, %d killed, %d survived, %s left\n", p.done, p.total, p.done-p.survivors, p.survivors, left.Round(time.Second))
}

// listUnreached prints the mutants whose code no test runs.
func (b *bench) listUnreached(chosen []*change) {
	n := 0
	for _, c := range chosen {
		if !slices.ContainsFunc(b.suites, func(t *built) bool { return len(t.reach[c.reachedAs]) > 0 }) {
			n++
			fmt.Println((&result{change: c}).survival())
		}
	}
	fmt.Printf("mutation: %d of %d mutants are in code that no test runs\n", n, len(chosen))
}

// show runs one mutant and prints all there is to see.
func (b *bench) show(ctx context.Context, c *change) (code int, err error) {
	fmt.Printf("mutant %d, %s:%d, %s\n%s\n", c.ID, c.File, c.Line, c.Where, c.diff())
	for _, t := range b.suites {
		fmt.Printf("%s: %d of %d tests reach it\n", t.name, len(t.reach[c.reachedAs]), len(t.parts))
	}
	r, err := b.try(ctx, c)
	if err != nil {
		return 2, err
	}
	if !r.killed() {
		fmt.Printf("mutation: mutant %d survived\n", c.ID)
		return 1, nil
	}
	fmt.Printf("%s\nmutation: mutant %d was killed by %s\n", r.output, c.ID, r.killer())
	return 0, nil
}

// killer is the test that killed it.
func (r *result) killer() string {
	if r.Timeout {
		return r.By + ", by running too long"
	}
	return r.By + ", " + r.Test
}
