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
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"rtj.dev/rtj/hooks/contract"
)

// desiredChild is a child as the hook wants it.
type desiredChild struct {
	kind            *childKind
	namespace, name string
	// object is what the hook returned, without status and system metadata, with
	// the label of a generated selector.
	object map[string]any
	// status, where the hooks decide it and did.
	status map[string]any
}

func (d *desiredChild) key() childKey { return keyOfChild(d.kind, d.namespace, d.name) }

func (d *desiredChild) String() string { return d.key().String() }

// Metadata that belongs to the API server or to this package.
var systemMetadata = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "managedFields", "selfLink", "generateName",
}

// desiredChildren checks the children of a response. One that cannot be accepted
// refuses the response as a whole, before anything is written.
func (a *Applier) desiredChildren(parent *observed, selector labels.Selector, response *contract.SyncResponse) ([]*desiredChild, error) {
	identities, err := response.Identities(parent.GetNamespace())
	if err != nil {
		return nil, err
	}
	list := make([]*desiredChild, len(identities))
	for i, id := range identities {
		d, err := a.desiredChild(parent, selector, id, response.Children[i])
		if err != nil {
			return nil, fmt.Errorf("children[%d]: %s: %w", i, id, err)
		}
		list[i] = d
	}
	return list, nil
}

func (a *Applier) desiredChild(parent *observed, selector labels.Selector, id contract.Identity, raw []byte) (*desiredChild, error) {
	d := &desiredChild{kind: a.childrenByKey[contract.KindKey(id.APIVersion, id.Kind)], namespace: id.Namespace, name: id.Name}
	switch {
	case d.kind == nil:
		return nil, fmt.Errorf("kind not declared in childResources, which are %s", strings.Join(slices.Sorted(maps.Keys(a.childrenByKey)), ", "))
	case !d.kind.namespaced && a.parent.namespaced:
		return nil, errors.New("cluster-scoped, and a parent in a namespace cannot own it")
	case !d.kind.namespaced:
		d.namespace = ""
	case d.namespace == "":
		return nil, errors.New("metadata.namespace is missing")
	case a.parent.namespaced && d.namespace != parent.GetNamespace():
		return nil, fmt.Errorf("in another namespace than its parent, which is in %s, and could not be owned by it", parent.GetNamespace())
	}
	if err := utiljson.Unmarshal(raw, &d.object); err != nil {
		return nil, err
	}
	if status := d.object["status"]; status != nil && d.kind.decidesStatus {
		if d.status, _ = status.(map[string]any); d.status == nil {
			return nil, errors.New("status is not an object")
		}
	}
	delete(d.object, "status")
	metadata, ok := d.object["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("metadata is not an object")
	}
	for _, key := range systemMetadata {
		delete(metadata, key)
	}
	if d.namespace != "" {
		metadata["namespace"] = d.namespace
	}
	for _, key := range []string{"labels", "annotations"} {
		if metadata[key] == nil {
			delete(metadata, key)
		}
	}
	if _, _, err := unstructured.NestedStringMap(d.object, "metadata", "annotations"); err != nil {
		return nil, err
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		for _, key := range lastApplied {
			delete(annotations, key)
		}
	}
	set, _, err := unstructured.NestedStringMap(d.object, "metadata", "labels")
	if err != nil {
		return nil, err
	}
	if a.controller.generatesSelector() && set[uidLabel] == "" {
		if set == nil {
			set = map[string]string{}
		}
		set[uidLabel] = string(parent.GetUID())
		if err := unstructured.SetNestedStringMap(d.object, set, "metadata", "labels"); err != nil {
			return nil, err
		}
	}
	if !selector.Matches(labels.Set(set)) {
		return nil, fmt.Errorf("its labels do not match the parent's selector (%s), so it would be lost at once", selector)
	}
	return d, nil
}

// create makes a child that was not observed. It is a POST and nothing else: if
// the object exists after all, the cache was late or the name is taken, and
// neither is a reason to overwrite it.
func (a *Applier) create(ctx context.Context, r *round, d *desiredChild, place int) error {
	object := maps.Clone(d.object)
	metadata := maps.Clone(d.object["metadata"].(map[string]any))
	metadata["ownerReferences"] = []any{a.ownerReference(r.parent)}
	object["metadata"] = metadata
	created, err := a.write(ctx, d.kind.kind, "create", func() (*unstructured.Unstructured, error) {
		return a.dynamic.Resource(d.kind.resource).Namespace(d.namespace).Create(ctx,
			&unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldManager: a.fieldManager})
	})
	if apierrors.IsAlreadyExists(err) {
		return a.whoTookIt(ctx, r.parent, d)
	}
	if err != nil {
		return fmt.Errorf("creating: %w", err)
	}
	r.state.wrote(d.kind.cache, created)
	r.state.note(created.GetUID(), func(known *record) { known.place = place })
	if !a.controller.childrenAreComplete() && !d.kind.metadataOnly {
		r.state.remember(created.GetUID(), compareChild(created, d.object, false))
		r.state.noteApplied(created.GetUID(), d.object)
	}
	if a.statusDiffers(r.state, created, d) {
		return a.applyStatus(ctx, r.state, created, d)
	}
	return nil
}

// whoTookIt finds out why a child that should be created exists.
func (a *Applier) whoTookIt(ctx context.Context, parent *observed, d *desiredChild) error {
	a.metrics.read(d.kind.kind, "exists")
	live, err := a.dynamic.Resource(d.kind.resource).Namespace(d.namespace).Get(ctx, d.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &lostRace{errors.New("existed when it was to be created, and is gone")}
	}
	if err != nil {
		return fmt.Errorf("reading what exists already: %w", err)
	}
	owner := metav1.GetControllerOf(live)
	switch {
	case live.GetDeletionTimestamp() != nil:
		return &lostRace{errors.New("is being deleted, to be created when that is done")}
	case owner == nil:
		return &ownershipConflict{"exists already, and nothing controls it: delete or rename it, or give it the labels of the parent's selector to have it adopted"}
	case owner.UID != parent.GetUID():
		return &ownershipConflict{fmt.Sprintf("exists already, and %s %s (uid %s) controls it: it is left alone", owner.Kind, owner.Name, owner.UID)}
	case a.controller.generatesSelector() && live.GetLabels()[uidLabel] != string(parent.GetUID()):
		return &ownershipConflict{fmt.Sprintf("exists already, and has lost its label %s: set it to %s, or delete the object", uidLabel, parent.GetUID())}
	default:
		return &lostRace{errors.New("exists already; the cache is late")}
	}
}

// delete removes a child that is not wanted any more, in the state in which that
// was decided.
func (a *Applier) delete(ctx context.Context, state *parentState, c child) error {
	if err := c.kind.cache.overtaken(c.observed); err != nil {
		return err
	}
	uid, resourceVersion, background := c.GetUID(), c.GetResourceVersion(), metav1.DeletePropagationBackground
	_, err := a.write(ctx, c.kind.kind, "delete", func() (*unstructured.Unstructured, error) {
		return nil, a.dynamic.Resource(c.kind.resource).Namespace(c.GetNamespace()).Delete(ctx, c.GetName(), metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &resourceVersion},
			PropagationPolicy: &background,
		})
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return &lostRace{err}
	case err != nil:
		return err
	}
	state.deleted(c.kind.cache, c.observed)
	return nil
}
