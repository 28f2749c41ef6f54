package hooks_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/catalog"
)

// A runner that cannot be told that a patch failed comes back to see, less often
// with time, until no patch is wanted. One that is told is not asked to.
func TestPatchesAreLookedAfter(t *testing.T) {
	for name, told := range map[string]bool{"told": true, "not told": false} {
		t.Run(name, func(t *testing.T) {
			m := after(t, "apply")
			now := m.Now
			h := hooks.New(hooks.Options{Observer: "rtj", Now: func() time.Time { return now }, Store: storeFunc(func(context.Context, catalog.Run, catalog.Ask) *checkpoint.Snapshot {
				return &checkpoint.Snapshot{ListedAt: now}
			})})
			defer h.Close()
			if told {
				h.OnNews(func(string, string) {})
			}
			made := m.Request.Parent
			wanted := bytes.Replace(made, []byte(v1beta1.AnnotationRunID), []byte("other"), 1)
			for _, step := range []struct {
				later  time.Duration
				parent []byte
				want   float64
			}{
				{0, wanted, 2}, {20 * time.Second, wanted, 5}, {time.Hour, wanted, 30}, {time.Second, made, 0}, {time.Second, wanted, 2},
			} {
				now = now.Add(step.later)
				m.Request.Parent = step.parent
				answer, err := h.Answer(context.Background(), m.Request, false)
				if err != nil {
					t.Fatal(err)
				}
				want := step.want
				if told {
					want = 0
				}
				if got := answer.Response.ResyncAfterSeconds; got != want {
					t.Errorf("with %d patches: comes again after %g s, want %g", len(answer.Decision.Patches), got, want)
				}
			}
		})
	}
}
