package checkpoint

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var listed = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// save is the checkpoint of a step of an attempt: complete, of 4 ranks, every
// component readable at any shape.
func save(attempt int32, step int64) Manifest {
	return Manifest{
		ID: id(attempt, step), Attempt: attempt, Step: step, RunID: runID, WorldSize: 4,
		Layout: Layout{DP: 4, TP: 1, PP: 1, CP: 1, EP: 1, GlobalBatch: 64, Accumulation: 1},
		Components: map[string]Component{
			"model": {"any", true}, "optimizer": {"any", true}, "rng": {"any", true}, "data": {"any", true},
		},
		Objects: 4, Bytes: 4096,
	}
}

func id(attempt int32, step int64) string { return idOf(attempt, step, 0) }

func idOf(attempt int32, step int64, nonce int) string {
	return fmt.Sprintf("%06d-%012d-%012x-%016x", attempt, step, nonce, 0)
}

// fresh and from are what an attempt started from.
func fresh(attempt int32) Records { return Records{Start: &Start{Attempt: attempt, WorldSize: 4}} }

func from(attempt, restored int32, step int64) Records {
	return Records{Start: &Start{
		Attempt: attempt, WorldSize: 4,
		Restore: &Restore{Checkpoint: id(restored, step), Attempt: restored, Step: step},
	}}
}

func with(m Manifest, change func(*Manifest)) Manifest {
	change(&m)
	return m
}

func incomplete(m Manifest) Manifest {
	m.Incomplete = Prefix(m.Attempt, m.Step, "000000000000") + "01/r1-0 is missing (1024 bytes)"
	return m
}

type row struct {
	name     string
	attempts map[int32]Records
	// manifests; nil Quarantined means none.
	manifests   []Manifest
	quarantined map[string]Quarantine
	query       Query

	selected string
	latest   string // like selected when empty
	noLatest bool
	empty    bool
	// passed is "<id> <reason>", newest first.
	passed []string
	// says are texts that the messages of passed must hold, in the same order.
	says []string
}

func run(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			r.query.RunID = runID
			s := &Snapshot{ListedAt: listed, Manifests: r.manifests, Attempts: r.attempts, Quarantined: r.quarantined}
			c := Select(s, r.query)
			if got := idOrNone(c.Selected); got != r.selected {
				t.Errorf("selected %q, want %q", got, r.selected)
			}
			latest := r.latest
			if latest == "" && !r.noLatest {
				latest = r.selected
			}
			if got := idOrNone(c.Latest); got != latest {
				t.Errorf("latest %q, want %q", got, latest)
			}
			if c.Empty != r.empty {
				t.Errorf("empty %v, want %v", c.Empty, r.empty)
			}
			var passed []string
			for _, p := range c.PassedOver {
				passed = append(passed, p.ID+" "+p.Reason)
				if p.Message == "" {
					t.Errorf("%s is passed over without a message", p.ID)
				}
			}
			if diff := cmp.Diff(r.passed, passed); diff != "" {
				t.Errorf("passed over (-want +got):\n%s", diff)
			}
			for i, text := range r.says {
				if i < len(c.PassedOver) && !strings.Contains(c.PassedOver[i].Message, text) {
					t.Errorf("message of %s: %q, want one with %q", c.PassedOver[i].ID, c.PassedOver[i].Message, text)
				}
			}
		})
	}
}

func idOrNone(m *Manifest) string {
	if m == nil {
		return ""
	}
	return m.ID
}

