// Package mutant is what instrumented sources call: every mutant is compiled in,
// and the environment says which one is switched on. Nothing of the product
// imports it; test/mutation writes the calls into copies that only its own
// builds see.
package mutant

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	// Variable of the environment that holds the number of the mutant; without it
	// every mutant is off.
	Variable = "RTJ_MUTANT"
	// ListVariable holds the numbers of mutants that a test switches on itself.
	ListVariable = "RTJ_MUTANTS"
	// TraceVariable names a file to which the number of every mutant is appended
	// whose code was reached, once each, one a line.
	TraceVariable = "RTJ_MUTANT_TRACE"
)

var (
	active = number(os.Getenv(Variable))
	trace  = os.Getenv(TraceVariable)

	reached sync.Map
)

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// On reports whether the mutant is switched on.
func On(n int) bool {
	if trace != "" {
		note(n)
	}
	return n == active
}

// note appends to the trace at once, since nothing tells that the process ends.
func note(n int) {
	if _, twice := reached.LoadOrStore(n, true); twice {
		return
	}
	file, err := os.OpenFile(trace, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.WriteString(strconv.Itoa(n) + "\n"); err != nil {
		panic(err)
	}
}

// Early are the mutants that were reached until now, in a process that traces: called
// before a test does anything, those that are switched on too late when it switches them.
func Early() (early []int) {
	reached.Range(func(n, _ any) bool {
		early = append(early, n.(int))
		return true
	})
	return early
}

// Each switches on one mutant of the list after the other, and prints which is on, and
// then the test that noticed it, or "-". Try names the test; it may panic.
func Each(list []int, try func() string) {
	for _, active = range list {
		fmt.Printf("\nmutant %d on\n", active)
		fmt.Printf("\nmutant %d noticed by %s\n", active, noticed(try))
	}
	active = -1
}

func noticed(try func() string) (by string) {
	defer func() {
		if recover() != nil {
			by = "panic"
		}
	}()
	return cmp.Or(try(), "-")
}

// Less is a < b; a <= b when it is on.
func Less[T cmp.Ordered](n int, a, b T) bool {
	if On(n) {
		return a <= b
	}
	return a < b
}

// LessOrEqual is a <= b; a < b when it is on.
func LessOrEqual[T cmp.Ordered](n int, a, b T) bool {
	if On(n) {
		return a < b
	}
	return a <= b
}

// Before is a before b; not after when it is on.
func Before(n int, a, b time.Time) bool {
	if On(n) {
		return !a.After(b)
	}
	return a.Before(b)
}

// After is a after b; not before when it is on.
func After(n int, a, b time.Time) bool {
	if On(n) {
		return !a.Before(b)
	}
	return a.After(b)
}

// Max is the larger one; the smaller one when it is on.
func Max[T cmp.Ordered](n int, a T, more ...T) T {
	smaller := On(n)
	for _, b := range more {
		if smaller == (b < a) {
			a = b
		}
	}
	return a
}

// Min is the smaller one; the larger one when it is on.
func Min[T cmp.Ordered](n int, a T, more ...T) T {
	larger := On(n)
	for _, b := range more {
		if larger == (b > a) {
			a = b
		}
	}
	return a
}

// Value is a type whose constants are changed.
type Value interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Number is v; one more or one less when one of the mutants is on.
func Number[T Value](more, less int, v T) T {
	switch {
	case On(more):
		return v + 1
	case On(less):
		return v - 1
	}
	return v
}

// Duration is v; twice or half of it when one of the mutants is on.
func Duration(twice, half int, v time.Duration) time.Duration {
	switch {
	case On(twice):
		return v * 2
	case On(half):
		return v / 2
	}
	return v
}

// Zero is v; the zero value when it is on.
func Zero[T any](n int, v T) T {
	if On(n) {
		var zero T
		return zero
	}
	return v
}

// Never is the condition of a rule; one that is never true when it is on.
func Never[S any](n int, when func(S) bool) func(S) bool {
	return func(s S) bool { return !On(n) && when(s) }
}

// Swap is the table; with two neighbours swapped when it is on. It runs before
// anything is decided, so it leaves no trace: see Never of the first of the two.
func Swap[S ~[]E, E any](n, at int, table S) S {
	if n == active {
		table[at], table[at+1] = table[at+1], table[at]
	}
	return table
}

// Drop is the list; without one element when it is on.
func Drop[S ~[]E, E any](n, at int, list S) S {
	if On(n) {
		return append(list[:at:at], list[at+1:]...)
	}
	return list
}

// Without is the map; without one entry when it is on.
func Without[M ~map[K]V, K comparable, V any](n int, m M, key K) M {
	if On(n) {
		delete(m, key)
	}
	return m
}
