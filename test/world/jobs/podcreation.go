package jobs

import (
	"hash/fnv"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
)

// createPod creates a pod of a Job, as its template says; index -1 is none.
func (c *Cluster) createPod(j *job, index int64) {
	template := below(j.Body, "spec", "template")
	labels, annotations := below(template, "metadata", "labels"), below(template, "metadata", "annotations")
	spec := with(below(template, "spec"), object{"tolerations": tolerations(template)})
	if spec["terminationGracePeriodSeconds"] == nil {
		spec["terminationGracePeriodSeconds"] = int64(30)
	}
	prefix := j.Name
	if index >= 0 {
		n := strconv.FormatInt(index, 10)
		prefix += "-" + n
		labels = with(labels, object{batchv1.JobCompletionIndexAnnotation: n})
		annotations = with(annotations, object{batchv1.JobCompletionIndexAnnotation: n})
		spec["hostname"] = prefix
	}
	metadata := object{
		"namespace": j.Namespace, "name": prefix + "-" + c.suffix(j.Key()), "generateName": prefix + "-",
		"finalizers":      []any{batchv1.JobTrackingFinalizer},
		"ownerReferences": []any{reference("batch/v1", "Job", j.Name, j.UID)},
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	// In a namespace that ends, and beyond a quota, there is none.
	_, _ = c.API.Create(byJob, object{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

// reference of a controller.
func reference(apiVersion, kind, name, uid string) object {
	return object{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true}
}

// notReadyTolerations are what the API server adds to every pod: a node may be away
// for so many seconds.
var notReadyTolerations = []any{
	object{"key": taintNotReady, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300)},
	object{"key": taintUnreachable, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300)},
}

func tolerations(template object) []any {
	have := list(template, "spec", "tolerations")
	all := make([]any, 0, len(have)+len(notReadyTolerations))
	all = append(all, have...)
	for _, item := range notReadyTolerations {
		key := item.(object)["key"]
		tolerated := false
		for _, t := range have {
			t, _ := t.(object)
			tolerated = tolerated || t["key"] == key || t["key"] == nil && t["operator"] == "Exists"
		}
		if !tolerated {
			all = append(all, item)
		}
	}
	return all
}

// suffix ends the name of a pod: another one for each pod of a Job's name, and the
// same in every world in which as many were made.
func (c *Cluster) suffix(jobName string) string {
	const letters, length = "bcdfghjklmnpqrstvwxz2456789", 5
	n := c.made[jobName]
	c.made[jobName] = n + 1
	h := fnv.New64a()
	h.Write([]byte(jobName + "/" + strconv.Itoa(n)))
	sum := h.Sum64()
	b := make([]byte, length)
	for i := range b {
		b[i] = letters[sum%uint64(len(letters))]
		sum /= uint64(len(letters))
	}
	return string(b)
}
