package patch

import (
	"context"
	"time"

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

// make makes one patch if its preconditions hold.
func (w *Writer) make(j Job, p compose.Patch) (Result, error) {
	m := Make(j, p, &w.made, time.Now())
	for {
		switch m.Next() {
		case Read:
			m.Read(w.read(j))
		case List:
			m.Listed(w.podsLeft(p.NoLivePods))
		case Send:
			m.Sent(w.send(p), &w.made, time.Now())
		default:
			return m.Result, m.Err
		}
	}
}

// read reads the job past every cache.
func (w *Writer) read(j Job) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(w.ctx, requestTimeout)
	defer cancel()
	return w.options.Client.Resource(jobs).Namespace(j.Namespace).Get(ctx, j.Name, metav1.GetOptions{})
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
