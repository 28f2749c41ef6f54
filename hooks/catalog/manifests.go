package catalog

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"rtj.dev/rtj/compose/checkpoint"
)

func (r *reading) listManifests(ctx context.Context) error {
	prefix := r.run.prefix() + "manifests/"
	var newest, included []Object
	for o, err := range r.store.List(ctx, prefix) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(o.Key, prefix)
		if name == "" {
			continue // what consoles create as a folder
		}
		if !strings.HasSuffix(name, ".json") || strings.Contains(name, "/") || len(name) > 128 {
			r.problem("manifests/" + name + " is not a manifest: its name is not <checkpoint id>.json")
			continue
		}
		newest = append(newest, o)
		// The listing comes oldest first: keep twice the window and drop the rest.
		if len(newest) >= 2*r.options.Manifests {
			included = append(included, r.cut(&newest)...)
		}
	}
	included = append(included, r.cut(&newest)...)
	slices.Reverse(newest)
	slices.Reverse(included)
	r.manifests = append(newest, included...)
	return nil
}

// cut drops all but the newest manifests and returns those of the dropped that
// are asked for.
func (r *reading) cut(newest *[]Object) (included []Object) {
	drop := max(len(*newest)-r.options.Manifests, 0)
	for _, o := range (*newest)[:drop] {
		if r.asked(idOf(o)) {
			included = append(included, o)
		} else {
			r.unread++
		}
	}
	*newest = slices.Delete(*newest, 0, drop)
	return included
}

func (r *reading) asked(id string) bool {
	return slices.Contains(r.ask.Include, id) || slices.Contains(r.ask.Recheck, id)
}

func idOf(o Object) string { return strings.TrimSuffix(path.Base(o.Key), ".json") }

// readManifests reads those that are new. One that was deleted since it was
// listed is dropped.
func (r *reading) readManifests(ctx context.Context) error {
	fresh := make(map[string]*knownManifest, len(r.manifests))
	var unknown []Object
	for _, o := range r.manifests {
		if known := r.memory.manifests[idOf(o)]; known != nil && known.etag == o.ETag {
			fresh[idOf(o)] = known
		} else {
			unknown = append(unknown, o)
		}
	}
	read := make([]*knownManifest, len(unknown))
	err := fanOut(ctx, r.options.Requests, len(unknown), func(ctx context.Context, i int) (err error) {
		read[i], err = r.readManifest(ctx, unknown[i])
		return err
	})
	for i, o := range unknown {
		if read[i] != nil {
			fresh[idOf(o)] = read[i]
		}
	}
	r.memory.manifests = fresh
	r.manifests = slices.DeleteFunc(r.manifests, func(o Object) bool { return fresh[idOf(o)] == nil })
	return err
}

// readManifest returns nil for a manifest that was deleted since it was listed.
func (r *reading) readManifest(ctx context.Context, listed Object) (*knownManifest, error) {
	id := idOf(listed)
	data, o, err := r.store.Get(ctx, listed.Key, checkpoint.MaxDocumentBytes)
	if errors.Is(err, ErrNotExist) {
		return nil, r.confirmDeleted(ctx, listed.Key)
	}
	known := &knownManifest{etag: cmp.Or(listed.ETag, o.ETag)}
	if tooLarge, ok := errors.AsType[*TooLargeError](err); ok {
		known.manifest = checkpoint.NamedManifest(id)
		if known.manifest.Defect == nil {
			known.manifest = known.manifest.WithDefect(checkpoint.ReasonCorruptManifest, "manifests/"+id+".json "+tooLarge.Error())
		}
	} else if err != nil {
		return nil, err
	} else {
		known.manifest = checkpoint.ParseManifest(id, data)
	}
	known.indexes, known.manifest.Indexes = known.manifest.Indexes, nil
	known.manifest.CommittedAt = listed.Modified.UTC()
	return known, nil
}

// confirmDeleted fails when the manifest is still listed: a proxy that answers
// "not found" must not make a run look shorter than it is.
func (r *reading) confirmDeleted(ctx context.Context, key string) error {
	for o, err := range r.store.List(ctx, r.run.prefix()+"manifests/") {
		if err != nil {
			return err
		}
		if o.Key == key {
			return &Error{checkpoint.Unreachable, strings.TrimPrefix(key, r.run.prefix()) + " is listed and cannot be read"}
		}
	}
	return nil
}
