package lifecycle

import (
	"context"
	"maps"
	"slices"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

// store is the object store of a script: what was set is what a reading finds.
type store struct {
	now         func() time.Time
	failure     *checkpoint.Failure
	manifests   []checkpoint.Manifest
	attempts    map[int32]checkpoint.Records
	quarantined map[string]checkpoint.Quarantine
}

func newStore() *store {
	return &store{attempts: map[int32]checkpoint.Records{}, quarantined: map[string]checkpoint.Quarantine{}}
}

// Read implements hooks.Store.
func (s *store) Read(context.Context, catalog.Run, catalog.Ask) *checkpoint.Snapshot {
	if s.failure != nil {
		return &checkpoint.Snapshot{ListedAt: s.now(), Failure: s.failure}
	}
	manifests := slices.Clone(s.manifests)
	for i := range manifests {
		manifests[i].CheckedAt = s.now()
	}
	return &checkpoint.Snapshot{
		ListedAt:    s.now(),
		Manifests:   manifests,
		Attempts:    maps.Clone(s.attempts),
		Quarantined: maps.Clone(s.quarantined),
	}
}
