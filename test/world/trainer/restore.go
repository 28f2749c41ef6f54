package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

// restorePatience is how long a restore waits for a store that does not answer.
const restorePatience = time.Minute

// Causes of a restore failure, docs/formats.md.
const (
	causeMismatch     = "checksumMismatch"
	causeMissing      = "missing"
	causeIncompatible = "incompatible"
	causeStore        = "storeError"
)

// mayRestore reports whether the ranks are about to restore now, and would come to an
// end of it, good or bad.
func (t *Trainer) mayRestore(g *gang, now time.Time) bool {
	if g.restoreAt.IsZero() || g.trains || g.halted || g.Outcome != "" || now.Before(g.restoreAt) {
		return false
	}
	return t.env.Store.Failure() == nil || t.env.Store.Refuses() || !now.Before(g.restoreAt.Add(restorePatience))
}

// restore reads the selected checkpoint on every rank.
func (t *Trainer) restore(g *gang) {
	now := t.env.Now()
	failure := t.read(g)
	if failure == nil {
		g.Restored = true
		g.restoreTook = now.Sub(g.restoreAt) + g.behaviour.RestoreTime
		g.news = true
		g.train(now, g.base())
		return
	}
	failure.Checkpoint, failure.Node = g.Selected.ID, g.env.node
	for i := range t.processes {
		if p := &t.processes[i]; p.gang == g.number && p.env.first <= failure.Rank && failure.Rank < p.env.first+p.env.processes {
			failure.Node = p.env.node
		}
	}
	message := fmt.Sprintf("restore of %s failed: %s of %s", failure.Checkpoint, failure.Cause, failure.Object)
	if damaged := failure.Cause == causeMismatch || failure.Cause == causeMissing; damaged && t.anotherFits(g) {
		t.quarantine(g, failure, message, now)
	}
	g.failure = failure
	g.conclude(checkpoint.ResultRestoreFailed, message, now)
}

// read returns why the checkpoint cannot be restored; nil when every byte is right.
func (t *Trainer) read(g *gang) *checkpoint.RestoreFailure {
	if cause := g.behaviour.RestoreFails; cause != "" {
		return &checkpoint.RestoreFailure{Cause: cause}
	}
	id := g.Selected.ID
	key := "manifests/" + id + ".json"
	data, failure := t.verified(g, key, func(data []byte) bool { return strings.HasSuffix(id, "-"+digest(data)[:16]) })
	if failure != nil {
		return failure
	}
	var m manifestDocument
	if json.Unmarshal(data, &m) != nil {
		return &checkpoint.RestoreFailure{Cause: causeIncompatible, Object: key}
	}
	if m.WorldSize != g.WorldSize {
		for _, component := range m.Components {
			if component.Reshard == checkpoint.ReshardNone && component.Complete {
				return &checkpoint.RestoreFailure{Cause: causeIncompatible, Object: key}
			}
		}
	}
	for i, ref := range m.Indexes {
		rank := int32(i) % g.WorldSize
		if failure := t.readRank(g, &m, ref); failure != nil {
			failure.Rank = rank
			return failure
		}
	}
	return nil
}

// readRank reads what an index object lists.
func (t *Trainer) readRank(g *gang, m *manifestDocument, ref checkpoint.IndexRef) *checkpoint.RestoreFailure {
	data, failure := t.verified(g, m.Prefix+ref.Key, func(data []byte) bool { return digest(data) == ref.SHA256 })
	if failure != nil {
		return failure
	}
	var index indexDocument
	if json.Unmarshal(data, &index) != nil {
		return &checkpoint.RestoreFailure{Cause: causeIncompatible, Object: m.Prefix + ref.Key}
	}
	for _, o := range index.Objects {
		right := func(data []byte) bool {
			for _, item := range o.Items {
				if item.Offset+item.Bytes > int64(len(data)) || crc(data[item.Offset:item.Offset+item.Bytes]) != item.CRC {
					return false
				}
			}
			return true
		}
		if _, failure := t.verified(g, m.Prefix+o.Key, right); failure != nil {
			return failure
		}
	}
	return nil
}

// verified reads an object and checks it. What is wrong is wrong the second time too.
func (t *Trainer) verified(g *gang, key string, right func([]byte) bool) ([]byte, *checkpoint.RestoreFailure) {
	o, err := t.env.Store.Get(g.env.prefix + key)
	switch {
	case errors.Is(err, catalog.ErrNotExist):
		page, _, err := t.env.Store.List(g.env.prefix+key, "", 1)
		if err != nil || len(page) > 0 && page[0].Key == g.env.prefix+key {
			return nil, &checkpoint.RestoreFailure{Cause: causeStore, Object: key}
		}
		return nil, &checkpoint.RestoreFailure{Cause: causeMissing, Object: key}
	case err != nil:
		return nil, &checkpoint.RestoreFailure{Cause: causeStore, Object: key}
	case !right(o.Data):
		return nil, &checkpoint.RestoreFailure{Cause: causeMismatch, Object: key}
	}
	return o.Data, nil
}

// anotherFits reports whether another checkpoint of the branch could be restored: the
// last one is never condemned.
func (t *Trainer) anotherFits(g *gang) bool {
	c := checkpoint.Select(t.env.Store.Read(g.env.run(), catalog.Ask{}), checkpoint.Query{
		RunID: g.env.runID, WorldSize: g.WorldSize, Identity: g.env.identity, Avoid: map[string]string{g.Selected.ID: "damaged"},
	})
	return c.Selected != nil
}

func (t *Trainer) quarantine(g *gang, f *checkpoint.RestoreFailure, message string, now time.Time) {
	_, _ = t.env.Store.Put(g.env.prefix+"quarantine/"+f.Checkpoint+".json", encode(quarantineDocument{ofKind("Quarantine"), &checkpoint.Quarantine{
		Checkpoint: f.Checkpoint, Cause: f.Cause, Object: f.Object, Rank: f.Rank, Node: f.Node, Message: message, RecordedAt: now.UTC(),
	}}))
}