func TestSelectFollowsTheNewestBranch(t *testing.T) {
	run(t, []row{
		{
			name:  "a run without manifests starts fresh",
			empty: true,
		},
		{
			name:      "the newest step of the only attempt",
			attempts:  map[int32]Records{1: fresh(1)},
			manifests: []Manifest{save(1, 100), save(1, 300), save(1, 200)},
			selected:  id(1, 300),
		},
		{
			name:     "a later attempt with a lower step is newer",
			attempts: map[int32]Records{1: fresh(1), 2: from(2, 1, 100)},
			manifests: []Manifest{
				save(1, 100), save(1, 900), save(2, 200),
			},
			selected: id(2, 200),
			passed:   []string{id(1, 900) + " OtherBranch"},
			says:     []string{"attempt 2 went on from step 100 of attempt 1, this is step 900"},
		},
		{
			name:     "clocks that run backwards change nothing",
			attempts: map[int32]Records{1: fresh(1), 2: from(2, 1, 100)},
			manifests: []Manifest{
				with(save(1, 100), func(m *Manifest) { m.CommittedAt = listed.Add(10 * time.Minute) }),
				with(save(2, 200), func(m *Manifest) { m.CommittedAt = listed.Add(-10 * time.Minute) }),
				with(save(2, 150), func(m *Manifest) { m.CommittedAt = listed }),
			},
			selected: id(2, 200),
		},
		{
			name:     "an attempt that committed nothing hides nothing",
			attempts: map[int32]Records{1: fresh(1), 2: from(2, 1, 100), 3: fresh(3)},
			manifests: []Manifest{
				save(1, 100), save(2, 200),
			},
			selected: id(2, 200),
		},
		{
			name: "a zombie of an older attempt that commits late is on another branch",
			attempts: map[int32]Records{
				1: fresh(1), 2: from(2, 1, 100), 3: from(3, 1, 100),
			},
			manifests: []Manifest{save(1, 100), save(3, 150), save(2, 5000)},
			selected:  id(3, 150),
			passed:    []string{id(2, 5000) + " OtherBranch"},
			says:      []string{"attempt 2 is not on the newest branch, which goes back from attempt 3, attempt 1"},
		},
		{
			name: "when the newest branch has nothing sound of its own, it goes back to what it continued, not to its siblings",
			attempts: map[int32]Records{
				1: fresh(1), 2: from(2, 1, 100), 3: from(3, 1, 200),
			},
			manifests: []Manifest{save(1, 100), save(1, 200), save(1, 300), save(2, 900), incomplete(save(3, 250))},
			selected:  id(1, 200),
			passed:    []string{id(3, 250) + " Incomplete", id(2, 900) + " OtherBranch", id(1, 300) + " OtherBranch"},
		},
		{
			name: "a long chain of attempts is followed to its beginning",
			attempts: map[int32]Records{
				1: fresh(1), 2: from(2, 1, 100), 3: from(3, 2, 200), 4: from(4, 3, 300),
			},
			manifests: []Manifest{save(1, 100), incomplete(save(2, 200)), incomplete(save(3, 300)), incomplete(save(4, 400))},
			selected:  id(1, 100),
			passed:    []string{id(4, 400) + " Incomplete", id(3, 300) + " Incomplete", id(2, 200) + " Incomplete"},
		},
		{
			name:      "an attempt that started fresh leaves the older ones behind",
			attempts:  map[int32]Records{1: fresh(1), 2: fresh(2)},
			manifests: []Manifest{save(1, 900), incomplete(save(2, 10))},
			noLatest:  true,
			passed:    []string{id(2, 10) + " Incomplete", id(1, 900) + " OtherBranch"},
			says:      []string{"", "attempt 2 started fresh; spec.resume.from can name this checkpoint"},
		},
		{
			name:      "without the start record nothing older is trusted, and the message says so",
			attempts:  map[int32]Records{1: fresh(1)},
			manifests: []Manifest{save(1, 100), incomplete(save(2, 200))},
			noLatest:  true,
			passed:    []string{id(2, 200) + " Incomplete", id(1, 100) + " OtherBranch"},
			says:      []string{"", "attempt 2 has no readable start record"},
		},
		{
			name:      "a start record that names its own attempt ends the branch",
			attempts:  map[int32]Records{1: fresh(1), 2: from(2, 2, 100)},
			manifests: []Manifest{save(1, 100), incomplete(save(2, 200))},
			noLatest:  true,
			passed:    []string{id(2, 200) + " Incomplete", id(1, 100) + " OtherBranch"},
			says:      []string{"", "attempt 2 says that it continued attempt 2, which cannot be"},
		},
		{
			name:      "start records in a circle end the branch",
			attempts:  map[int32]Records{2: from(2, 3, 300), 3: from(3, 2, 200)},
			manifests: []Manifest{save(2, 200), incomplete(save(3, 300))},
			selected:  id(2, 200),
			passed:    []string{id(3, 300) + " Incomplete"},
		},
		{
			name:     "of two saves of one step the same one is always taken",
			attempts: map[int32]Records{1: fresh(1)},
			manifests: []Manifest{
				with(save(1, 100), func(m *Manifest) { m.ID = idOf(1, 100, 7) }),
				with(save(1, 100), func(m *Manifest) { m.ID = idOf(1, 100, 9) }),
				with(save(1, 100), func(m *Manifest) { m.ID = idOf(1, 100, 8) }),
			},
			selected: idOf(1, 100, 9),
		},
		{
			// The same step was saved again over an interrupted save: the torn one
			// has a prefix of its own and hides nothing.
			name:     "a save repeated at the step of a torn one is taken",
			attempts: map[int32]Records{1: fresh(1), 2: from(2, 1, 100)},
			manifests: []Manifest{
				save(1, 100), incomplete(save(1, 300)), save(2, 300),
			},
			selected: id(2, 300),
			passed:   []string{id(1, 300) + " Incomplete"},
		},
	})
}

