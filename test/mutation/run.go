package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
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
func (b *bench) try(ctx context.Context, c *change, noticed *result) (*result, error) {
	if noticed != nil && noticed.killed() {
		return noticed, nil
	}
	r := &result{change: c}
	for _, t := range b.suites {
		if noticed != nil && t.each != "" {
			r.Reached = true
			continue
		}
		parts := t.reach[c.reachedAs]
		if len(parts) == 0 {
			continue
		}
		r.Reached = true
		likely, others := t.killers.split(c, parts)
		for _, some := range [][]string{likely, others} {
			if len(some) == 0 {
				continue
			}
			o, err := t.run(ctx, some, t.limit, mutant.Variable+"="+strconv.Itoa(c.ID))
			if err != nil || ctx.Err() != nil {
				return r, errors.Join(err, ctx.Err())
			}
			if o.failed {
				t.killers.add(c, o.test)
				r.By, r.Test, r.Timeout, r.output = t.name, o.test, o.timeout, o.output
				return r, nil
			}
		}
	}
	return r, nil
}

// killers are the parts of a suite that killed mutants of a function or a file, the last
// first: they are likely to kill others there too, and few of them run sooner than all.
type killers struct {
	mu   sync.Mutex
	last map[string][]string
}

const mostKillers = 12

func (k *killers) add(c *change, test string) {
	_, part, ok := strings.Cut(test, "/")
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil {
		k.last = map[string][]string{}
	}
	for _, of := range []string{c.File, c.File + " " + c.Where} {
		list := slices.DeleteFunc(k.last[of], func(s string) bool { return s == part })
		k.last[of] = append([]string{part}, list[:min(len(list), mostKillers-1)]...)
	}
}

// split takes those of the parts that are likely to kill the mutant out of them.
func (k *killers) split(c *change, parts []string) (likely, others []string) {
	if len(parts) <= mostKillers {
		return nil, parts
	}
	k.mu.Lock()
	known := slices.Concat(k.last[c.File+" "+c.Where], k.last[c.File])
	k.mu.Unlock()
	for _, part := range parts {
		if slices.Contains(known, part) {
			likely = append(likely, part)
		} else {
			others = append(others, part)
		}
	}
	return likely, others
}

// runAll tries the mutants, in any order, and returns the results in theirs; those that
// there are when it is interrupted.
func (b *bench) runAll(ctx context.Context, chosen []*change, parallel int) ([]*result, error) {
	results := make([]*result, len(chosen))
	p := newProgress(len(chosen))
	noticed, err := b.tryEach(ctx, chosen, parallel)
	if err != nil {
		return nil, err
	}
	err = sideBySide(ctx, parallel, len(chosen), func(i int) error {
		r, err := b.try(ctx, chosen[i], noticed[chosen[i].ID])
		if err != nil {
			return err
		}
		r.output = nil
		results[i] = r
		p.add(r)
		return nil
	})
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return slices.DeleteFunc(results, func(r *result) bool { return r == nil }), err
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
	r, err := b.try(ctx, c, nil)
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
