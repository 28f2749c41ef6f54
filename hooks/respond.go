package hooks

import (
	"encoding/json"
	"time"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/contract"
)

// Respond turns a decision into the answer of a hook; resync is when to call it
// again, 0: not by itself.
func Respond(d *compose.Decision, resync time.Duration) (*contract.SyncResponse, error) {
	status, err := json.Marshal(d.Status)
	if err != nil {
		return nil, err
	}
	r := &contract.SyncResponse{
		Status:             status,
		Children:           make([]json.RawMessage, 0, len(d.Children)),
		ResyncAfterSeconds: resync.Round(time.Millisecond).Seconds(),
		Finalized:          d.Finalized,
	}
	for i := range d.Children {
		raw, err := render(&d.Children[i])
		if err != nil {
			return nil, err
		}
		r.Children = append(r.Children, raw)
	}
	return r, nil
}