func TestSelectPassesOverWhatNobodyCanRestore(t *testing.T) {
	run(t, []row{
		{
			// Step 300 was killed in the middle of its save: no manifest, so it is
			// not even a candidate.
			name:      "only what has a manifest is a candidate",
			attempts:  map[int32]Records{1: fresh(1)},
			manifests: []Manifest{save(1, 200)},
			selected:  id(1, 200),
		},
		{
			name:      "a manifest with a missing object",
			attempts:  map[int32]Records{1: fresh(1)},
			manifests: []Manifest{save(1, 200), incomplete(save(1, 300))},
			selected:  id(1, 200),
			passed:    []string{id(1, 300) + " Incomplete"},
			says:      []string{"checkpoints/1/300-000000000000/01/r1-0 is missing (1024 bytes)"},
		},
		{
			name:     "a quarantined one, and how to lift it",
			attempts: map[int32]Records{1: fresh(1)},
			manifests: []Manifest{
				save(1, 200), save(1, 300),
			},
			quarantined: map[string]Quarantine{id(1, 300): {
				Cause: "checksumMismatch", Object: "checkpoints/1/300-0/01/r1-0", Rank: 1, Node: "node-b", Message: "read twice"}},
			selected: id(1, 200),
			passed:   []string{id(1, 300) + " Quarantined"},
			says: []string{"checksumMismatch of checkpoints/1/300-0/01/r1-0, seen by rank 1 on node node-b: read twice; " +
				"deleting quarantine/" + id(1, 300) + ".json lifts it"},
		},
		{
			name:     "a quarantine record that cannot be read still counts",
			attempts: map[int32]Records{1: fresh(1)},
			manifests: []Manifest{
				save(1, 200), save(1, 300),
			},
			quarantined: map[string]Quarantine{id(1, 300): {}},
			selected:    id(1, 200),
			passed:      []string{id(1, 300) + " Quarantined"},
			says:        []string{"quarantined; deleting"},
		},
		{
			name:     "a corrupt manifest and one of a later version",
			attempts: map[int32]Records{1: fresh(1), 2: from(2, 1, 200)},
			manifests: []Manifest{
				save(1, 200),
				save(2, 300).WithDefect(ReasonUnknownVersion, "schemaVersion 2.0"),
				save(2, 400).WithDefect(ReasonCorruptManifest, "is cut"),
			},
			selected: id(1, 200),
			passed:   []string{id(2, 400) + " CorruptManifest", id(2, 300) + " UnknownVersion"},
			says:     []string{"is cut", "schemaVersion 2.0"},
		},
		{
			name:      "a file that is no manifest does not make the run empty",
			manifests: []Manifest{NamedManifest("last")},
			noLatest:  true,
			passed:    []string{"last CorruptManifest"},
			says:      []string{`"last" is not a checkpoint id`},
		},
		{
			name:     "a manifest of another run neither leads nor is adopted",
			attempts: map[int32]Records{1: fresh(1)},
			manifests: []Manifest{
				save(1, 10), with(save(9, 1000), func(m *Manifest) { m.RunID = "of-the-job-before" }),
			},
			selected: id(1, 10),
			passed:   []string{id(9, 1000) + " OtherRun"},
			says:     []string{"it is of run of-the-job-before, this is run " + runID},
		},
		{
			name:      "nothing is sound",
			attempts:  map[int32]Records{1: fresh(1)},
			manifests: []Manifest{incomplete(save(1, 100)), incomplete(save(1, 200))},
			noLatest:  true,
			passed:    []string{id(1, 200) + " Incomplete", id(1, 100) + " Incomplete"},
		},
		{
			name:      "what is to be avoided is the latest all the same",
			attempts:  map[int32]Records{1: fresh(1)},
			manifests: []Manifest{save(1, 100), save(1, 200)},
			query:     Query{Avoid: map[string]string{id(1, 200): "3 restores failed: outOfMemory"}},
			selected:  id(1, 100),
			latest:    id(1, 200),
			passed:    []string{id(1, 200) + " RestoreFailed"},
			says:      []string{"3 restores failed: outOfMemory"},
		},
	})
}

