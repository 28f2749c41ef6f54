package hooks

import (
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/hooks/edge"
)

// Decode is decode, for tests that need cases which themselves need this package.
var Decode = decode

// Known is the newest reading of the store for a job.
func (h *Hooks) Known(r *contract.SyncRequest) *checkpoint.Snapshot {
	o, err := Observe(r)
	if err != nil {
		return nil
	}
	return h.memories.of(o.Parent, h.now()).SnapshotOf(edge.PlaceOf(o.Parent))
}
