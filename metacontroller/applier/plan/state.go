package plan

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/hooks/contract"
)

// The JSON forms here are for those who compare states: two of the same JSON act
// alike from then on.

// objectState is an object by its version.
type objectState struct {
	Key             string    `json:"key"`
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
}

func stateOf(o *Object) objectState {
	return objectState{contract.ObjectKey(o.GetNamespace(), o.GetName()), o.GetUID(), o.GetResourceVersion()}
}

type recordState struct {
	UID           types.UID `json:"uid"`
	Left          string    `json:"left,omitempty"`
	StatusLeft    string    `json:"statusLeft,omitempty"`
	Applied       string    `json:"applied,omitempty"`
	StatusApplied string    `json:"statusApplied,omitempty"`
	TakenOver     bool      `json:"takenOver,omitempty"`
	Place         int       `json:"place,omitempty"`
}

func (f fingerprint) text() string {
	if f == (fingerprint{}) {
		return ""
	}
	return hex.EncodeToString(f[:8])
}

type expectationState struct {
	Kind            string    `json:"kind"`
	Key             string    `json:"key"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	UID             types.UID `json:"uid,omitempty"`
	Deadline        time.Time `json:"deadline"`
}

// MarshalJSON implements json.Marshaler.
func (m *Memory) MarshalJSON() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := struct {
		UID          types.UID          `json:"uid"`
		Failures     int                `json:"failures,omitempty"`
		NotBefore    time.Time          `json:"notBefore,omitzero"`
		Slow         bool               `json:"slow,omitempty"`
		ResyncAt     time.Time          `json:"resyncAt,omitzero"`
		Records      []recordState      `json:"records"`
		Expectations []expectationState `json:"expectations"`
	}{UID: m.UID, Failures: m.Failures, NotBefore: m.NotBefore, Slow: m.Slow, ResyncAt: m.ResyncAt}
	for _, uid := range slices.Sorted(maps.Keys(m.byUID)) {
		r := m.byUID[uid]
		state.Records = append(state.Records, recordState{uid, r.left.text(), r.statusLeft.text(), r.applied.text(), r.statusApplied.text(), r.takenOver, r.place})
	}
	for _, e := range m.expectations {
		kind := ""
		if e.kind != nil {
			kind = e.kind.Key()
		}
		state.Expectations = append(state.Expectations, expectationState{kind, contract.ObjectKey(e.namespace, e.name), e.resourceVersion, e.uid, e.deadline})
	}
	return json.Marshal(state)
}

type desiredState struct {
	Kind      string         `json:"kind"`
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	Object    map[string]any `json:"object,omitempty"`
	Status    map[string]any `json:"status,omitempty"`
}

// MarshalJSON implements json.Marshaler. The memory has a form of its own.
func (r *Round) MarshalJSON() ([]byte, error) {
	state := struct {
		Parent        objectState    `json:"parent"`
		Finalizing    bool           `json:"finalizing,omitempty"`
		ParentChecked bool           `json:"parentChecked,omitempty"`
		Claimed       []objectState  `json:"claimed"`
		Desired       []desiredState `json:"desired"`
		Status        map[string]any `json:"status,omitempty"`
		SameStatus    bool           `json:"sameStatus,omitempty"`
		Finalized     bool           `json:"finalized,omitempty"`
		Gone          bool           `json:"gone,omitempty"`
	}{Parent: stateOf(r.Parent), Finalizing: r.Finalizing, ParentChecked: r.parentChecked, Status: r.status, SameStatus: r.sameStatus, Finalized: r.finalized, Gone: r.gone}
	for _, c := range r.Claimed {
		s := stateOf(c.Object)
		s.Key = c.Kind.Key() + " " + s.Key
		state.Claimed = append(state.Claimed, s)
	}
	slices.SortFunc(state.Claimed, func(a, b objectState) int { return cmp.Compare(a.Key, b.Key) })
	for _, d := range r.desired {
		state.Desired = append(state.Desired, desiredState{d.Kind.Key(), d.Namespace, d.Name, d.Object, d.Status})
	}
	return json.Marshal(state)
}
