package checkpoint_test

import (
	"cmp"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/test/scenario"
)

// run is the run whose checkpoints the tables are about.
const run = "6d1f1f0e-8a51-4a39-9d2c-3f3a1c1a0001"

// selection is a row: a reading of the store, what an attempt needs, and what is
// chosen.
type selection struct {
	Name string `json:"name"`
	// Catalog is the reading, of now unless it says when; absent: there was none.
	Catalog *scenario.Catalog `json:"catalog"`
	Query   struct {
		WorldSize      int32             `json:"worldSize"`
		Identity       map[string]string `json:"identity"`
		ExactWorldSize bool              `json:"exactWorldSize"`
		DeviceProfile  string            `json:"deviceProfile"`
		From           string            `json:"from"`
		Avoid          map[string]string `json:"avoid"`
	} `json:"query"`

	Selected   string   `json:"selected,omitempty"`
	Latest     string   `json:"latest,omitempty"`
	Empty      bool     `json:"empty,omitempty"`
	PassedOver []passed `json:"passedOver,omitempty"`
}

type passed struct {
	ID      string `json:"id"`
	Attempt int32  `json:"attempt"`
	Step    int64  `json:"step"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (s *selection) name() string { return s.Name }

func TestSelections(t *testing.T) {
	for _, s := range rows[selection](t, "selection-*.yaml") {
		t.Run(s.Name, func(t *testing.T) {
			c := checkpoint.Select(s.snapshot(), checkpoint.Query{
				RunID: run, WorldSize: s.Query.WorldSize, Identity: s.Query.Identity, ExactWorldSize: s.Query.ExactWorldSize,
				DeviceProfile: s.Query.DeviceProfile, From: s.Query.From, Avoid: s.Query.Avoid,
			})
			got := selection{Name: s.Name, Catalog: s.Catalog, Query: s.Query, Selected: idOf(c.Selected), Latest: idOf(c.Latest), Empty: c.Empty}
			for _, p := range c.PassedOver {
				got.PassedOver = append(got.PassedOver, passed(p))
			}
			if diff := gocmp.Diff(s, &got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func (s *selection) snapshot() *checkpoint.Snapshot {
	if s.Catalog == nil {
		return nil
	}
	snapshot := s.Catalog.Snapshot(run)
	snapshot.ListedAt = cmp.Or(snapshot.ListedAt, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	return snapshot
}

func idOf(m *checkpoint.Manifest) string {
	if m == nil {
		return ""
	}
	return m.ID
}
