package hooks

import (
	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/hooks/contract"
)

// API versions of the objects that are observed.
const (
	kueueVersion  = "kueue.x-k8s.io/v1beta2"
	jobsetVersion = "jobset.x-k8s.io/v1alpha2"
	batchVersion  = "batch/v1"
	coreVersion   = "v1"
)

// The kinds that are observed, as requests write them. Objects of any other kind
// are not looked at.
var (
	workloadKind       = contract.KindKey(kueueVersion, "Workload")
	localQueueKind     = contract.KindKey(kueueVersion, "LocalQueue")
	clusterQueueKind   = contract.KindKey(kueueVersion, "ClusterQueue")
	resourceFlavorKind = contract.KindKey(kueueVersion, "ResourceFlavor")
	priorityClassKind  = contract.KindKey(kueueVersion, "WorkloadPriorityClass")
	jobSetKind         = contract.KindKey(jobsetVersion, "JobSet")
	jobKind            = contract.KindKey(batchVersion, "Job")
	podKind            = contract.KindKey(coreVersion, "Pod")
	configMapKind      = contract.KindKey(coreVersion, "ConfigMap")
)

// parentVersion is the version in which runners send the parent.
var parentVersion = v1beta1.GroupVersion.String()
