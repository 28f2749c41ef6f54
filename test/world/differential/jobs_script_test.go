//go:build e2e

package differential

import (
	"fmt"
	"testing"
	"time"

	"rtj.dev/rtj/test/cluster"
)

// podWorld is what the scripts of JobSets podAct on: the model or the local cluster.
// Pods are named without the end of their name that is random.
type podWorld interface {
	create(o object)
	// suspend sets or unsets the JobSet's suspend.
	suspend(is bool)
	// exit has the processes of a pod end.
	exit(pod string, code int)
	deletePod(pod string, force bool)
	evictPod(pod string)
	delete(kind, name string, foreground bool)
	// node is lost: its pods terminate for ever. It returns.
	loseNode()
	returnNode()
}

const (
	// staying pods wait for SIGKILL.
	staying = -1
	// gracePeriod of pods, in seconds.
	gracePeriod = 2
	jobSetName  = "a-1"
	pod00       = "a-1-workers-0-0"
	pod01       = "a-1-workers-0-1"
	pod10       = "a-1-workers-1-0"
)

// podScript is a story of one JobSet, told step by step. After a step everything comes
// to rest, unless the next one is hasty.
type podScript struct {
	name string
	// term is what its pods exit with on SIGTERM.
	term  int
	steps []podStep
}

type podStep struct {
	name string
	do   func(podWorld)
	// hasty does not wait for what came before.
	hasty bool
}

func podDoes(name string, do func(podWorld)) podStep { return podStep{name: name, do: do} }

func hastily(name string, do func(podWorld)) podStep { return podStep{name, do, true} }

// jobSetOf is the JobSet of a script.
func jobSetOf(suspend bool, replicas, pods int64) object {
	rule := func(operator string, codes ...any) object {
		return object{"action": "FailJob", "onExitCodes": object{"operator": operator, "values": codes}}
	}
	return object{
		"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": object{"name": jobSetName},
		"spec": object{
			"suspend": suspend, "failurePolicy": object{"maxRestarts": int64(0)},
			"replicatedJobs": []any{object{"name": "workers", "replicas": replicas, "template": object{"spec": object{
				"parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": int64(0),
				"podFailurePolicy": object{"rules": []any{
					object{"action": "FailJob", "onPodConditions": []any{object{"type": "DisruptionTarget", "status": "True"}}},
					rule("In", int64(75)), rule("In", int64(76)), rule("In", int64(77)), rule("NotIn", int64(75), int64(76), int64(77)),
				}},
				"template": object{"spec": object{
					"restartPolicy": "Never", "terminationGracePeriodSeconds": int64(gracePeriod),
					"containers": []any{object{
						"name": "train", "image": "host",
						"command":      []any{"sh", "-c", orderedWorker},
						"volumeMounts": []any{object{"name": "orders", "mountPath": "/orders"}},
					}},
					"volumes": []any{object{"name": "orders", "hostPath": object{"path": "/orders"}}},
				}},
			}}}},
		},
	}
}

func creates(suspend bool, replicas, pods int64) podStep {
	return podDoes("create", func(w podWorld) { w.create(jobSetOf(suspend, replicas, pods)) })
}

func suspends(is bool) podStep {
	return podDoes(fmt.Sprintf("suspend %v", is), func(w podWorld) { w.suspend(is) })
}

func exits(pod string, code int) podStep {
	return podDoes(fmt.Sprintf("%s exits %d", pod, code), func(w podWorld) { w.exit(pod, code) })
}

