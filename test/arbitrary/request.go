package arbitrary

import (
	"encoding/json"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/contract"
)

// Request is the request that an observation was made from. Objects that were
// never decoded, so that nobody knows them whole, do not occur.
func Request(o *compose.Observation, finalizing bool) (*contract.SyncRequest, error) {
	parent, err := json.Marshal(o.Parent)
	if err != nil {
		return nil, err
	}
	r := &contract.SyncRequest{
		Controller: json.RawMessage(`{"apiVersion":"metacontroller.k8s.io/v1alpha1","kind":"CompositeController","metadata":{"name":"rtj"}}`),
		Parent:     parent, Children: contract.ObjectMap{}, Related: contract.ObjectMap{}, Finalizing: finalizing,
	}
	add(r.Children, hooks.Workloads, o.Workloads, func(w *compose.Workload) *compose.Object { return &w.Object })
	add(r.Children, hooks.JobSets, o.JobSets, func(j *compose.JobSet) *compose.Object { return &j.Object })
	if o.Control != nil {
		add(r.Children, hooks.ConfigMaps, []compose.ConfigMap{*o.Control}, func(c *compose.ConfigMap) *compose.Object { return &c.Object })
	}
	add(r.Related, hooks.Jobs, o.Jobs, func(j *compose.Job) *compose.Object { return &j.Object })
	add(r.Related, hooks.Pods, o.LeaderPods, func(p *compose.Pod) *compose.Object { return &p.Object })
	add(r.Related, hooks.LocalQueues, o.LocalQueues, func(q *compose.LocalQueue) *compose.Object { return &q.Object })
	add(r.Related, hooks.ClusterQueues, o.ClusterQueues, func(q *compose.ClusterQueue) *compose.Object { return &q.Object })
	add(r.Related, hooks.ResourceFlavors, o.Flavors, func(f *compose.ResourceFlavor) *compose.Object { return &f.Object })
	add(r.Related, hooks.PriorityClasses, o.PriorityClasses, func(p *compose.PriorityClass) *compose.Object { return &p.Object })
	return r, nil
}

func add[T any](into contract.ObjectMap, kind hooks.Kind[T], list []T, common func(*T) *compose.Object) {
	for i := range list {
		o := common(&list[i])
		into.Set(kind.Key, contract.ObjectKey(o.Meta.Namespace, o.Meta.Name), o.Raw)
	}
}
