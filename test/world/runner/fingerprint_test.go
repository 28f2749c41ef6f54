package runner_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

// plainHash is what is taken up, as it is.
type plainHash struct{ text strings.Builder }

func (h *plainHash) Text(s string)      { fmt.Fprintf(&h.text, "%q\n", s) }
func (h *plainHash) Int(n int64)        { fmt.Fprintln(&h.text, n) }
func (h *plainHash) Bool(is bool)       { fmt.Fprintln(&h.text, is) }
func (h *plainHash) Time(t time.Time)   { fmt.Fprintln(&h.text, t.UTC()) }
func (h *plainHash) JSON(s string)      { fmt.Fprintln(&h.text, s) }
func (h *plainHash) Told(s string)      { fmt.Fprintln(&h.text, s) }
func (h *plainHash) Place(string) int   { return 0 }
func (h *plainHash) Over(string) bool   { return false }
func (h *plainHash) Newest(string) bool { return true }
func (h *plainHash) Aged(s string, _ time.Duration) {
	fmt.Fprintln(&h.text, s)
}
func (h *plainHash) Age(t time.Time, _ time.Duration, _ string) { h.Time(t) }
func (h *plainHash) Object(o *apiserver.Object)                 { fmt.Fprintln(&h.text, string(o.JSON())) }

// fingerprint of the instances and of what they act upon.
func (r *rig) fingerprint() string {
	h := &plainHash{}
	for _, of := range r.runners {
		of.Fingerprint(h)
	}
	h.Time(r.now)
	for _, kind := range r.api.Kinds() {
		for _, o := range r.api.List(kind) {
			h.Object(o)
		}
	}
	return h.text.String()
}

// offered are the events of the instances, by name.
func (r *rig) offered() (names []string) {
	for _, e := range r.events() {
		if strings.HasPrefix(e.Name, "rtj-") {
			names = append(names, e.Name)
		}
	}
	return names
}

// What has the same fingerprint offers the same and becomes the same; what an event
// changed has another. Walks that differ in their order meet again and again.
func TestFingerprints(t *testing.T) {
	type meeting struct {
		offered []string
		next    map[string]string // fingerprint after an event
	}
	met := map[string]*meeting{}
	again := 0
	for seed := range uint64(12) {
		r := newRig(t, lagging)
		r.json = func() bool { return false }
		r.apply("llama")
		random := rand.New(rand.NewPCG(seed, 0))
		for range 60 {
			offered := r.offered()
			is := r.fingerprint()
			if c := r.clone(); c.fingerprint() != is {
				t.Fatal("a clone has another fingerprint")
			}
			m := met[is]
			if m == nil {
				m = &meeting{offered: offered, next: map[string]string{}}
				met[is] = m
			} else if again++; !slices.Equal(m.offered, offered) {
				t.Fatalf("seed %d: states of one fingerprint offer\n%v\n%v", seed, m.offered, offered)
			}
			events := slices.DeleteFunc(r.events(), func(event event) bool { return event.Fault || !strings.HasPrefix(event.Name, "rtj-") })
			if len(events) == 0 {
				r.settleBut(offered...)
				if !r.pass(r.now.Add(time.Minute)) {
					break
				}
				continue
			}
			e := events[random.IntN(min(len(events), 2))]
			e.Do()
			becomes := r.fingerprint()
			if becomes == is {
				t.Errorf("seed %d: %q changes nothing", seed, e.Name)
			}
			if was, known := m.next[e.Name]; known && was != becomes {
				t.Fatalf("seed %d: %q leads to two states", seed, e.Name)
			}
			m.next[e.Name] = becomes
		}
	}
	if again < 20 {
		t.Errorf("walks met %d times", again)
	}
}
