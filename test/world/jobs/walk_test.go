package jobs_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/test/world/event"
)

// walk has events happen at random, faults among them, with suspensions, ends of
// processes and the passing of time.
func (r *rig) walk(seed uint64, steps int) (trace []string) {
	random := rand.New(rand.NewPCG(seed, 0))
	r.workers.onTerm = []int32{-1, 0, 143}[seed%3]
	r.create(jobSet("llama-1", true, 2, 1))
	for range steps {
		var all []event.Event
		add := func(e event.Event) {
			if !e.Fault || random.IntN(20) == 0 {
				all = append(all, e)
			}
		}
		r.Events(add)
		r.collector.Events(add)
		if s := r.jobSet(); s != nil && random.IntN(15) == 0 {
			suspend := !s.Bool("spec", "suspend")
			all = []event.Event{{Name: fmt.Sprint("suspend ", suspend), Do: func() {
				r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": suspend}}, "")
			}}}
		}
		if pods := r.pods(); len(pods) > 0 && random.IntN(20) == 0 {
			uid, code := pods[random.IntN(len(pods))].UID, []int32{0, 0, 1, 75, 77}[random.IntN(5)]
			if _, exited, _ := r.workers.State(uid); r.workers.pods[uid] != nil && !exited {
				all = []event.Event{{Name: fmt.Sprint("exit ", uid, " ", code), Do: func() { r.workers.exit(uid, code) }}}
			}
		}
		if next := r.Next(); len(all) == 0 || random.IntN(6) == 0 {
			d := time.Second
			if !next.IsZero() {
				d = next.Sub(r.now)
			}
			trace = append(trace, "pass "+d.String())
			r.pass(d)
			continue
		}
		names := map[string]bool{}
		for _, e := range all {
			if names[e.Name] {
				r.t.Fatalf("two events are called %q", e.Name)
			}
			names[e.Name] = true
		}
		e := all[random.IntN(len(all))]
		trace = append(trace, e.Name)
		e.Do()
		r.consistent(trace)
	}
	return trace
}

// consistent: what the API server of a real cluster would not have.
func (r *rig) consistent(trace []string) {
	r.t.Helper()
	wrong := func(format string, args ...any) {
		r.t.Helper()
		r.t.Fatalf("after\n%s\n%s", strings.Join(trace[max(0, len(trace)-40):], "\n"), fmt.Sprintf(format, args...))
	}
	for _, j := range r.api.List("Job") {
		if ready, active := j.Int("status", "ready"), j.Int("status", "active"); ready > active {
			wrong("%s: %d pods are ready and %d active", j, ready, active)
		}
		if j.True("Complete") && j.True("Failed") {
			wrong("%s is complete and failed", j)
		}
		finished := j.True("Complete") || j.True("Failed")
		for _, p := range r.api.Owned("Pod", j.UID) {
			if phase := p.Text("status", "phase"); finished && phase != "Succeeded" && phase != "Failed" && !p.Deleting() {
				wrong("%s has ended, and %s is %s", j, p, phase)
			}
		}
	}
	if s := r.jobSet(); s != nil && s.True("Completed") && s.True("Failed") {
		wrong("the JobSet is completed and failed")
	}
}

func TestWalks(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 30
	}
	ends := map[string]int{}
	for seed := range seeds {
		late := func() *rig {
			r := newRig(t)
			r.Prompt = seed%2 == 0
			return r
		}
		r := late()
		trace := r.walk(seed, 200)
		if again := late().walk(seed, 200); !slices.Equal(trace, again) {
			t.Fatalf("seed %d: not the same twice", seed)
		}
		// Once nothing goes wrong any more, all comes to rest, and the walk's last wish holds.
		r.Heal()
		r.workers.onTerm = 0
		for range 50 {
			r.settleAll()
			if next := r.Next(); !next.IsZero() {
				r.pass(next.Sub(r.now))
			}
		}
		if next := r.Next(); !next.IsZero() {
			t.Fatalf("seed %d: still waits for %s", seed, next)
		}
		s := r.jobSet()
		running := 0
		for _, p := range r.pods() {
			if p.Deleting() {
				t.Errorf("seed %d: %s is still terminating", seed, p)
			}
			if p.Text("status", "phase") == "Running" {
				running++
			}
		}
		want := 0
		if !s.Bool("spec", "suspend") && s.Text("status", "terminalState") == "" {
			want = 2
			for _, j := range r.api.List("Job") {
				if j.True("Complete") {
					want--
				}
			}
		}
		if running != want {
			t.Errorf("seed %d: %d pods run, want %d: %s", seed, running, want, conditions(s))
		}
		ends[conditions(s)]++
	}
	t.Log(ends)
}
