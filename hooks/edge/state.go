package edge

import (
	"encoding/json"
	"time"

	"rtj.dev/rtj/compose"
)

// MarshalJSON implements json.Marshaler, for those who compare states: two memories
// of the same JSON and the same [Memory.Snapshot] act alike from then on.
func (m *Memory) MarshalJSON() ([]byte, error) {
	state := struct {
		Due          []string             `json:"due"`
		DueSince     time.Time            `json:"dueSince,omitzero"`
		Here         string               `json:"place,omitempty"`
		Reading      time.Time            `json:"reading,omitzero"`
		NotBefore    time.Time            `json:"notBefore,omitzero"`
		Waiting      bool                 `json:"waiting,omitempty"`
		JobSet       string               `json:"jobSet,omitempty"`
		LaunchDue    time.Time            `json:"launchDue,omitzero"`
		Probe        *compose.LaunchProbe `json:"probe,omitempty"`
		PatchesSince time.Time            `json:"patchesSince,omitzero"`
	}{
		Due: m.due, DueSince: m.dueSince, Here: m.place.runID, JobSet: m.launch.jobSet, LaunchDue: m.launch.due,
		Probe: m.launch.result, PatchesSince: m.patchesSince,
	}
	if r := m.reading; r != nil {
		state.Reading, state.NotBefore, state.Waiting = r.Begun, r.Ask.NotBefore, m.waiting
	}
	return json.Marshal(state)
}
