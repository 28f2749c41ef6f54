package applier

import (
	"context"
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// write sends one request that writes, when it is its turn, and counts it. What
// it returns may be nil without an error, after a deletion.
func (a *Applier) write(ctx context.Context, kind kind, verb string, send func() (*unstructured.Unstructured, error)) (*observed, error) {
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
	if kind.metadataOnly {
		written = withoutBody(written)
	}
	return observe(written), nil
}

// patch sends a JSON merge patch. With dryRun it only asks what would come of it.
func (a *Applier) patch(ctx context.Context, verb string, kind kind, o *observed, patch map[string]any, dryRun dryRun, subresources ...string) (*observed, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: a.fieldManager, DryRun: dryRun}
	return a.write(ctx, kind, dryRun.verb(verb), func() (*unstructured.Unstructured, error) {
		return a.dynamic.Resource(kind.resource).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, body, options, subresources...)
	})
}

// dryRun is the option of that name of a request.
type dryRun []string

var (
	forReal dryRun
	dry     = dryRun{metav1.DryRunAll}
)

func (d dryRun) verb(verb string) string {
	if len(d) > 0 {
		return "dry-run"
	}
	return verb
}

// guarded adds to a patch the state of the object that it was made for, so that
// it fails on any other.
func guarded(o *observed, patch map[string]any) map[string]any {
	result := maps.Clone(patch)
	metadata, _ := patch["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"] = string(o.GetUID())
	metadata["resourceVersion"] = o.GetResourceVersion()
	result["metadata"] = metadata
	return result
}
