package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rtj.dev/rtj/compose/checkpoint"
)

// thoroughManifests is the number of newest manifests of which every object is
// compared.
const thoroughManifests = 16

// checkObjects compares what the manifests promise with what is listed, of the
// newest manifests first. What was compared stays known, so that a reading that
// runs out of time is not in vain.
func (r *reading) checkObjects(ctx context.Context) error {
	type check struct {
		id    string
		depth depth
	}
	var due []check
	sound := 0
	for _, o := range r.manifests {
		known := r.memory.manifests[idOf(o)]
		if known.manifest.Defect != nil || known.manifest.RunID != r.run.RunID {
			continue
		}
		sound++
		want := byListing
		if r.options.Thorough || sound <= thoroughManifests || r.asked(idOf(o)) {
			want = byIndexes
		}
		if r.due(known, want) {
			due = append(due, check{idOf(o), want})
		}
	}
	r.todo.Store(int64(len(due)))
	return fanOut(ctx, r.options.Requests, len(due), func(ctx context.Context, i int) error {
		if err := r.check(ctx, r.memory.manifests[due[i].id], due[i].depth); err != nil {
			return err
		}
		r.checked.Add(1)
		return nil
	})
}

// due reports whether a manifest has to be checked in this reading.
func (r *reading) due(known *knownManifest, want depth) bool {
	if known.depth < want {
		return true
	}
	if slices.Contains(r.ask.Recheck, known.manifest.ID) {
		return true
	}
	return known.manifest.Incomplete != "" && r.began.Sub(known.manifest.CheckedAt) >= incompleteAge
}

// check lists the objects of a checkpoint. Where they are those of an earlier
// check that was deep enough, its verdict holds; else the index objects are
// read.
func (r *reading) check(ctx context.Context, known *knownManifest, want depth) error {
	if known.depth >= want {
		fingerprint, err := r.list(ctx, checkpoint.NewCompleteness(&known.manifest))
		if err != nil {
			return err
		}
		if fingerprint == known.fingerprint {
			known.manifest.CheckedAt = r.began
			return nil
		}
	}
	promised, err := r.promises(ctx, known)
	if err != nil || promised == nil {
		return err
	}
	if want == byListing {
		judge := checkpoint.NewCompleteness(promised)
		fingerprint, err := r.list(ctx, judge)
		if err != nil {
			return err
		}
		if judge.Verdict() == "" {
			known.settle(r, byListing, fingerprint, "")
			return nil
		}
		// Something differs; the index objects tell what.
	}
	judge := checkpoint.NewCompleteness(promised)
	if err := fanOut(ctx, r.options.Requests, len(promised.Indexes), func(ctx context.Context, i int) error {
		return r.readIndex(ctx, judge, promised.Indexes[i])
	}); err != nil {
		return err
	}
	fingerprint, err := r.list(ctx, judge)
	if err != nil {
		return err
	}
	if doubt := judge.Doubt(); doubt != "" {
		return &Error{checkpoint.Unreachable, doubt}
	}
	known.settle(r, byIndexes, fingerprint, judge.Verdict())
	return nil
}

func (k *knownManifest) settle(r *reading, d depth, fingerprint [sha256.Size]byte, verdict string) {
	k.depth, k.fingerprint = d, fingerprint
	k.manifest.Incomplete, k.manifest.CheckedAt = verdict, r.began
}

// promises is the manifest with its index objects, which are forgotten after
// this; nil when the manifest was deleted or damaged meanwhile.
func (r *reading) promises(ctx context.Context, known *knownManifest) (*checkpoint.Manifest, error) {
	promised := known.manifest
	promised.Indexes, known.indexes = known.indexes, nil
	if promised.Indexes != nil {
		return &promised, nil
	}
	again, err := r.readManifest(ctx, Object{
		Key: r.run.prefix() + "manifests/" + known.manifest.ID + ".json", Modified: known.manifest.CommittedAt,
	})
	if err != nil {
		return nil, err
	}
	if again == nil {
		known.settle(r, unchecked, [sha256.Size]byte{}, "manifests/"+known.manifest.ID+".json was deleted while it was checked")
		return nil, nil
	}
	if again.manifest.Defect != nil {
		known.manifest = again.manifest
		return nil, nil
	}
	promised.Indexes = again.indexes
	return &promised, nil
}

// smallIndex is the size up to which index objects are read side by side. Of
// larger ones only one is in memory.
const smallIndex = 1 << 20

func (r *reading) readIndex(ctx context.Context, judge *checkpoint.Completeness, ref checkpoint.IndexRef) error {
	if ref.Bytes > smallIndex {
		select {
		case r.large <- struct{}{}:
			defer func() { <-r.large }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	data, _, err := r.store.Get(ctx, r.run.prefix()+judge.Prefix()+ref.Key, min(ref.Bytes, checkpoint.MaxIndexBytes))
	tooLarge, isTooLarge := errors.AsType[*TooLargeError](err)
	r.judging.Lock()
	defer r.judging.Unlock()
	switch {
	case err == nil:
		judge.Index(ref, data)
	case errors.Is(err, ErrNotExist):
		judge.Missing(ref)
	case isTooLarge && tooLarge.Bytes != ref.Bytes:
		judge.Unreadable(ref, fmt.Sprintf("has %d bytes, the manifest says %d", tooLarge.Bytes, ref.Bytes))
	case isTooLarge:
		judge.Unreadable(ref, tooLarge.Error())
	default:
		return err
	}
	return nil
}

// list passes what is below the checkpoint's prefix to the judge, and returns a
// hash of it all.
func (r *reading) list(ctx context.Context, judge *checkpoint.Completeness) (fingerprint [sha256.Size]byte, err error) {
	prefix := r.run.prefix() + judge.Prefix()
	hash := sha256.New()
	var number [8]byte
	for o, err := range r.store.List(ctx, prefix) {
		if err != nil {
			return fingerprint, err
		}
		key := strings.TrimPrefix(o.Key, prefix)
		judge.Listed(key, o.Bytes, o.ETag)
		hash.Write([]byte(key))
		binary.BigEndian.PutUint64(number[:], uint64(o.Bytes))
		hash.Write(number[:])
		hash.Write([]byte(o.ETag + "\n"))
	}
	hash.Sum(fingerprint[:0])
	return fingerprint, nil
}
