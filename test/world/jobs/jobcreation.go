package jobs

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

func jobName(s *jobSet, r replicatedJob, index int64) string {
	return fmt.Sprintf("%s-%s-%d", s.Name, r.name, index)
}

// createJob creates a Job of a JobSet with what the API server adds to it.
func (c *Cluster) createJob(s *jobSet, n newJob) error {
	r := s.replicated[n.replicated]
	name := jobName(s, r, n.index)
	marks := c.marks(s, n)
	template := below(r.template, "spec", "template")
	pod := with(template, object{
		"metadata": with(below(template, "metadata"), object{
			"labels": with(with(below(template, "metadata", "labels"), marks), object{
				batchv1.JobNameLabel: name, "job-name": name,
			}),
			"annotations": with(below(template, "metadata", "annotations"), marks),
		}),
		"spec": with(below(template, "spec"), c.podNetwork(s)),
	})
	spec := with(below(r.template, "spec"), object{"suspend": s.suspend, "template": pod, "selector": object{"matchLabels": object{batchv1.JobNameLabel: name}}})
	defaultJob(spec)
	_, err := c.API.Create(byJobSet, object{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": object{
			"namespace": s.Namespace, "name": name,
			"labels":          with(below(r.template, "metadata", "labels"), marks),
			"annotations":     with(below(r.template, "metadata", "annotations"), marks),
			"ownerReferences": []any{reference(jobSetAPI, "JobSet", s.Name, s.UID)},
		},
		"spec": spec,
	})
	return err
}

// podNetwork is the subdomain, where pods have host names.
func (c *Cluster) podNetwork(s *jobSet) object {
	if !isTrue(s.Body, "spec", "network", "enableDNSHostnames") {
		return nil
	}
	if subdomain := s.Text("spec", "network", "subdomain"); subdomain != "" {
		return object{"subdomain": subdomain}
	}
	return object{"subdomain": s.Name}
}

// defaultJob sets the defaults of a Job's spec.
func defaultJob(spec object) {
	defaults := object{"backoffLimit": int64(6), "completionMode": string(batchv1.NonIndexedCompletion), "podReplacementPolicy": string(batchv1.TerminatingOrFailed)}
	if spec["podFailurePolicy"] != nil {
		defaults["podReplacementPolicy"] = string(batchv1.Failed)
	}
	if spec["parallelism"] == nil && spec["completions"] == nil {
		defaults["parallelism"], defaults["completions"] = int64(1), int64(1)
	}
	if spec["parallelism"] == nil {
		defaults["parallelism"] = int64(1)
	}
	for _, key := range slices.Sorted(maps.Keys(defaults)) {
		if spec[key] == nil {
			spec[key] = defaults[key]
		}
	}
}

// marks are the labels, and as well the annotations, of a Job and its pods.
func (c *Cluster) marks(s *jobSet, n newJob) object {
	r := s.replicated[n.replicated]
	var global, before, group, groupBefore int64
	for i, other := range s.replicated {
		global += other.replicas
		if i < n.replicated {
			before += other.replicas
		}
		if other.group == r.group {
			group += other.replicas
			if i < n.replicated {
				groupBefore += other.replicas
			}
		}
	}
	digits := func(n int64) string { return strconv.FormatInt(n, 10) }
	key := sha1.Sum([]byte(s.Namespace + "/" + jobName(s, r, n.index)))
	marks := object{
		jobset.JobSetNameKey: s.Name, jobset.JobSetUIDKey: s.UID, jobset.ReplicatedJobNameKey: r.name,
		"jobset.sigs.k8s.io/restart-attempt": digits(s.status.restarts),
		jobset.ReplicatedJobReplicas:         digits(r.replicas), jobset.GlobalReplicasKey: digits(global),
		jobset.JobIndexKey: digits(n.index), jobset.JobKey: hex.EncodeToString(key[:]), jobset.JobGlobalIndexKey: digits(before + n.index),
		jobset.GroupNameKey: r.group, jobset.GroupReplicasKey: digits(group), jobset.JobGroupIndexKey: digits(groupBefore + n.index),
	}
	if at := below(s.Body, "spec", "coordinator"); at != nil {
		marks[jobset.CoordinatorKey] = fmt.Sprintf("%s-%s-%d-%d.%s", s.Name, text(at, "replicatedJob"), number(at, 0, "jobIndex"), number(at, 0, "podIndex"), text(c.podNetwork(s), "subdomain"))
	}
	return marks
}

// union are the items of both lists, those of the first before.
func union(a, b []any) []any {
	all := slices.Clone(a)
	for _, item := range b {
		if !slices.ContainsFunc(all, func(have any) bool { return reflect.DeepEqual(have, item) }) {
			all = append(all, item)
		}
	}
	return all
}
