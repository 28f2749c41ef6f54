package checkpoint

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/api/v1beta1"
)

// randomRun is a history of attempts as it could have happened, with zombies,
// torn, quarantined and foreign checkpoints, lost start records, and now and
// then a start record that is nonsense.
func randomRun(r *rand.Rand) (*Snapshot, Query) {
	s := &Snapshot{ListedAt: listed, Attempts: map[int32]Records{}, Quarantined: map[string]Quarantine{}}
	q := Query{RunID: runID, WorldSize: 4, Avoid: map[string]string{}}
	attempts := int32(1 + r.IntN(8))
	for n := int32(1); n <= attempts; n++ {
		step := int64(0)
		switch {
		case r.IntN(12) == 0:
			s.Attempts[n] = Records{Progress: &Progress{Attempt: n}}
		case r.IntN(12) == 0:
			s.Attempts[n] = from(n, n+int32(r.IntN(3)), 100)
		case len(s.Manifests) == 0 || r.IntN(6) == 0:
			s.Attempts[n] = fresh(n)
		default:
			m := s.Manifests[r.IntN(len(s.Manifests))]
			s.Attempts[n] = Records{Start: &Start{Attempt: n, Restore: &Restore{Checkpoint: m.ID, Attempt: m.Attempt, Step: m.Step}}}
			step = m.Step
		}
		for nonce := range r.IntN(5) {
			step += int64(r.IntN(3)) * 50
			m := save(n, step)
			m.ID = idOf(n, step, nonce)
			switch r.IntN(12) {
			case 0:
				m = incomplete(m)
			case 1:
				s.Quarantined[m.ID] = Quarantine{}
			case 2:
				m = m.WithDefect(ReasonCorruptManifest, "cut")
			case 3:
				m.RunID = "another"
			case 4:
				m.WorldSize = 8
				m.Components = map[string]Component{"model": {"none", true}}
			case 5:
				q.Avoid[m.ID] = "failed"
			}
			s.Manifests = append(s.Manifests, m)
		}
	}
	if len(s.Manifests) > 0 && r.IntN(3) == 0 {
		q.From = s.Manifests[r.IntN(len(s.Manifests))].ID
	}
	r.Shuffle(len(s.Manifests), func(i, j int) { s.Manifests[i], s.Manifests[j] = s.Manifests[j], s.Manifests[i] })
	return s, q
}

// chain is the definition, spelled out and slow: the ids that an attempt's
// branch may restore. It ends at from, if from is on it; through reports that.
func chain(s *Snapshot, attempt int32, from string) (ids map[string]bool, through bool) {
	ids = map[string]bool{}
	upTo := int64(1 << 62)
	for {
		for _, m := range s.Manifests {
			if m.Attempt == attempt && m.Step <= upTo {
				ids[m.ID] = true
			}
		}
		start := s.Attempts[attempt].Start
		if start == nil || start.Restore == nil || start.Restore.Attempt >= attempt {
			return ids, false
		}
		if from != "" && start.Restore.Checkpoint == from {
			ids[from] = true
			return ids, true
		}
		attempt, upTo = start.Restore.Attempt, start.Restore.Step
	}
}

// candidates are the ids that may be selected as far as lineage goes.
func candidates(s *Snapshot, q Query) map[string]bool {
	head, best := int32(0), map[string]bool{}
	if q.From != "" {
		best[q.From] = true
	}
	for _, m := range s.Manifests {
		if m.Attempt <= head || (m.Defect == nil && m.RunID != runID) {
			continue
		}
		ids, through := chain(s, m.Attempt, q.From)
		if q.From == "" || through {
			head, best = m.Attempt, ids
		}
	}
	return best
}

func usable(s *Snapshot, q Query, m *Manifest) bool {
	_, quarantined := s.Quarantined[m.ID]
	_, avoided := q.Avoid[m.ID]
	return m.Defect == nil && m.RunID == runID && m.Incomplete == "" && !quarantined && !avoided && m.WorldSize == 4
}

