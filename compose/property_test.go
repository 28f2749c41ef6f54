package compose_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/test/arbitrary"
)

var more = flag.Float64("more", 1, "decide about so many times as many arbitrary observations")

// TestDecisionsKeepThePromises decides about arbitrary observations and checks
// what must hold for every single decision. A failure names the seed; that seed
// alone shows it again.
func TestDecisionsKeepThePromises(t *testing.T) {
	golden, err := arbitrary.Golden("../testdata/sync")
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range arbitrary.Generators {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			for n := range int(float64(g.Cases) * *more) {
				seed := uint64(i)<<32 | uint64(n)
				if broken := check(seed, g.Make(arbitrary.New(seed), golden)); broken != "" {
					t.Fatalf("seed %d: %s", seed, broken)
				}
			}
		})
	}
}

// check decides about an observation, both ways, and returns the promise that is
// broken; empty when none is.
func check(seed uint64, o *compose.Observation) (broken string) {
	for _, hook := range []struct {
		name     string
		decide   func(*compose.Observation) *compose.Decision
		deleting bool
	}{{"sync", compose.Sync, false}, {"finalize", compose.Finalize, true}} {
		if broken := checkHook(seed, o, hook.decide, hook.deleting); broken != "" {
			return hook.name + ": " + broken
		}
	}
	return ""
}

func checkHook(seed uint64, o *compose.Observation, decide func(*compose.Observation) *compose.Decision, deleting bool) (broken string) {
	defer func() {
		if p := recover(); p != nil {
			broken = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	before := written(o)
	d := decide(o)
	if !bytes.Equal(before, written(o)) {
		return "the observation was modified"
	}
	if again := decide(o); !bytes.Equal(written(d), written(again)) {
		return "the second decision differs:\n" + cmp.Diff(indented(d), indented(again))
	}
	if other := decide(arbitrary.New(seed).Shuffled(o)); !bytes.Equal(written(d), written(other)) {
		return "the order of objects changes the decision:\n" + cmp.Diff(indented(d), indented(other))
	}
	for _, promise := range promises {
		if broken := promise.broken(&judged{o, d, deleting}); broken != "" {
			return promise.name + ": " + broken
		}
	}
	return settles(o, decide)
}

// settles: with nothing but the status moving, decisions come to rest. A job that
// did not would be written for ever.
func settles(o *compose.Observation, decide func(*compose.Observation) *compose.Decision) string {
	const rounds = 8
	n := *o
	var last, before []byte
	for range rounds {
		before, last = last, written(decide(&n).Status)
		if bytes.Equal(before, last) {
			return ""
		}
		// As the API server keeps it: whole seconds, nothing that is empty.
		parent := *n.Parent
		parent.Status = v1beta1.ResumableTrainingJobStatus{}
		if err := json.Unmarshal(last, &parent.Status); err != nil {
			return err.Error()
		}
		n.Parent = &parent
	}
	return "status does not come to rest:\n" + cmp.Diff(indented(json.RawMessage(before)), indented(json.RawMessage(last)))
}

// written is a value as JSON.
func written(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// indented is a value for a person to read.
func indented(v any) string {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}
