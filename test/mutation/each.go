package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"rtj.dev/rtj/test/mutation/mutant"
)

// aHour bounds the time of a CPU that a process has for many mutants.
const aHour = time.Hour

// findEarly notes which mutants are reached before a test can switch them on: with what
// the package initialises.
func (t *built) findEarly(ctx context.Context, trace string) error {
	t.early = map[int]bool{}
	o, err := t.runTests(ctx, "^"+t.each+"$", unmutated, mutant.ListVariable+"=", mutant.TraceVariable+"="+trace)
	if err != nil {
		return err
	}
	_, list, ok := strings.Cut(string(o.output), "\nmutants early [")
	if !ok || o.failed {
		return fmt.Errorf("%s fails without a mutant:\n%s", t.each, o.output)
	}
	list, _, _ = strings.Cut(list, "]")
	for _, text := range strings.Fields(list) {
		id, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		t.early[id] = true
	}
	return nil
}

// atOnce is how many mutants a process is given.
const atOnce = 100

// tryEach tries the mutants that a test can switch on itself, many in one process, and
// returns who noticed which; "" for those that nothing noticed.
func (b *bench) tryEach(ctx context.Context, chosen []*change, parallel int) (noticed map[int]*result, err error) {
	noticed = map[int]*result{}
	for _, t := range b.suites {
		if t.each == "" {
			continue
		}
		var list []*change
		for _, c := range chosen {
			if len(t.reach[c.reachedAs]) > 0 && !t.early[c.reachedAs] && c.Kind != kindSwap {
				list = append(list, c)
			}
		}
		chunks := slices.Collect(slices.Chunk(list, atOnce))
		found := make([]map[int]*result, len(chunks))
		fmt.Fprintf(os.Stderr, "%s: %d mutants, many in one process\n", t.name, len(list))
		err := sideBySide(ctx, parallel, len(chunks), func(i int) (err error) {
			found[i], err = t.chunk(ctx, chunks[i])
			fmt.Fprintf(os.Stderr, "%s: mutants up to %d of %d\n", t.name, min((i+1)*atOnce, len(list)), len(list))
			return err
		})
		for _, some := range found {
			for id, r := range some {
				noticed[id] = r
			}
		}
		if err != nil {
			return noticed, err
		}
	}
	return noticed, nil
}

// chunk runs the mutants in as few processes as do not end before their time.
func (t *built) chunk(ctx context.Context, list []*change) (map[int]*result, error) {
	noticed := map[int]*result{}
	for len(list) > 0 {
		numbers := make([]string, len(list))
		for i, c := range list {
			numbers[i] = strconv.Itoa(c.ID)
		}
		o, err := t.runTests(ctx, "^"+t.each+"$", aHour, mutant.ListVariable+"="+strings.Join(numbers, " "))
		if err != nil || ctx.Err() != nil {
			return noticed, err
		}
		done, last := 0, -1
		for line := range bytes.Lines(o.output) {
			var id int
			var word, by string
			fields := strings.Fields(string(line))
			if len(fields) < 3 || fields[0] != "mutant" {
				continue
			}
			if id, err = strconv.Atoi(fields[1]); err != nil {
				return noticed, err
			}
			if word = fields[2]; word == "on" {
				last = id
				continue
			}
			if by = fields[len(fields)-1]; by == "-" {
				by = ""
			}
			noticed[id] = &result{change: list[done], By: t.name, Test: filepath.Join(t.test, by), Reached: true}
			if by == "" {
				noticed[id].By, noticed[id].Test = "", ""
			}
			done++
		}
		if o.failed && done < len(list) && last == list[done].ID {
			// The process ended, or was ended, under this one.
			noticed[last] = &result{change: list[done], By: t.name, Timeout: true, Reached: true}
			done++
		} else if o.failed || done < len(list) {
			return noticed, fmt.Errorf("%s: %s", t.each, o.output)
		}
		list = list[done:]
	}
	return noticed, nil
}
