package trainer

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/store"
)

// text is a Hash that people can read.
type text struct {
	strings.Builder
	now time.Time
}

func (h *text) Text(s string) { fmt.Fprintf(h, "%q ", s) }
func (h *text) Int(n int64)   { fmt.Fprint(h, n, " ") }
func (h *text) Bool(is bool)  { fmt.Fprint(h, is, " ") }
func (h *text) Time(t time.Time) {
	if t.IsZero() {
		h.Text("never")
		return
	}
	h.Text(t.Sub(h.now).String())
}

func (h *text) Age(t time.Time, _ time.Duration, _ string) { h.Time(t) }
func (h *text) Told(s string)                              { h.JSON(s) }
func (h *text) Aged(s string, _ time.Duration)             { h.JSON(s) }

var (
	moment = regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`)
	runID  = regexp.MustCompile(`\brun-[0-9]+\b`)
)

func (h *text) JSON(s string) {
	s = runID.ReplaceAllString(s, "run")
	h.Text(moment.ReplaceAllStringFunc(s, func(found string) string {
		at, err := time.Parse(time.RFC3339Nano, found)
		if err != nil {
			panic(err)
		}
		return at.Sub(h.now).String()
	}))
}

func (r *rig) fingerprint() string {
	h := &text{now: r.now}
	r.store.Fingerprint(h)
	r.Fingerprint(h)
	return h.String()
}

// Worlds that differ in when they are and in the UIDs have the same fingerprint after
// each event of the same life, and another one after each of its events.
func TestFingerprints(t *testing.T) {
	life := func(now time.Time, id string) (all []string) {
		r := newRig(t, Behaviour{StepTime: time.Second, SaveTime: 5 * time.Second, ProgressTime: 10 * time.Second, Total: 80})
		r.now = now
		for i := range 2 {
			p := pod(1, i, "")
			env := p.List("spec", "containers")[0].(map[string]any)["env"].([]any)
			env[2].(map[string]any)["value"] = id
			r.Start(p)
		}
		take := func() bool {
			all = append(all, r.fingerprint())
			return r.ended()
		}
		for !r.Work(take) {
			r.now = event.Soonest(r.Next())
		}
		return all
	}
	a, b := life(noon, "run-1"), life(noon.Add(25*time.Hour), "run-2")
	if len(a) != len(b) {
		t.Fatalf("%d and %d events", len(a), len(b))
	}
	seen := map[string]int{}
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("event %d:\n%s\n%s", i, a[i], b[i])
		}
		// The same again where only time passed and nothing was to be done.
		if at, twice := seen[a[i]]; twice && at != i-1 {
			t.Fatalf("events %d and %d:\n%s", at, i, a[i])
		}
		seen[a[i]] = i
	}
}

// A Reader that remembers something has another fingerprint than one that does not.
func TestFingerprintsOfReaders(t *testing.T) {
	r := newRig(t, Behaviour{Total: 1})
	r.start(1, "")
	r.work(r.ended)
	prints := map[string]bool{}
	reader := &store.Reader{}
	take := func() {
		h := &text{now: r.now}
		reader.Fingerprint(h, key(""))
		prints[h.String()] = true
	}
	take()
	reader.Read(r.store, r.run(), catalog.Ask{})
	take()
	take() // the same
	r.store.Down(store.Outage)
	reader.Read(r.store, r.run(), catalog.Ask{})
	take()
	if len(prints) != 3 {
		t.Errorf("%d", len(prints))
	}
}