func TestSelectOverRandomHistories(t *testing.T) {
	selections := 0
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 7))
		s, q := randomRun(r)
		c := Select(s, q)
		allowed := candidates(s, q)

		if m := c.Selected; m != nil {
			selections++
			if !allowed[m.ID] || !usable(s, q, m) {
				t.Fatalf("seed %d: selected %+v", seed, m)
			}
		}
		reported := map[string]bool{}
		for _, p := range c.PassedOver {
			if reported[p.ID] {
				t.Fatalf("seed %d: %s is passed over twice", seed, p.ID)
			}
			reported[p.ID] = true
		}
		for i := range s.Manifests {
			m := &s.Manifests[i]
			newer := c.Selected == nil || m.ID > c.Selected.ID
			switch {
			case m == c.Selected:
				if reported[m.ID] {
					t.Fatalf("seed %d: the selected one is passed over", seed)
				}
			case allowed[m.ID] && usable(s, q, m) && newer:
				t.Fatalf("seed %d: %s is a newer candidate than %s", seed, m.ID, idOrNone(c.Selected))
			case reported[m.ID] != (newer || !allowed[m.ID] || (m.Defect == nil && m.RunID != runID)):
				t.Fatalf("seed %d: %s passed over: %v", seed, m.ID, reported[m.ID])
			}
		}
		if !slices.IsSortedFunc(c.PassedOver, func(a, b PassedOver) int { return strings.Compare(b.ID, a.ID) }) {
			t.Fatalf("seed %d: passed over out of order: %+v", seed, c.PassedOver)
		}

		// The order in which the store lists changes nothing.
		selected := idOrNone(c.Selected) // before the shuffle moves what it points at
		r.Shuffle(len(s.Manifests), func(i, j int) { s.Manifests[i], s.Manifests[j] = s.Manifests[j], s.Manifests[i] })
		again := Select(s, q)
		if idOrNone(again.Selected) != selected || !cmp.Equal(again.PassedOver, c.PassedOver) {
			t.Fatalf("seed %d: another order of listing, another choice", seed)
		}
	}
	if selections < 1_250 {
		t.Errorf("only %d histories had something to select: the test says little", selections)
	}
}

func TestReasonsAreThoseOfTheAPI(t *testing.T) {
	for ours, theirs := range map[string]string{
		ReasonIncomplete:          v1beta1.ReasonIncomplete,
		ReasonQuarantined:         v1beta1.ReasonQuarantined,
		ReasonCorruptManifest:     v1beta1.ReasonCorruptManifest,
		ReasonUnknownVersion:      v1beta1.ReasonUnknownVersion,
		ReasonOtherBranch:         v1beta1.ReasonOtherBranch,
		ReasonOtherRun:            v1beta1.ReasonOtherRun,
		ReasonNotDescendant:       v1beta1.ReasonNotDescendant,
		ReasonIdentityMismatch:    v1beta1.ReasonIdentityMismatch,
		ReasonWorldSizeMismatch:   v1beta1.ReasonWorldSizeMismatch,
		ReasonLayoutMismatch:      v1beta1.ReasonLayoutMismatch,
		ReasonComponentIncomplete: v1beta1.ReasonComponentIncomplete,
		ReasonDeviceMismatch:      v1beta1.ReasonDeviceMismatch,
		ReasonRestoreFailed:       v1beta1.ReasonRestoreFailed,
	} {
		if ours != theirs {
			t.Errorf("%s is %s in the API", ours, theirs)
		}
	}
}

// A run of 64 checkpoints over 16 attempts, each going on from the last.
func longRun() *Snapshot {
	s := &Snapshot{ListedAt: listed, Attempts: map[int32]Records{}}
	step := int64(0)
	for n := int32(1); n <= 16; n++ {
		if n == 1 {
			s.Attempts[n] = fresh(n)
		} else {
			s.Attempts[n] = from(n, n-1, step)
		}
		for range 4 {
			step += 100
			s.Manifests = append(s.Manifests, save(n, step))
		}
	}
	return s
}

func BenchmarkSelect(b *testing.B) {
	s := longRun()
	for name, q := range map[string]Query{
		"64 checkpoints/newest fits":     {RunID: runID, WorldSize: 4},
		"64 checkpoints/none fits":       {RunID: runID, WorldSize: 4, Identity: map[string]string{"codeVersion": "v2"}},
		"64 checkpoints/from the oldest": {RunID: runID, WorldSize: 4, From: id(1, 100)},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Select(s, q)
			}
		})
	}
}
