package applier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
)

// changes returns what makes an observed child what the hook wants, or nil if it
// is so already.
func (a *Applier) changes(r *round, c child, d *desiredChild) func(context.Context) error {
	if terminating(c.observed) {
		return nil
	}
	left := difference{}
	differs := false
	if c.kind.method != OnDelete {
		left = compareChild(c.observed, d.object, a.controller.childrenAreComplete())
		differs = !left.empty() && !r.state.knows(c.GetUID(), left) || a.dropsFields(r.state, c, d)
	}
	statusDiffers := a.statusDiffers(r.state, c.observed, d)
	if !differs && !statusDiffers {
		if c.kind.method != OnDelete {
			a.metrics.unchanged(c.kind.kind)
		}
		return nil
	}
	return func(ctx context.Context) error {
		if err := c.kind.cache.overtaken(c.observed); err != nil {
			return err
		}
		switch {
		case differs && c.kind.method == Recreate:
			return a.recreate(ctx, r, c, d, left)
		case differs:
			written, err := a.update(ctx, r, c, d, left)
			if err != nil || !a.statusDiffers(r.state, written, d) {
				return err
			}
			return a.applyStatus(ctx, r.state, written, d)
		default:
			return a.applyStatus(ctx, r.state, c.observed, d)
		}
	}
}

func (a *Applier) update(ctx context.Context, r *round, c child, d *desiredChild, left difference) (*observed, error) {
	written, err := a.send(ctx, r, c, d, left, forReal)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil, &lostRace{err}
	case err != nil:
		return nil, fmt.Errorf("updating: %w", err)
	}
	r.state.wrote(c.kind.cache, written)
	a.settled(r.state, written, d)
	return written, nil
}

// settled notes what was left of the difference after a write.
func (a *Applier) settled(state *parentState, written *observed, d *desiredChild) {
	left := compareChild(written, d.object, a.controller.childrenAreComplete())
	if state.remember(written.GetUID(), left) {
		a.logger.Info("the API server holds some fields of a child otherwise than the hook returned them; this is not tried again until one of them changes",
			"child", d.String(), "fields", strings.Join(paths(left.patch, ""), ", "))
	}
	if !a.controller.childrenAreComplete() {
		state.noteApplied(written.GetUID(), d.object)
	}
}

// send writes the child.
func (a *Applier) send(ctx context.Context, r *round, c child, d *desiredChild, left difference, dryRun dryRun) (*observed, error) {
	if a.controller.childrenAreComplete() {
		return a.patch(ctx, "patch", c.kind.kind, c.observed, guarded(c.observed, left.patch), dryRun)
	}
	resourceVersion, err := a.takeOver(ctx, r.state, c)
	if err != nil {
		return nil, err
	}
	return a.apply(ctx, r.parent, c, d, resourceVersion, dryRun)
}

// recreate deletes a child that differs, so that a later sync creates it anew.
// Whether it really differs, the API server is asked first: a quantity in another
// notation would have it deleted for ever.
func (a *Applier) recreate(ctx context.Context, r *round, c child, d *desiredChild, left difference) error {
	would, err := a.send(ctx, r, c, d, left, dry)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		// It cannot be changed in place, hence it differs.
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return &lostRace{err}
	case err != nil:
		return fmt.Errorf("comparing: %w", err)
	case compareChild(would, c.Object, true).empty():
		a.settled(r.state, c.observed, d)
		return nil
	}
	return a.delete(ctx, r.state, c)
}

// apply sends a partial child by server-side apply. With uid and resourceVersion
// in it the API server neither creates the object nor applies to another state.
func (a *Applier) apply(ctx context.Context, parent *observed, c child, d *desiredChild, resourceVersion string, dryRun dryRun) (*observed, error) {
	object := maps.Clone(d.object)
	metadata := maps.Clone(d.object["metadata"].(map[string]any))
	metadata["uid"] = string(c.GetUID())
	metadata["resourceVersion"] = resourceVersion
	metadata["ownerReferences"] = []any{a.ownerReference(parent)}
	object["metadata"] = metadata
	options := metav1.ApplyOptions{FieldManager: a.fieldManager, Force: true, DryRun: dryRun}
	return a.write(ctx, d.kind.kind, dryRun.verb("apply"), func() (*unstructured.Unstructured, error) {
		return a.dynamic.Resource(d.kind.resource).Namespace(d.namespace).Apply(ctx, d.name, &unstructured.Unstructured{Object: object}, options)
	})
}

// takeOver makes fields that were written by our POST, or by Metacontroller
// before us, ours to apply, and returns the resourceVersion after that. Otherwise
// a field that the hook drops would stay, held up by the old entry. It reads the
// object, since the caches do not keep managedFields; that happens once for a
// child, when something is about to be written.
func (a *Applier) takeOver(ctx context.Context, state *parentState, c child) (resourceVersion string, err error) {
	if state.get(c.GetUID()).takenOver {
		return c.GetResourceVersion(), nil
	}
	a.metrics.read(c.kind.kind, "managed fields")
	client := a.dynamic.Resource(c.kind.resource).Namespace(c.GetNamespace())
	live, err := client.Get(ctx, c.GetName(), metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	resourceVersion = c.GetResourceVersion()
	if live.GetUID() != c.GetUID() || live.GetResourceVersion() != resourceVersion {
		return "", &lostRace{errors.New("has changed since it was observed")}
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(a.fieldManager, "metacontroller"), a.fieldManager)
	if err != nil {
		return "", err
	}
	if len(patch) > 0 {
		taken, err := a.write(ctx, c.kind.kind, "take-over", func() (*unstructured.Unstructured, error) {
			return client.Patch(ctx, c.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: a.fieldManager})
		})
		if err != nil {
			return "", err
		}
		resourceVersion = taken.GetResourceVersion()
	}
	state.note(c.GetUID(), func(known *record) { known.takenOver = true })
	return resourceVersion, nil
}

// dropsFields tells whether a partial child may have fewer fields than were last
// applied, which no comparison with the observed object shows. Nothing is known
// after a start; then it is applied once.
func (a *Applier) dropsFields(state *parentState, c child, d *desiredChild) bool {
	if a.controller.childrenAreComplete() {
		return false
	}
	return state.get(c.GetUID()).applied != fingerprintOf(d.object)
}

func (r *records) noteApplied(uid types.UID, object map[string]any) {
	digest := fingerprintOf(object)
	r.note(uid, func(known *record) { known.applied = digest })
}

// paths names the leaves of a patch, for messages.
func paths(patch map[string]any, prefix string) []string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		if inner, ok := patch[key].(map[string]any); ok && len(inner) > 0 {
			list = append(list, paths(inner, prefix+key+".")...)
		} else {
			list = append(list, prefix+key)
		}
	}
	return list
}
