package patch

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
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
	// batchJobs are those that JobSets make.
	batchJobs = batchv1.SchemeGroupVersion.WithResource("jobs")
)

// make makes one patch if its preconditions hold.
func (w *Writer) make(j Job, p compose.Patch) (Result, error) {
	m := Make(j, p, &w.made, time.Now())
	for {
		switch m.Next() {
		case Read:
			m.Read(w.read(j))
		case List:
			m.Listed(w.left(p.NoLivePods))
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

// left is the LIST: whether any pod is left that may still run, or a Job that may make
// one. It reads the API server's newest state, not a cache. Jobs come first: a pod that
// one of them made before it was suspended is then seen. What is relied on is that the
// Job controller has no creation of a pod under way for a Job that somebody suspended;
// the core waits for it before it takes an attempt to have ended.
func (w *Writer) left(condition *compose.NoLivePods) (bool, error) {
	options := metav1.ListOptions{LabelSelector: condition.LabelSelector, Limit: jobsAPage}
	if found, err := w.lists(batchJobs, condition.Namespace, options, MayMakePods); found || err != nil {
		return found, err
	}
	options.FieldSelector, options.Limit = condition.FieldSelector, 1
	return w.lists(pods, condition.Namespace, options, func(*unstructured.Unstructured) bool { return true })
}

// jobsAPage is how many Jobs one request asks for.
const jobsAPage = 100

// MayMakePods tells whether a Job may: it is not suspended, not finished, and not being
// deleted. One that is about to finish counts until it has.
func MayMakePods(job *unstructured.Unstructured) bool {
	if job.GetDeletionTimestamp() != nil {
		return false
	}
	if suspended, _, _ := unstructured.NestedBool(job.Object, "spec", "suspend"); suspended {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	return !slices.ContainsFunc(conditions, func(item any) bool {
		c, _ := item.(map[string]any)
		return c["status"] == "True" && (c["type"] == string(batchv1.JobComplete) || c["type"] == string(batchv1.JobFailed))
	})
}

// lists tells whether a live list has an object that counts.
func (w *Writer) lists(what schema.GroupVersionResource, namespace string, options metav1.ListOptions, counts func(*unstructured.Unstructured) bool) (bool, error) {
	for {
		ctx, cancel := context.WithTimeout(w.ctx, requestTimeout)
		page, err := w.options.Client.Resource(what).Namespace(namespace).List(ctx, options)
		cancel()
		if err != nil {
			return false, err
		}
		for i := range page.Items {
			if counts(&page.Items[i]) {
				return true, nil
			}
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
