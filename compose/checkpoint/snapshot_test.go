package checkpoint

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSnapshotsKnowTheirAttempts(t *testing.T) {
	never := (*Snapshot)(nil)
	if never.HighestAttempt() != 0 || never.HasRecords(1) || never.Readable() {
		t.Error("a store that was never read knows something")
	}
	s := &Snapshot{Manifests: []Manifest{{Attempt: 2}, {Attempt: 7}, {Attempt: 4}}, Attempts: map[int32]Records{3: {}, 5: {}}}
	if got := s.HighestAttempt(); got != 7 {
		t.Errorf("the highest attempt of the manifests is %d", got)
	}
	s.Attempts[9] = Records{}
	if got := s.HighestAttempt(); got != 9 {
		t.Errorf("the highest attempt of the records is %d", got)
	}
	for attempt, want := range map[int32]bool{1: false, 2: true, 3: true, 4: true, 6: false, 7: true, 9: true} {
		if s.HasRecords(attempt) != want {
			t.Errorf("attempt %d: %v", attempt, !want)
		}
	}
}

func TestWhatCannotBeReadDoesNotDescend(t *testing.T) {
	const from = "000002-000000000900-0a1b2c3d4e5f-1122334455667788"
	s := &Snapshot{Attempts: map[int32]Records{3: {Start: &Start{Attempt: 3, Restore: &Restore{Checkpoint: from, Attempt: 2, Step: 900}}}}}
	for restored, want := range map[string]bool{
		from: true, "": false, "latest": false,
		"000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55": true,
		"000004-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55": false,
	} {
		if Descends(s, restored, from) != want {
			t.Errorf("%q descends: %v", restored, !want)
		}
	}
	if Descends(s, from, "latest") {
		t.Error("descends from what is no checkpoint")
	}
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
