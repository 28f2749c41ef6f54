package applier

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"rtj.dev/rtj/hooks/contract"
)

// desiredStatus returns the status of a response with the generation that it was
// decided upon.
func desiredStatus(parent *observed, response *contract.SyncResponse) (map[string]any, error) {
	status := map[string]any{}
	if !contract.IsNull(response.Status) {
		if err := utiljson.Unmarshal(response.Status, &status); err != nil {
			return nil, fmt.Errorf("status: %w", err)
		}
	}
	status["observedGeneration"] = parent.GetGeneration()
	return status, nil
}

// writeStatus replaces the status of the parent, if it is not so already.
func (a *Applier) writeStatus(ctx context.Context, parent *observed, state *parentState, status map[string]any) error {
	left := compareStatus(parent, status)
	if left.empty() || state.knows(parent.GetUID(), left) {
		return nil
	}
	if err := a.parents.overtaken(parent); err != nil {
		return err
	}
	written, err := a.patch(ctx, "status", a.parent, parent, guarded(parent, left.patch), forReal, "status")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return &lostRace{fmt.Errorf("status: %w", err)}
	case err != nil:
		return fmt.Errorf("status: %w", err)
	}
	state.wrote(a.parents, written)
	a.reportConditions(parent, written)
	if still := compareStatus(written, status); state.remember(parent.GetUID(), still) {
		a.logger.Info("the API server does not store some fields of the status as the hook returned them; its schema may lack them",
			"namespace", parent.GetNamespace(), "name", parent.GetName(), "fields", strings.Join(paths(still.patch, ""), ", "))
	}
	return nil
}

func compareStatus(parent *observed, status map[string]any) difference {
	was, _ := parent.Object["status"].(map[string]any)
	return compare(map[string]any{"status": orEmpty(was)}, map[string]any{"status": status}, true)
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// setFinalizer adds or removes our finalizer and returns the parent as it is
// then.
func (a *Applier) setFinalizer(ctx context.Context, parent *observed, state *parentState, present bool) (*observed, error) {
	name := a.controller.Finalizer()
	finalizers := parent.GetFinalizers()
	if slices.Contains(finalizers, name) == present {
		return parent, nil
	}
	finalizers = slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == name })
	if present {
		finalizers = append(finalizers, name)
	}
	var value any
	if len(finalizers) > 0 {
		value = finalizers
	}
	patch := guarded(parent, map[string]any{"metadata": map[string]any{"finalizers": value}})
	written, err := a.patch(ctx, "finalizer", a.parent, parent, patch, forReal)
	switch {
	case apierrors.IsNotFound(err) && !present:
		return parent, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil, &lostRace{fmt.Errorf("finalizer: %w", err)}
	case err != nil:
		return nil, fmt.Errorf("finalizer: %w", err)
	}
	state.wrote(a.parents, written)
	return written, nil
}

// heldByGarbageCollector tells whether the garbage collector deletes or orphans
// the children of a parent that is being deleted, so that nobody else should
// touch them.
func heldByGarbageCollector(parent *observed) bool {
	return slices.ContainsFunc(parent.GetFinalizers(), func(f string) bool {
		return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
	})
}
