package applier

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/csaupgrade"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

// do carries out an action, and what follows from it; nil does nothing.
func (a *Applier) do(ctx context.Context, r *round, action *plan.Action) error {
	for action != nil {
		if err := action.Overtaken(views{a}); err != nil {
			return err
		}
		if action.CheckParent {
			if err := a.checkParent(ctx, r); err != nil {
				return err
			}
		}
		written, err := a.send(ctx, r, action)
		outcome := r.Done(action, written, err, time.Now())
		if err == nil && written != nil {
			a.tell(r, action, written, outcome)
		}
		if outcome.Err != nil {
			return outcome.Err
		}
		action = outcome.Next
	}
	return nil
}

// checkParent makes sure that the parent is still there before something is
// adopted for it.
func (a *Applier) checkParent(ctx context.Context, r *round) error {
	live, err := a.read(ctx, a.plan.Parent, "adopt", r.Parent.GetNamespace(), r.Parent.GetName())
	if err != nil {
		return fmt.Errorf("reading the parent before adopting: %w", err)
	}
	return r.StillThere(live)
}

// tell logs what a person may want to know of a write.
func (a *Applier) tell(r *round, action *plan.Action, written *plan.Object, outcome plan.Outcome) {
	switch action.Verb {
	case plan.Adopt, plan.Release:
		a.logger.Info("changed the owner of a child", "verb", string(action.Verb), "kind", action.KindKey, "namespace", action.Namespace, "name", action.Name)
	case plan.Status:
		a.reportConditions(r.Parent, written)
	}
	if len(outcome.Kept) == 0 {
		return
	}
	fields := strings.Join(outcome.Kept, ", ")
	switch action.Verb {
	case plan.Status:
		a.logger.Info("the API server does not store some fields of the status as the hook returned them; its schema may lack them",
			"namespace", action.Namespace, "name", action.Name, "fields", fields)
	case plan.ApplyStatus:
		a.logger.Info("the API server holds some fields of a child's status otherwise than the hook returned them; its schema may lack them",
			"child", action.Child(), "fields", fields)
	default:
		a.logger.Info("the API server holds some fields of a child otherwise than the hook returned them; this is not tried again until one of them changes",
			"child", action.Child(), "fields", fields)
	}
}

// send sends the request of an action. What it returns may be nil without an
// error, after a deletion.
func (a *Applier) send(ctx context.Context, r *round, action *plan.Action) (*plan.Object, error) {
	kind := a.kindOf(action)
	client := a.dynamic.Resource(kind.Resource).Namespace(action.Namespace)
	switch action.Verb {
	case plan.Create:
		return a.write(ctx, kind, "create", func() (*unstructured.Unstructured, error) {
			return client.Create(ctx, &unstructured.Unstructured{Object: action.Body}, metav1.CreateOptions{FieldManager: a.fieldManager})
		})
	case plan.Delete:
		return a.write(ctx, kind, "delete", func() (*unstructured.Unstructured, error) {
			return nil, client.Delete(ctx, action.Name, metav1.DeleteOptions{
				Preconditions:     &metav1.Preconditions{UID: &action.UID, ResourceVersion: &action.ResourceVersion},
				PropagationPolicy: &action.Propagation,
			})
		})
	case plan.Look:
		return a.read(ctx, kind, "exists", action.Namespace, action.Name)
	case plan.Apply:
		return a.apply(ctx, r, kind, client, action)
	case plan.ApplyStatus:
		return a.write(ctx, kind, "apply-status", func() (*unstructured.Unstructured, error) {
			return client.ApplyStatus(ctx, action.Name, &unstructured.Unstructured{Object: action.Body},
				metav1.ApplyOptions{FieldManager: fieldManager(a.controller.Name, "-status"), Force: true})
		})
	default:
		return a.patch(ctx, kind, client, action)
	}
}

func (a *Applier) kindOf(action *plan.Action) plan.Kind {
	if action.Kind == nil {
		return a.plan.Parent
	}
	return action.Kind.Kind
}

// read reads one object past the caches.
func (a *Applier) read(ctx context.Context, kind plan.Kind, reason, namespace, name string) (*plan.Object, error) {
	a.metrics.read(kind, reason)
	live, err := a.dynamic.Resource(kind.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return plan.Observe(live), nil
}

// patch sends a JSON merge patch.
func (a *Applier) patch(ctx context.Context, kind plan.Kind, client dynamic.ResourceInterface, action *plan.Action) (*plan.Object, error) {
	body, err := json.Marshal(action.Body)
	if err != nil {
		return nil, err
	}
	var subresources []string
	if action.Subresource != "" {
		subresources = []string{action.Subresource}
	}
	options := metav1.PatchOptions{FieldManager: a.fieldManager, DryRun: dryRun(action)}
	return a.write(ctx, kind, verb(action), func() (*unstructured.Unstructured, error) {
		return client.Patch(ctx, action.Name, types.MergePatchType, body, options, subresources...)
	})
}

// apply sends a partial child by server-side apply.
func (a *Applier) apply(ctx context.Context, r *round, kind plan.Kind, client dynamic.ResourceInterface, action *plan.Action) (*plan.Object, error) {
	body := action.Body
	if action.TakeOver {
		resourceVersion, err := a.takeOver(ctx, kind, client, action)
		if err != nil {
			return nil, err
		}
		r.TookOver(action)
		body = action.Upon(resourceVersion)
	}
	options := metav1.ApplyOptions{FieldManager: a.fieldManager, Force: true, DryRun: dryRun(action)}
	return a.write(ctx, kind, verb(action), func() (*unstructured.Unstructured, error) {
		return client.Apply(ctx, action.Name, &unstructured.Unstructured{Object: body}, options)
	})
}

// takeOver makes fields that were written by our POST, or by Metacontroller
// before us, ours to apply, and returns the resourceVersion after that. It reads
// the object, since the caches do not keep managedFields; that happens once for a
// child, when something is about to be written.
func (a *Applier) takeOver(ctx context.Context, kind plan.Kind, client dynamic.ResourceInterface, action *plan.Action) (resourceVersion string, err error) {
	a.metrics.read(kind, "managed fields")
	live, err := client.Get(ctx, action.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if err := action.StillSo(live); err != nil {
		return "", err
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(a.fieldManager, "metacontroller"), a.fieldManager)
	if err != nil {
		return "", err
	}
	if len(patch) == 0 {
		return live.GetResourceVersion(), nil
	}
	taken, err := a.write(ctx, kind, "take-over", func() (*unstructured.Unstructured, error) {
		return client.Patch(ctx, action.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: a.fieldManager})
	})
	if err != nil {
		return "", err
	}
	return taken.GetResourceVersion(), nil
}

// dryRun is the option of that name of a request.
func dryRun(action *plan.Action) []string {
	if action.DryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

func verb(action *plan.Action) string {
	if action.DryRun {
		return "dry-run"
	}
	return string(action.Verb)
}

// write sends one request that writes, when it is its turn, and counts it.
func (a *Applier) write(ctx context.Context, kind plan.Kind, verb string, send func() (*unstructured.Unstructured, error)) (*plan.Object, error) {
	if err := a.writes.enter(ctx); err != nil {
		return nil, err
	}
	written, err := func() (*unstructured.Unstructured, error) {
		defer a.writes.leave()
		return send()
	}()
	a.metrics.write(kind, verb, err)
	if err != nil || written == nil {
		return nil, err
	}
	if kind.MetadataOnly {
		written = plan.WithoutBody(written)
	}
	return plan.Observe(written), nil
}
