package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"rtj.dev/rtj/metacontroller/applier"
)

var compositeControllers = schema.GroupVersionResource{Group: "metacontroller.k8s.io", Version: "v1alpha1", Resource: "compositecontrollers"}

// follow makes the cluster's CompositeControllers what is wanted, until ctx ends.
func (m *Manager) follow(ctx context.Context) {
	client := m.client.Resource(compositeControllers)
	selector := m.options.Selector.String()
	informer := cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return client.Watch(ctx, options)
		},
	}, m.client), &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{ObjectDescription: "CompositeControllers"})
	// These fail only once the informer has started.
	utilruntime.Must(informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !m.cannotList(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	}))
	handled, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(added any) { m.wantObject(ctx, added) },
		UpdateFunc: func(_, updated any) { m.wantObject(ctx, updated) },
		DeleteFunc: func(deleted any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(deleted); err == nil {
				m.want(ctx, key, desired{gone: true})
			}
		},
	})
	utilruntime.Must(err)
	m.supervisors.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), handled.HasSynced) {
			m.known()
			m.logger.Info("following the cluster's CompositeControllers", "selector", selector)
		}
	})
	informer.RunWithContext(ctx)
}

// cannotList says why there are no controllers yet. It returns false once they were
// listed: then only a watch broke.
func (m *Manager) cannotList(err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unknown == nil {
		return false
	}
	text := fmt.Errorf("CompositeControllers cannot be listed: %w", err)
	if apierrors.IsNotFound(err) {
		text = fmt.Errorf("the API server knows no CompositeControllers (%s): install Metacontroller's CRDs", compositeControllers.GroupVersion())
	}
	if m.unknown.Error() != text.Error() {
		m.logger.Warn("waiting for the cluster's CompositeControllers", "error", text)
	}
	m.unknown = text
	return true
}

func (m *Manager) wantObject(ctx context.Context, o any) {
	object, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	if object.GetDeletionTimestamp() != nil {
		m.want(ctx, object.GetName(), desired{gone: true})
		return
	}
	d := desired{object: object}
	d.controller, d.fault = applier.FromObject(object)
	m.want(ctx, object.GetName(), d)
}

// abandon removes the finalizer of a controller that was run and whose object is
// deleted.
func (m *Manager) abandon(ctx context.Context, logger *slog.Logger, ran *applier.CompositeController) error {
	if ran == nil {
		return nil
	}
	live, err := m.client.Resource(compositeControllers).Get(ctx, ran.Name, metav1.GetOptions{})
	switch {
	case err == nil && live.GetDeletionTimestamp() != nil:
		return errors.New("its CompositeController is still being deleted")
	case err == nil:
		return nil // it is there and only not selected: others may run it
	case !apierrors.IsNotFound(err):
		return err
	case m.options.KeepFinalizers:
		if ran.Spec.Hooks.Finalize != nil {
			logger.Warn("parents keep the finalizer of a CompositeController that is deleted, and cannot be deleted until it is back or the finalizer is removed", "finalizer", ran.Finalizer())
		}
		return nil
	}
	n := 0
	err = ReleaseFinalizers(ctx, m.client, ran, func(namespace, name string) {
		n++
		logger.Debug("finalizer removed", "namespace", namespace, "name", name)
	})
	if n > 0 {
		logger.Info("finalizers removed from the parents of a CompositeController that is deleted", "finalizer", ran.Finalizer(), "parents", n)
	}
	return err
}
