package jobs

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rtj.dev/rtj/test/world/apiserver"
)

// counted are the kinds whose number a ResourceQuota may limit, with their key in it.
var counted = map[string]string{"JobSet": "count/jobsets.jobset.x-k8s.io", "Job": "count/jobs.batch", "Pod": "count/pods"}

// resources are their names in the API.
var resources = map[string]schema.GroupResource{
	"JobSet": {Group: "jobset.x-k8s.io", Resource: "jobsets"}, "Job": {Group: "batch", Resource: "jobs"}, "Pod": {Resource: "pods"},
}

// exceeds returns the error of the ResourceQuota that forbids one more object of a
// kind beside those that exist and are planned; nil: none does.
func exceeds(s *apiserver.Server, kind, namespace, name string, planned int) error {
	key := counted[kind]
	for _, quota := range s.List("ResourceQuota") {
		hard := quota.Text("spec", "hard", key)
		limit, err := strconv.Atoi(hard)
		if err != nil || quota.Namespace != namespace {
			continue
		}
		used := planned
		for _, o := range s.List(kind) {
			if o.Namespace == namespace {
				used++
			}
		}
		if used >= limit {
			return apierrors.NewForbidden(resources[kind], name, fmt.Errorf("exceeded quota: %s, requested: %s=1, used: %s=%d, limited: %s=%d", quota.Name, key, key, used, key, limit))
		}
	}
	return nil
}

// mayCreate tells whether an object of a kind can be created beside those planned.
func (c *Cluster) mayCreate(kind, namespace string, planned int) bool {
	ns := c.API.Get("Namespace", "", namespace)
	return (ns == nil || !ns.Deleting()) && exceeds(c.API, kind, namespace, "", planned) == nil
}
