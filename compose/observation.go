package compose

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose/checkpoint"
)

// Observation is what is known at one instant.
type Observation struct {
	// Now is the instant.
	Now time.Time
	// Observer names the process that observes. The end of an attempt that
	// another process observed is given a margin for its clock.
	Observer string
	// PodIntegration is whether Kueue manages plain pods (its default): then a
	// LocalQueue named default captures ours.
	PodIntegration bool

	Parent *v1beta1.ResumableTrainingJob
	// Template is [TemplateHash] of the parent's spec, from those who decide about one
	// spec again and again; empty: decisions make it as they need it.
	Template string

	// Children of the parent.
	Workloads []Workload
	JobSets   []JobSet
	Control   *ConfigMap

	// Related objects.
	Jobs            []Job
	LeaderPods      []Pod
	LocalQueues     []LocalQueue
	ClusterQueues   []ClusterQueue
	Flavors         []ResourceFlavor
	PriorityClasses []PriorityClass

	// Catalog is the newest reading of the store; nil when there was none.
	Catalog *checkpoint.Snapshot
	// Launch is what a dry run of the wanted JobSet's creation answered; nil
	// when there was none.
	Launch *LaunchProbe
}

// Workload is an observed Kueue Workload.
type Workload struct {
	Object
	claimed  document[claim]
	reserves document[reservation]

	Spec struct {
		PodSets []struct {
			Name     string `json:"name"`
			Count    int32  `json:"count"`
			MinCount *int32 `json:"minCount"`
		} `json:"podSets"`
		QueueName        string `json:"queueName"`
		PriorityClassRef *struct {
			Name string `json:"name"`
		} `json:"priorityClassRef"`
		Priority *int32 `json:"priority"`
		Active   *bool  `json:"active"`
	} `json:"spec"`
	Status struct {
		Conditions []Condition `json:"conditions"`
		Admission  *struct {
			ClusterQueue      string             `json:"clusterQueue"`
			PodSetAssignments []PodSetAssignment `json:"podSetAssignments"`
		} `json:"admission"`
		AdmissionChecks []struct {
			Name          string         `json:"name"`
			State         string         `json:"state"`
			PodSetUpdates []PodSetUpdate `json:"podSetUpdates"`
		} `json:"admissionChecks"`
		RequeueState *struct {
			RequeueAt *metav1.Time `json:"requeueAt"`
		} `json:"requeueState"`
		AccumulatedPastExecutionTimeSeconds *int32 `json:"accumulatedPastExecutionTimeSeconds"`
	} `json:"status"`
}

// PodSetAssignment is what one podSet was admitted with.
type PodSetAssignment struct {
	Name    string            `json:"name"`
	Flavors map[string]string `json:"flavors"`
	Count   *int32            `json:"count"`
}

// PodSetUpdate is what an admission check adds to a podSet's pods.
type PodSetUpdate struct {
	Name         string              `json:"name"`
	Labels       map[string]string   `json:"labels"`
	Annotations  map[string]string   `json:"annotations"`
	NodeSelector map[string]string   `json:"nodeSelector"`
	Tolerations  []corev1.Toleration `json:"tolerations"`
}

// JobSet is an observed JobSet.
type JobSet struct {
	Object
	reserved document[reservation]

	Spec struct {
		Suspend        *bool           `json:"suspend"`
		ReplicatedJobs []ReplicatedJob `json:"replicatedJobs"`
	} `json:"spec"`
	Status struct {
		Conditions           []Condition           `json:"conditions"`
		ReplicatedJobsStatus []ReplicatedJobStatus `json:"replicatedJobsStatus"`
	} `json:"status"`
}

// ReplicatedJob is one of an observed JobSet.
type ReplicatedJob struct {
	Name     string `json:"name"`
	Replicas *int32 `json:"replicas"`
}

// wanted is how many Jobs it makes.
func (r *ReplicatedJob) wanted() int32 {
	if r.Replicas == nil {
		return 1
	}
	return *r.Replicas
}

// ReplicatedJobStatus counts the Jobs of a replicatedJob.
type ReplicatedJobStatus struct {
	Name      string `json:"name"`
	Ready     int32  `json:"ready"`
	Succeeded int32  `json:"succeeded"`
	Failed    int32  `json:"failed"`
	Active    int32  `json:"active"`
	Suspended int32  `json:"suspended"`
}

// ConfigMap is the observed control document.
type ConfigMap struct {
	Object
	document document[controlDocument]

	Data map[string]string `json:"data"`
}

// Job is an observed Job of one of our JobSets.
type Job struct {
	Object
	Spec struct {
		Suspend     *bool  `json:"suspend"`
		Parallelism *int32 `json:"parallelism"`
	} `json:"spec"`
	Status struct {
		Conditions  []Condition `json:"conditions"`
		Active      int32       `json:"active"`
		Ready       int32       `json:"ready"`
		Terminating *int32      `json:"terminating"`
		Succeeded   int32       `json:"succeeded"`
		Failed      int32       `json:"failed"`
	} `json:"status"`
}

// Pod is the observed leader pod of an attempt.
type Pod struct {
	Object
	Status struct {
		Phase corev1.PodPhase `json:"phase"`
	} `json:"status"`
}

// LocalQueue is an observed Kueue LocalQueue.
type LocalQueue struct {
	Object
	Spec struct {
		ClusterQueue string `json:"clusterQueue"`
		StopPolicy   string `json:"stopPolicy"`
	} `json:"spec"`
	Status struct {
		Conditions []Condition `json:"conditions"`
	} `json:"status"`
}

// ClusterQueue is an observed Kueue ClusterQueue.
type ClusterQueue struct {
	Object
	Spec struct {
		StopPolicy string `json:"stopPolicy"`
	} `json:"spec"`
	Status struct {
		Conditions []Condition `json:"conditions"`
	} `json:"status"`
}

// ResourceFlavor is an observed Kueue ResourceFlavor.
type ResourceFlavor struct {
	Object
	Spec struct {
		NodeLabels  map[string]string   `json:"nodeLabels"`
		Tolerations []corev1.Toleration `json:"tolerations"`
	} `json:"spec"`
}

// PriorityClass is an observed Kueue WorkloadPriorityClass.
type PriorityClass struct {
	Object
	Value int32 `json:"value"`
}

// LaunchProbe is what a dry run of a JobSet's creation answered.
type LaunchProbe struct {
	// JobSet is the name that was tried.
	JobSet string
	// Refused is the server's text; empty when it would be created.
	Refused string
	// Foreign reports that the name is taken by an object that is not ours.
	Foreign bool
}
