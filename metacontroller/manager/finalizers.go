package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"rtj.dev/rtj/metacontroller/applier"
)

// page is how many parents are read at once.
const page = 500

// ReleaseFinalizers removes the finalizer of a controller that is not run any more
// from all objects of its parent kind, and tells of each. Whoever runs the
// controller again puts it back. One object that fails does not stop the others.
func ReleaseFinalizers(ctx context.Context, client dynamic.Interface, c *applier.CompositeController, released func(namespace, name string)) error {
	parent := c.Spec.ParentResource
	gv, err := schema.ParseGroupVersion(parent.APIVersion)
	if err != nil {
		return err
	}
	parents := client.Resource(gv.WithResource(parent.Resource.Resource))
	options := metav1.ListOptions{Limit: page}
	var faults []error
	for {
		list, err := parents.List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil // the kind is gone, and its objects with it
		}
		if err != nil {
			return errors.Join(append(faults, fmt.Errorf("listing %s: %w", parent.Resource.Resource, err))...)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if !slices.Contains(object.GetFinalizers(), c.Finalizer()) {
				continue
			}
			if err := release(ctx, parents.Namespace(object.GetNamespace()), object, c.Finalizer()); err != nil {
				faults = append(faults, fmt.Errorf("%s %s: %w", object.GetKind(), types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}, err))
				continue
			}
			released(object.GetNamespace(), object.GetName())
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return errors.Join(faults...)
		}
	}
}

func release(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured, finalizer string) error {
	uid := object.GetUID()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		left := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return f == finalizer })
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": uid, "resourceVersion": object.GetResourceVersion(), "finalizers": left,
		}})
		if err != nil {
			return err
		}
		_, err = client.Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		if apierrors.IsConflict(err) {
			live, getErr := client.Get(ctx, object.GetName(), metav1.GetOptions{})
			if getErr != nil || live.GetUID() != uid {
				return getErr
			}
			object = live
		}
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
