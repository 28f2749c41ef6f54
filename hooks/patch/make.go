package patch

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
)

// FieldManager is the name under which the API server records the patches.
const FieldManager = "rtj"

// requestTimeout bounds each request to the API server.
const requestTimeout = 10 * time.Second

var (
	jobs = v1beta1.GroupVersion.WithResource(v1beta1.Resource)
	pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// errOlder is a decision upon a state that is no more.
var errOlder = errors.New("the job has changed")

// make makes one patch if its preconditions hold.
func (w *Writer) make(j job, p compose.Patch) (Result, error) {
	mark := markOf(j, &p)
	if w.made.lately(mark) {
		return Lost, errMade
	}
	if p.StatusAttempt != nil {
		if err := w.attemptStands(j, *p.StatusAttempt); err != nil {
			return failure(err), err
		}
	}
	if p.NoLivePods != nil {
		left, err := w.podsLeft(p.NoLivePods)
		if err != nil {
			return Failed, fmt.Errorf("list of live pods: %w", err)
		}
		if left {
			return PodsLeft, nil
		}
	}
	if err := w.send(p); err != nil {
		return failure(err), err
	}
	w.made.remember(mark)
	return Done, nil
}

// failure tells a lost race from a fault.
func failure(err error) Result {
	if errors.Is(err, errOlder) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return Lost
	}
	return Failed
}

// attemptStands returns nil if the job still exists and its status names the
// attempt.
func (w *Writer) attemptStands(j job, attempt int32) error {
	ctx, cancel := context.WithTimeout(w.ctx, requestTimeout)
	defer cancel()
	live, err := w.options.Client.Resource(jobs).Namespace(j.namespace).Get(ctx, j.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if live.GetUID() != j.uid {
		return fmt.Errorf("%w: another one has its name", errOlder)
	}
	n, _, err := unstructured.NestedInt64(live.Object, "status", "attempt")
	if err != nil {
		return err
	}
	if n != int64(attempt) {
		return fmt.Errorf("%w: status.attempt is %d, not %d", errOlder, n, attempt)
	}
	return nil
}

// podsLeft is the LIST: whether any pod is left that may still run. It reads the
// API server's newest state, not a cache.
func (w *Writer) podsLeft(condition *compose.NoLivePods) (bool, error) {
	options := metav1.ListOptions{LabelSelector: condition.LabelSelector, FieldSelector: condition.FieldSelector, Limit: 1}
	for {
		ctx, cancel := context.WithTimeout(w.ctx, requestTimeout)
		page, err := w.options.Client.Resource(pods).Namespace(condition.Namespace).List(ctx, options)
		cancel()
		if err != nil {
			return false, err
		}
		if len(page.Items) > 0 {
			return true, nil
		}
		// An empty page is no proof while there are more.
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return false, nil
		}
	}
}

func (w *Writer) send(p compose.Patch) error {
	version, err := schema.ParseGroupVersion(p.Target.APIVersion)
	if err != nil {
		return err
	}
	var subresources []string
	if p.Target.Subresource != "" {
		subresources = []string{p.Target.Subresource}
	}
	ctx, cancel := context.WithTimeout(w.ctx, requestTimeout)
	defer cancel()
	_, err = w.options.Client.Resource(version.WithResource(p.Target.Resource)).Namespace(p.Target.Namespace).
		Patch(ctx, p.Target.Name, types.MergePatchType, p.Body, metav1.PatchOptions{FieldManager: FieldManager}, subresources...)
	return err
}
