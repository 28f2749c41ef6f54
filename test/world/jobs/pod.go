package jobs

import (
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rtj.dev/rtj/test/world/apiserver"
)

// pod is what the controllers read of one version of a pod.
type pod struct {
	*apiserver.Object
	phase corev1.PodPhase
	// ready is the condition.
	ready, deleting bool
	// tracked: the Job controller has not let go of it.
	tracked bool
	node    string
	// job is the UID of the Job that owns it.
	job string
	// index of an Indexed Job, else -1.
	index int64
}

type podKey struct{}

func podOf(o *apiserver.Object) *pod {
	return o.Cached(podKey{}, func() any {
		p := &pod{
			Object: o, phase: corev1.PodPhase(o.Text("status", "phase")), ready: o.True(string(corev1.PodReady)),
			deleting: o.Deleting(), tracked: slices.Contains(o.Finalizers(), batchv1.JobTrackingFinalizer),
			node: o.Text("spec", "nodeName"), job: o.Owner(), index: -1,
		}
		if n, err := strconv.ParseInt(o.Annotation(batchv1.JobCompletionIndexAnnotation), 10, 64); err == nil {
			p.index = n
		}
		return p
	}).(*pod)
}

func (p *pod) ended() bool { return p.phase == corev1.PodSucceeded || p.phase == corev1.PodFailed }

// active as the Job controller counts.
func (p *pod) active() bool { return !p.ended() && !p.deleting }

func (p *pod) terminating() bool { return !p.ended() && p.deleting }

// grace is the period after SIGTERM, in seconds.
func (p *pod) grace() int64 {
	return number(p.Body, number(p.Body, 30, "spec", "terminationGracePeriodSeconds"), "metadata", "deletionGracePeriodSeconds")
}

// pods of all Jobs, in the order of their names.
func (c *Cluster) podsOf(jobUID string) (pods []*pod) {
	for _, o := range c.API.List("Pod") {
		if p := podOf(o); p.job == jobUID {
			pods = append(pods, p)
		}
	}
	return pods
}