// podScripts of what there is to compare.
func podScripts() []podScript {
	scripts := []podScript{
		{"created suspended, started, completed", 0, []podStep{
			creates(true, 2, 1), suspends(false), exits(pod00, 0), exits(pod10, 0),
		}},
		{"two pods of a Job complete", 0, []podStep{creates(false, 1, 2), exits(pod01, 0), exits(pod00, 0)}},
		{"both deleted pods exit with 0", 0, []podStep{
			creates(false, 1, 2),
			podDoes("delete", func(w podWorld) { w.deletePod(pod00, false) }), podDoes("evict", func(w podWorld) { w.evictPod(pod01) }),
		}},
		{"a deleted pod fails", 143, []podStep{creates(false, 1, 2), podDoes("delete", func(w podWorld) { w.deletePod(pod00, false) })}},
		{"an evicted pod fails", 143, []podStep{creates(false, 1, 2), podDoes("evict", func(w podWorld) { w.evictPod(pod00) })}},
		{"a pod is deleted by force", 0, []podStep{creates(false, 1, 2), podDoes("force", func(w podWorld) { w.deletePod(pod00, true) })}},
		{"two pods fail at once", 0, []podStep{
			creates(false, 2, 1), exits(pod00, 77), hastily("and the other", func(w podWorld) { w.exit(pod10, 1) }),
		}},
		{"suspended as soon as started", 0, []podStep{
			creates(true, 2, 1), suspends(false), hastily("suspend true", func(w podWorld) { w.suspend(true) }),
		}},
		{"suspended while it completes", 0, []podStep{
			creates(false, 1, 2), exits(pod00, 0), hastily("suspend true", func(w podWorld) { w.suspend(true) }), suspends(false),
		}},
		{"deleted in the background", 0, []podStep{
			creates(false, 2, 1), podDoes("delete", func(w podWorld) { w.delete("JobSet", jobSetName, false) }),
		}},
		{"deleted in the foreground", staying, []podStep{
			creates(false, 2, 1), podDoes("delete", func(w podWorld) { w.delete("JobSet", jobSetName, true) }),
		}},
		{"a Job is deleted", 0, []podStep{
			creates(false, 2, 1), podDoes("delete", func(w podWorld) { w.delete("Job", "a-1-workers-1", false) }), exits(pod00, 0), exits(pod10, 0),
		}},
	}
	for _, code := range []int{1, 75, 77} {
		scripts = append(scripts,
			podScript{fmt.Sprintf("one of two Jobs exits %d", code), staying, []podStep{creates(false, 2, 1), exits(pod00, code)}},
			podScript{fmt.Sprintf("one of two pods exits %d", code), 0, []podStep{creates(false, 1, 2), exits(pod01, code)}})
	}
	for _, code := range []int{0, 1, 143, staying} {
		scripts = append(scripts, podScript{fmt.Sprintf("suspended, SIGTERM %d, resumed", code), code, []podStep{creates(false, 2, 1), suspends(true), suspends(false), exits(pod00, 0), exits(pod10, 0)}})
	}
	return scripts
}

// TestPods has the same scripts played by the model and on the cluster. There are too
// many orders of what a kubelet, the Job controller and JobSet do to look for the one
// that was seen. So the model plays in many orders, and what the cluster shows of each
// object, and after what, must be among that, and so must what it comes to rest in.
func TestPods(t *testing.T) {
	c := podCluster(t)
	t.Run("scripts", func(t *testing.T) {
		for _, s := range podScripts() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				comparePods(t, c, s, false)
			})
		}
	})
	// It stops a kubelet, and plays alone.
	t.Run("a node is lost and returns", func(t *testing.T) {
		comparePods(t, c, podScript{"", 143, []podStep{
			creates(false, 1, 2), podDoes("lose", podWorld.loseNode), suspends(true), podDoes("return", podWorld.returnNode),
		}}, true)
	})
}

// podCluster has two nodes that run processes, and gives a lost one up soon.
func podCluster(t *testing.T) *realCluster {
	t.Helper()
	root, err := cluster.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	return startCluster(t, cluster.Options{
		ProcessNodes: 2, NodeImages: []string{"host=" + root + "/test"}, NodeMonitorGracePeriod: 20 * time.Second, PodEvictionDelay: 2 * time.Second,
	})
}

func comparePods(t *testing.T, c *realCluster, s podScript, pinned bool) {
	podActs := expectPods(s)
	real := newRealPods(t, c, s.term)
	real.pinned = pinned
	for i, step := range s.steps {
		if !step.hasty {
			real.begin()
		}
		step.do(real)
		if i+1 == len(s.steps) || !s.steps[i+1].hasty {
			real.rest(podActs[i])
		}
	}
}
