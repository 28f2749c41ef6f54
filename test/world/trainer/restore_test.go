package trainer

import (
	"strings"
	"testing"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/test/world/store"
)

// What cannot be restored ends with 77. Only damage that is proven condemns, and never
// the last checkpoint of the branch.
func TestRestoresThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		damage      func(r *rig, id string)
		behaviour   Behaviour
		cause       string
		quarantined bool
	}{
		"rotten data":                     {func(r *rig, _ string) { r.store.Rot(dataOf(r, 2)) }, Behaviour{}, "checksumMismatch", true},
		"rotten index":                    {func(r *rig, _ string) { r.store.Rot(strings.Replace(dataOf(r, 2), "r1-0", "r1-index.json", 1)) }, Behaviour{}, "checksumMismatch", true},
		"rotten manifest":                 {func(r *rig, id string) { r.store.Rot(key("manifests/" + id + ".json")) }, Behaviour{}, "checksumMismatch", true},
		"lost data":                       {func(r *rig, _ string) { r.store.Lose(dataOf(r, 2)) }, Behaviour{}, "missing", true},
		"a store that contradicts itself": {func(r *rig, _ string) { r.store.Contradict(dataOf(r, 2)) }, Behaviour{}, "storeError", false},
		"refused":                         {func(r *rig, _ string) { r.store.Down(store.Denied) }, Behaviour{}, "storeError", false},
		"no answer":                       {func(r *rig, _ string) { r.store.Down(store.Outage) }, Behaviour{}, "storeError", false},
		"out of memory":                   {func(*rig, string) {}, Behaviour{RestoreFails: "outOfMemory"}, "outOfMemory", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Behaviour{Total: 2})
			r.start(1, "")
			r.work(r.ended)
			id := r.selected()
			if stepOf(id) != 2 || len(r.read().Manifests) != 2 {
				t.Fatal(id)
			}
			r.behaviour = c.behaviour
			r.start(2, id)
			r.do("writes its start record")
			c.damage(r, id)
			r.work(func() bool { return r.last().Outcome != "" })
			r.store.Up()
			r.work(r.ended)
			r.store.Agree()
			s := r.store.Read(r.run(), catalog.Ask{})
			result := s.Attempts[2].Result
			if _, got := s.Quarantined[id]; got != c.quarantined || r.last().Outcome != "restoreFailed" || r.last().Restored {
				t.Errorf("quarantined %v: %+v", got, r.last())
			}
			if r.codes(2) != [2]int32{77, 77} || result != nil && (result.RestoreFailure.Cause != c.cause || result.RestoreFailure.Checkpoint != id) {
				t.Errorf("%v %+v", r.codes(2), result)
			}
			if result == nil && name != "refused" {
				t.Error("no result")
			}
		})
	}
}

// dataOf is the data object of rank 1 of the checkpoint of a step.
func dataOf(r *rig, step int64) string {
	for _, m := range r.read().Manifests {
		if m.Step == step {
			return key(checkpoint.Prefix(m.Attempt, m.Step, strings.Split(m.ID, "-")[2]) + "01/r1-0")
		}
	}
	r.t.Fatal("no checkpoint of step", step)
	return ""
}

func TestTheLastCheckpointIsNotCondemned(t *testing.T) {
	r := newRig(t, Behaviour{Total: 1})
	r.start(1, "")
	r.work(r.ended)
	id := r.selected()
	r.store.Rot(dataOf(r, 1))
	r.start(2, id)
	r.work(r.ended)
	if s := r.read(); len(s.Quarantined) != 0 || s.Attempts[2].Result.RestoreFailure.Cause != "checksumMismatch" || r.selected() != id {
		t.Errorf("%+v", s)
	}
}