func TestSelectFromACheckpoint(t *testing.T) {
	// Attempt 1 went to step 500; a user rolls it back to step 200.
	attempts := map[int32]Records{1: fresh(1)}
	history := []Manifest{save(1, 100), save(1, 200), save(1, 300), save(1, 500)}
	query := Query{From: id(1, 200)}
	run(t, []row{
		{
			name:      "rolls back within the attempt that wrote it",
			attempts:  attempts,
			manifests: history,
			query:     query,
			selected:  id(1, 200),
			passed:    []string{id(1, 500) + " NotDescendant", id(1, 300) + " NotDescendant", id(1, 100) + " NotDescendant"},
			says:      []string{"it does not descend from " + id(1, 200)},
		},
		{
			name:      "stays right after progress",
			attempts:  map[int32]Records{1: fresh(1), 2: from(2, 1, 200)},
			manifests: append([]Manifest{save(2, 250), save(2, 300)}, history...),
			query:     query,
			selected:  id(2, 300),
			passed:    []string{id(1, 500) + " NotDescendant", id(1, 300) + " NotDescendant", id(1, 100) + " NotDescendant"},
		},
		{
			name:      "follows descendants of descendants",
			attempts:  map[int32]Records{1: fresh(1), 2: from(2, 1, 200), 3: from(3, 2, 250)},
			manifests: append([]Manifest{save(2, 250), save(2, 300), save(3, 275)}, history...),
			query:     query,
			selected:  id(3, 275),
			passed: []string{id(2, 300) + " OtherBranch", id(1, 500) + " NotDescendant",
				id(1, 300) + " NotDescendant", id(1, 100) + " NotDescendant"},
		},
		{
			name:      "is not led away by a newer attempt that went on from elsewhere",
			attempts:  map[int32]Records{1: fresh(1), 2: from(2, 1, 200), 3: from(3, 1, 500)},
			manifests: append([]Manifest{save(2, 300), save(3, 800)}, history...),
			query:     query,
			selected:  id(2, 300),
			passed: []string{id(3, 800) + " NotDescendant", id(1, 500) + " NotDescendant",
				id(1, 300) + " NotDescendant", id(1, 100) + " NotDescendant"},
		},
		{
			name:      "goes back to the checkpoint itself when its descendants are torn, never behind it",
			attempts:  map[int32]Records{1: fresh(1), 2: from(2, 1, 200)},
			manifests: append([]Manifest{incomplete(save(2, 300))}, history...),
			query:     query,
			selected:  id(1, 200),
			passed: []string{id(2, 300) + " Incomplete", id(1, 500) + " NotDescendant",
				id(1, 300) + " NotDescendant", id(1, 100) + " NotDescendant"},
		},
		{
			name:      "a second roll-back, to a checkpoint of the newer attempt",
			attempts:  map[int32]Records{1: fresh(1), 2: from(2, 1, 200), 3: from(3, 2, 300)},
			manifests: []Manifest{save(1, 200), save(2, 300), save(2, 400), save(3, 350)},
			query:     Query{From: id(2, 400)},
			selected:  id(2, 400),
			passed:    []string{id(3, 350) + " NotDescendant", id(2, 300) + " NotDescendant", id(1, 200) + " NotDescendant"},
		},
		{
			name:      "a torn one selects nothing",
			attempts:  attempts,
			manifests: []Manifest{save(1, 100), incomplete(save(1, 200))},
			query:     query,
			noLatest:  true,
			passed:    []string{id(1, 200) + " Incomplete", id(1, 100) + " NotDescendant"},
		},
		{
			name:      "one that does not exist selects nothing and comes first",
			attempts:  attempts,
			manifests: []Manifest{save(1, 100)},
			query:     Query{From: id(1, 150)},
			noLatest:  true,
			passed:    []string{id(1, 150) + " NotFound", id(1, 100) + " NotDescendant"},
			says:      []string{"spec.resume.from: the run has no manifest of this id"},
		},
		{
			name:     "one that does not exist in an empty run does not start fresh",
			query:    Query{From: id(1, 150)},
			noLatest: true,
			passed:   []string{id(1, 150) + " NotFound"},
		},
		{
			name:      "a name that is no id is refused with the form of one",
			manifests: []Manifest{save(1, 100)},
			query:     Query{From: "latest"},
			noLatest:  true,
			passed:    []string{"latest NotFound", id(1, 100) + " NotDescendant"},
			says:      []string{`"latest" is not a checkpoint id: it must be <attempt>-<step>-<nonce>-<hash>`},
		},
		{
			name:      "its descendants count when it is deleted itself",
			attempts:  map[int32]Records{1: fresh(1), 2: from(2, 1, 200)},
			manifests: []Manifest{save(1, 100), save(2, 300)},
			query:     query,
			selected:  id(2, 300),
			passed:    []string{id(1, 100) + " NotDescendant"},
		},
	})
}

func TestSelectDecidesNothingFromAStoreThatWasNotRead(t *testing.T) {
	for name, s := range map[string]*Snapshot{
		"never read": {},
		"failed":     {ListedAt: listed, Failure: &Failure{Kind: Unreachable, Message: "no answer"}},
		"absent":     nil,
	} {
		if c := Select(s, Query{RunID: runID}); !cmp.Equal(c, Choice{}) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestOnlyListedManifestsAreNotAnEmptyRun(t *testing.T) {
	if c := Select(&Snapshot{ListedAt: listed, Unread: 3}, Query{RunID: runID}); c.Empty {
		t.Error("a run whose manifests were not read would start fresh")
	}
}
