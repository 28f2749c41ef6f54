package hooks

import (
	"encoding/json"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/contract"
)

// API versions of the objects that are observed.
const (
	kueueVersion  = "kueue.x-k8s.io/v1beta2"
	jobsetVersion = "jobset.x-k8s.io/v1alpha2"
	batchVersion  = "batch/v1"
	coreVersion   = "v1"
)

// Kind is a kind of object that decisions read. Objects of any other kind are not
// looked at.
type Kind[T any] struct {
	// Key is the kind as requests write it.
	Key    string
	common func(*T) *compose.Object
}

// The kinds that are observed.
var (
	Workloads       = Kind[compose.Workload]{contract.KindKey(kueueVersion, "Workload"), func(w *compose.Workload) *compose.Object { return &w.Object }}
	LocalQueues     = Kind[compose.LocalQueue]{contract.KindKey(kueueVersion, "LocalQueue"), func(q *compose.LocalQueue) *compose.Object { return &q.Object }}
	ClusterQueues   = Kind[compose.ClusterQueue]{contract.KindKey(kueueVersion, "ClusterQueue"), func(q *compose.ClusterQueue) *compose.Object { return &q.Object }}
	ResourceFlavors = Kind[compose.ResourceFlavor]{contract.KindKey(kueueVersion, "ResourceFlavor"), func(f *compose.ResourceFlavor) *compose.Object { return &f.Object }}
	PriorityClasses = Kind[compose.PriorityClass]{contract.KindKey(kueueVersion, "WorkloadPriorityClass"), func(p *compose.PriorityClass) *compose.Object { return &p.Object }}
	JobSets         = Kind[compose.JobSet]{contract.KindKey(jobsetVersion, "JobSet"), func(j *compose.JobSet) *compose.Object { return &j.Object }}
	Jobs            = Kind[compose.Job]{contract.KindKey(batchVersion, "Job"), func(j *compose.Job) *compose.Object { return &j.Object }}
	Pods            = Kind[compose.Pod]{contract.KindKey(coreVersion, "Pod"), func(p *compose.Pod) *compose.Object { return &p.Object }}
	ConfigMaps      = Kind[compose.ConfigMap]{contract.KindKey(coreVersion, "ConfigMap"), func(c *compose.ConfigMap) *compose.Object { return &c.Object }}
)

// Decode decodes one object, which must be JSON that was checked before, and which
// it aliases. Of it it decodes the fields that decisions read, and keeps the whole.
func (k Kind[T]) Decode(raw json.RawMessage, into *T) error {
	if err := decode(raw, into); err != nil {
		return err
	}
	k.common(into).Raw = raw
	if with, ok := any(into).(interface{ ReadDocuments() }); ok {
		with.ReadDocuments()
	}
	return nil
}

// parentVersion is the version in which runners send the parent.
var parentVersion = v1beta1.GroupVersion.String()
