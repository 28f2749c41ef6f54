package world

import (
	"fmt"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/world/apiserver"
)

// namespace that the jobs are in.
const namespace = "team"

// storage is where the checkpoints of all jobs are.
const storage = "s3://checkpoints/team"

// jobSpec is the spec of a job as the API server stores it, with its defaults: one
// replicatedJob of Jobs of one pod with one rank each.
func jobSpec(queue string, pods, maxFailures int64) map[string]any {
	return map[string]any{
		"suspend":   false,
		"queueName": queue,
		"trainer":   map[string]any{"processesPerPod": int64(1)},
		"template": map[string]any{
			"metadata": map[string]any{},
			"spec": map[string]any{
				"replicatedJobs": []any{map[string]any{
					"name":     "workers",
					"replicas": pods,
					"template": map[string]any{"spec": map[string]any{
						"parallelism": int64(1), "completions": int64(1), "completionMode": "Indexed", "backoffLimit": int64(0),
						"template": map[string]any{"spec": map[string]any{
							"restartPolicy": "Never",
							"containers": []any{map[string]any{
								"name": "train", "image": "registry.example/llama:1",
								"command":   []any{"rtj-run", "python", "train.py"},
								"resources": map[string]any{"requests": map[string]any{"example.com/gpu": "1"}, "limits": map[string]any{"example.com/gpu": "1"}},
							}},
						}},
					}},
				}},
			},
		},
		"identity": map[string]any{},
		"checkpoint": map[string]any{
			"storage": map[string]any{"uri": storage}, "interval": "2m", "retention": map[string]any{"keepLast": int64(3)},
		},
		"yield":         map[string]any{"gracePeriod": "2m", "forceAfter": "10m"},
		"resume":        map[string]any{"compatibility": map[string]any{"worldSize": "Reshard", "identity": "Match"}, "onNone": "Wait"},
		"failurePolicy": map[string]any{"maxFailures": maxFailures, "backoff": "10s"},
		"startup":       map[string]any{"deadline": "15m"},
	}
}

func newJob(name string, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": jobKind,
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     spec,
	}
}

// setting creates what administrators make: a namespace, queues with quota for so
// many pods in each flavor, priority classes, nodes.
func setting(s *apiserver.Server, quotas []int64) error {
	active := []any{map[string]any{"type": "Active", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": s.Timestamp()}}
	var flavors []any
	objects := []map[string]any{
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}},
		{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": map[string]any{"namespace": namespace, "name": "queue"},
			"spec": map[string]any{"clusterQueue": "cluster"}, "status": map[string]any{"conditions": active}},
		{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": map[string]any{"name": "high"}, "value": int64(100)},
	}
	for i, quota := range quotas {
		name := fmt.Sprintf("flavor-%d", i)
		objects = append(objects, map[string]any{
			"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"nodeLabels": map[string]any{"example.com/pool": name}},
		})
		flavors = append(flavors, map[string]any{"name": name, "resources": []any{map[string]any{"name": "example.com/gpu", "nominalQuota": fmt.Sprint(quota)}}})
		for n := range quota {
			objects = append(objects, map[string]any{
				"apiVersion": "v1", "kind": "Node",
				"metadata": map[string]any{"name": fmt.Sprintf("%s-node-%d", name, n), "labels": map[string]any{"example.com/pool": name}},
				"status":   map[string]any{"allocatable": map[string]any{"example.com/gpu": "1", "pods": "10"}},
			})
		}
	}
	objects = append(objects, map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": map[string]any{"name": "cluster"},
		"spec": map[string]any{
			"resourceGroups":   []any{map[string]any{"coveredResources": []any{"example.com/gpu"}, "flavors": flavors}},
			"preemption":       map[string]any{"withinClusterQueue": "LowerPriority"},
			"queueingStrategy": "BestEffortFIFO", "stopPolicy": "None",
		},
		"status": map[string]any{"conditions": active},
	})
	for _, body := range objects {
		status := body["status"]
		o, err := s.Create("administrator", body)
		if err != nil {
			return err
		}
		if status == nil {
			continue
		}
		if _, err := s.Update("administrator", o, apiserver.Status, func(body map[string]any) { body["status"] = status }); err != nil {
			return err
		}
	}
	return nil
}
