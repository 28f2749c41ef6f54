package harness

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
)

// WatchJobs calls f with every job of the namespace when it changes, until ctx
// ends. f is called by one goroutine.
func (n *Namespace) WatchJobs(ctx context.Context, f func(*v1beta1.ResumableTrainingJob)) {
	watchAll(ctx, n, jobs, f)
}

// WatchWorkloads calls f with every Workload of the namespace when it changes,
// until ctx ends. f is called by one goroutine.
func (n *Namespace) WatchWorkloads(ctx context.Context, f func(*kueue.Workload)) {
	watchAll(ctx, n, workloads, f)
}

// Watch calls f with every object of a kind in the namespace when it changes, until
// ctx ends. f is called by one goroutine.
func (n *Namespace) Watch(ctx context.Context, resource schema.GroupVersionResource, f func(*unstructured.Unstructured)) {
	for ctx.Err() == nil {
		if watchOnce(ctx, n, resource, f) != nil {
			// The API server restarts, or the namespace is not there yet.
			select {
			case <-ctx.Done():
			case <-time.After(pollEvery):
			}
		}
	}
}

func watchAll[T any](ctx context.Context, n *Namespace, resource schema.GroupVersionResource, f func(*T)) {
	n.Watch(ctx, resource, func(u *unstructured.Unstructured) {
		var object T
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &object) == nil {
			f(&object)
		}
	})
}

func watchOnce(ctx context.Context, n *Namespace, resource schema.GroupVersionResource, show func(*unstructured.Unstructured)) error {
	client := n.Dynamic.Resource(resource).Namespace(n.Name)
	found, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range found.Items {
		show(&found.Items[i])
	}
	w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: found.GetResourceVersion()})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-w.ResultChan():
			if !ok || event.Type == watch.Error {
				return nil
			}
			if u, isObject := event.Object.(*unstructured.Unstructured); isObject && event.Type != watch.Deleted {
				show(u)
			}
		}
	}
}
