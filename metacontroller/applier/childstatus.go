package applier

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// statusDiffers tells whether the status that the hook returned for a child is
// still to be applied.
func (a *Applier) statusDiffers(state *parentState, o *observed, d *desiredChild) bool {
	if !d.kind.decidesStatus || d.status == nil {
		return false
	}
	known, left := state.get(o.GetUID()), compareChildStatus(o, d)
	return known.statusApplied != fingerprintOf(d.status) || !left.empty() && known.statusLeft != left.fingerprint()
}

func compareChildStatus(o *observed, d *desiredChild) difference {
	was, _ := o.Object["status"].(map[string]any)
	return compare(orEmpty(was), d.status, false)
}

// applyStatus applies the status of a child by server-side apply to its status
// subresource, with a field manager of its own: fields of the status that others
// set stay, fields that the hook no longer returns go.
func (a *Applier) applyStatus(ctx context.Context, state *parentState, o *observed, d *desiredChild) error {
	metadata := map[string]any{"name": d.name, "uid": string(o.GetUID()), "resourceVersion": o.GetResourceVersion()}
	if d.namespace != "" {
		metadata["namespace"] = d.namespace
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": d.object["apiVersion"], "kind": d.object["kind"], "metadata": metadata, "status": d.status,
	}}
	written, err := a.write(ctx, d.kind.kind, "apply-status", func() (*unstructured.Unstructured, error) {
		return a.dynamic.Resource(d.kind.resource).Namespace(d.namespace).ApplyStatus(ctx, d.name, object,
			metav1.ApplyOptions{FieldManager: fieldManager(a.controller.Name, "-status"), Force: true})
	})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return &lostRace{fmt.Errorf("status: %w", err)}
	case err != nil:
		return fmt.Errorf("applying its status: %w", err)
	}
	state.wrote(d.kind.cache, written)
	left := compareChildStatus(written, d)
	state.note(written.GetUID(), func(known *record) {
		known.statusApplied, known.statusLeft = fingerprintOf(d.status), left.fingerprint()
	})
	if !left.empty() {
		a.logger.Info("the API server holds some fields of a child's status otherwise than the hook returned them; its schema may lack them",
			"child", d.String(), "fields", strings.Join(paths(left.patch, ""), ", "))
	}
	return nil
}
