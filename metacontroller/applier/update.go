package applier

import (
	"context"
	"crypto/sha256"
	"encoding/json"
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

// update makes an observed child what the hook wants, if it is not so already.
func (a *Applier) update(ctx context.Context, parent *observed, state *parentState, c child, d *desiredChild) error {
	if terminating(c.observed) || c.kind.method == OnDelete {
		return nil
	}
	left := compareChild(c.observed, d.object, a.controller.childrenAreComplete())
	if (left.empty() || state.knows(c.GetUID(), left)) && !a.dropsFields(state, c, d) {
		a.metrics.unchanged(c.kind.kind)
		return nil
	}
	if err := c.kind.cache.overtaken(c.observed); err != nil {
		return err
	}
	if c.kind.method == Recreate {
		return a.recreate(ctx, parent, state, c, d, left)
	}
	written, err := a.send(ctx, parent, state, c, d, left, false)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return &lostRace{err}
	case err != nil:
		return fmt.Errorf("updating: %w", err)
	}
	state.wrote(c.kind.cache, written)
	a.settled(state, written, d)
	return nil
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

// send writes the child. With dryRun it only asks what would come of it.
func (a *Applier) send(ctx context.Context, parent *observed, state *parentState, c child, d *desiredChild, left difference, dryRun bool) (*observed, error) {
	if a.controller.childrenAreComplete() {
		return a.patchDry(ctx, "patch", c.kind.kind, c.observed, guarded(c.observed, left.patch), dryRun)
	}
	resourceVersion, err := a.takeOver(ctx, state, c)
	if err != nil {
		return nil, err
	}
	return a.apply(ctx, parent, c, d, resourceVersion, dryRun)
}

// recreate deletes a child that differs, so that a later sync creates it anew.
// Whether it really differs, the API server is asked first: a quantity in another
// notation would have it deleted for ever.
func (a *Applier) recreate(ctx context.Context, parent *observed, state *parentState, c child, d *desiredChild, left difference) error {
	would, err := a.send(ctx, parent, state, c, d, left, true)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		// It cannot be changed in place, hence it differs.
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return &lostRace{err}
	case err != nil:
		return fmt.Errorf("comparing: %w", err)
	case compareChild(would, c.Object, true).empty():
		a.settled(state, c.observed, d)
		return nil
	}
	return a.delete(ctx, state, c)
}

// guarded adds to a patch the state of the object that it was made for, so that
// it fails on any other.
func guarded(o *observed, patch map[string]any) map[string]any {
	result := maps.Clone(patch)
	metadata, _ := patch["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"] = string(o.GetUID())
	metadata["resourceVersion"] = o.GetResourceVersion()
	result["metadata"] = metadata
	return result
}

// patch sends a JSON merge patch.
func (a *Applier) patch(ctx context.Context, verb string, kind kind, o *observed, patch map[string]any, subresources ...string) (*observed, error) {
	return a.patchDry(ctx, verb, kind, o, patch, false, subresources...)
}

func (a *Applier) patchDry(ctx context.Context, verb string, kind kind, o *observed, patch map[string]any, dryRun bool, subresources ...string) (*observed, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: a.fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
		verb = "dry-run"
	}
	written, err := a.dynamic.Resource(kind.resource).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, body, options, subresources...)
	a.metrics.write(kind, verb, err)
	if err != nil {
		return nil, err
	}
	return observe(written), nil
}

// apply sends a partial child by server-side apply. With uid and resourceVersion
// in it the API server neither creates the object nor applies to another state.
func (a *Applier) apply(ctx context.Context, parent *observed, c child, d *desiredChild, resourceVersion string, dryRun bool) (*observed, error) {
	object := maps.Clone(d.object)
	metadata := maps.Clone(d.object["metadata"].(map[string]any))
	metadata["uid"] = string(c.GetUID())
	metadata["resourceVersion"] = resourceVersion
	metadata["ownerReferences"] = []any{a.ownerReference(parent)}
	object["metadata"] = metadata
	options := metav1.ApplyOptions{FieldManager: a.fieldManager, Force: true}
	verb := "apply"
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
		verb = "dry-run"
	}
	written, err := a.dynamic.Resource(d.kind.resource).Namespace(d.namespace).Apply(ctx, d.name, &unstructured.Unstructured{Object: object}, options)
	a.metrics.write(d.kind.kind, verb, err)
	if err != nil {
		return nil, err
	}
	return observe(written), nil
}

// takeOver makes fields that were written by our POST, or by Metacontroller
// before us, ours to apply, and returns the resourceVersion after that. Otherwise
// a field that the hook drops would stay, held up by the old entry. It reads the
// object, since the caches do not keep managedFields; that happens once for a
// child, when something is about to be written.
func (a *Applier) takeOver(ctx context.Context, state *parentState, c child) (resourceVersion string, err error) {
	if state.applied[c.GetUID()].takenOver {
		return c.GetResourceVersion(), nil
	}
	a.metrics.read(c.kind.kind, "managed fields")
	client := a.dynamic.Resource(c.kind.resource).Namespace(c.GetNamespace())
	live, err := client.Get(ctx, c.GetName(), metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if live.GetUID() != c.GetUID() || live.GetResourceVersion() != c.GetResourceVersion() {
		return "", &lostRace{errors.New("has changed since it was observed")}
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(a.fieldManager, "metacontroller"), a.fieldManager)
	if err != nil {
		return "", err
	}
	if len(patch) > 0 {
		live, err = client.Patch(ctx, c.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: a.fieldManager})
		a.metrics.write(c.kind.kind, "take-over", err)
		if err != nil {
			return "", err
		}
	}
	state.note(c.GetUID(), func(r *applied) { r.takenOver = true })
	return live.GetResourceVersion(), nil
}

// dropsFields tells whether a partial child may have fewer fields than were last
// applied, which no comparison with the observed object shows. Nothing is known
// after a start; then it is applied once.
func (a *Applier) dropsFields(state *parentState, c child, d *desiredChild) bool {
	if a.controller.childrenAreComplete() {
		return false
	}
	return state.applied[c.GetUID()].digest != digest(d.object)
}

// applied is what is remembered of a partial child.
type applied struct {
	// digest of what was last applied.
	digest [sha256.Size]byte
	// takenOver says that no older entry of managedFields holds our fields.
	takenOver bool
}

func (s *parentState) note(uid types.UID, change func(*applied)) {
	if s.applied == nil {
		s.applied = map[types.UID]applied{}
	}
	record := s.applied[uid]
	change(&record)
	s.applied[uid] = record
}

func (s *parentState) noteApplied(uid types.UID, object map[string]any) {
	s.note(uid, func(r *applied) { r.digest = digest(object) })
}

func digest(object map[string]any) [sha256.Size]byte {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // decoded JSON
	}
	return sha256.Sum256(text)
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
