package jobs_test

import (
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

func TestCreatedSuspendedAndStarted(t *testing.T) {
	r := newRig(t)
	r.create(jobSet("llama-1", true, 2, 1))
	r.step("jobset: jobs")
	r.want("status before it is written", r.jobSet().At("status"), nil)
	r.step("jobset: status")
	// The Jobs were counted before they were made.
	r.want("counts", counts(r.jobSet()), "")
	r.want("conditions", conditions(r.jobSet()), "Suspended=SuspendedJobs")
	r.Settle()
	r.want("counts", counts(r.jobSet()), "suspended=2")
	r.want("pods", len(r.pods()), 0)
	r.want("Job", conditions(r.job(0)), "Suspended=JobSuspended")
	r.want("startTime", r.job(0).At("status", "startTime"), nil)

	r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": false}}, "")
	r.step("jobset: jobs")
	r.want("Job's suspend", r.job(0).Bool("spec", "suspend"), false)
	r.step("job: pods team/llama-1-workers-0")
	// Its pods are made before its status says so.
	r.want("Job", conditions(r.job(0))+" "+counts(r.job(0)), "Suspended=JobSuspended terminating=0")
	r.want("pods", len(r.pods()), 1)
	r.Settle()
	r.want("JobSet", conditions(r.jobSet())+counts(r.jobSet()), "active=2 ready=2")
	r.want("JobSet's Suspended", r.jobSet().Condition("Suspended")["reason"], "ResumeJobs")
	r.want("Job", counts(r.job(1)), "active=1 ready=1 terminating=0")
	r.want("startTime", r.job(1).Text("status", "startTime"), "2026-11-29T12:00:00Z")
	p := r.pods()[1]
	r.want("node", p.Text("spec", "nodeName"), "node-0")
	for key, want := range map[string]string{
		"mine": "yes", "jobset.sigs.k8s.io/jobset-name": "llama-1", "jobset.sigs.k8s.io/job-index": "1", "jobset.sigs.k8s.io/replicatedjob-name": "workers",
		"batch.kubernetes.io/job-completion-index": "0",
	} {
		r.want("label "+key, p.Label(key), want)
	}
	if !strings.HasPrefix(p.Name, "llama-1-workers-1-0-") {
		t.Errorf("pod is called %s", p.Name)
	}
}

func TestNotReadyUntilTheWorkersAre(t *testing.T) {
	r := newRig(t)
	r.workers.unready = true
	r.running(1, 2)
	r.want("JobSet", counts(r.jobSet()), "active=1")
	r.want("Job", counts(r.job(0)), "active=2 terminating=0")
	for _, w := range r.workers.pods {
		w.ready = true
	}
	r.Settle()
	r.want("JobSet", counts(r.jobSet()), "active=1 ready=1")
}

func TestAllPodsSucceed(t *testing.T) {
	r := newRig(t)
	r.running(1, 2)
	r.exit(0, 0)
	r.Settle()
	r.want("Job", counts(r.job(0))+" "+conditions(r.job(0)), "active=1 ready=1 succeeded=1 terminating=0 ")
	r.want("JobSet", counts(r.jobSet()), "active=1 ready=1") // succeeded and ready pods together
	r.exit(1, 0)
	r.step("kubelet: end")
	r.step("job: status")
	r.want("Job", conditions(r.job(0)), "SuccessCriteriaMet=CompletionsReached")
	r.step("job: finalizers")
	r.step("job: status")
	r.want("Job", conditions(r.job(0))+" "+counts(r.job(0)), "SuccessCriteriaMet=CompletionsReached Complete=CompletionsReached succeeded=2 terminating=0")
	r.Settle()
	r.want("JobSet", conditions(r.jobSet())+" "+counts(r.jobSet()), "Completed=AllJobsCompleted succeeded=1")
	r.want("terminal", r.jobSet().Text("status", "terminalState"), "Completed")
}

// As tried on a real kubelet: the Job fails by the rule, its peers are deleted, and
// the JobSet has no restarts left.
func TestOneExitCodeFailsAll(t *testing.T) {
	for code, rule := range map[int32]string{75: "1", 77: "3", 1: "4"} {
		r := newRig(t)
		r.workers.onTerm = -1
		r.running(2, 1)
		name := r.pods()[0].Name
		r.exit(0, code)
		r.Settle()
		want := "Container train for pod team/" + name + " failed with exit code " + map[int32]string{75: "75", 77: "77", 1: "1"}[code] + " matching FailJob rule at index " + rule
		r.want("Job", conditions(r.job(0)), "FailureTarget=PodFailurePolicy Failed=PodFailurePolicy")
		r.want("message", message(r.job(0), "Failed"), want)
		r.want("JobSet", conditions(r.jobSet()), "Failed=ReachedMaxRestarts")
		r.want("message", message(r.jobSet(), "Failed"), "jobset failed due to reaching max number of restarts (first failed job: llama-1-workers-0)")
		r.want("the other Job", r.job(1).Deleting(), true)
		r.settleAll()
		r.want("counts", counts(r.jobSet()), "failed=1")
		r.want("pods", len(r.pods()), 2) // the failed one, and one that has its grace
		r.pass(120 * time.Second)
		r.settleAll()
		r.want("pods", len(r.pods()), 1)
		r.want("the other Job", r.job(1), "<nil>")
		r.want("counts", counts(r.jobSet()), "failed=1")
	}
}

// A peer in the same Job is taken for failed when the Job fails, and the Job waits
// until it is gone.
func TestFailedJobWaitsForItsTerminatingPods(t *testing.T) {
	r := newRig(t)
	r.workers.onTerm = -1
	r.running(1, 2)
	r.exit(0, 75)
	r.Settle()
	r.want("Job", conditions(r.job(0))+" "+counts(r.job(0)), "FailureTarget=PodFailurePolicy failed=2 terminating=1")
	r.want("JobSet", conditions(r.jobSet()), "")
	r.workers.exit(r.pods()[1].UID, 0)
	r.Settle()
	r.want("Job", conditions(r.job(0))+" "+counts(r.job(0)), "FailureTarget=PodFailurePolicy Failed=PodFailurePolicy failed=2 terminating=0")
	r.want("JobSet", conditions(r.jobSet()), "Failed=ReachedMaxRestarts")
}

// Which of several failed pods the message names is not said anywhere.
func TestAnyFailedPodMayBeNamed(t *testing.T) {
	r := newRig(t)
	r.running(1, 2)
	r.exit(0, 75)
	r.exit(1, 1)
	r.step("kubelet: end team/llama-1-workers-0-0")
	r.step("kubelet: end team/llama-1-workers-0-1")
	r.step("job: status team/llama-1-workers-0 by llama-1-workers-0-1")
	r.Settle()
	if got := message(r.job(0), "Failed"); !strings.Contains(got, "exit code 1 ") {
		t.Error(got)
	}
}

// As tried on a real kubelet: completion is no proof that training is done.
func TestDeletedPodsThatExitWithZeroComplete(t *testing.T) {
	r := newRig(t)
	r.running(1, 2)
	r.check(r.DeletePod("team", r.pods()[0].Name, -1))
	r.check(r.Evict("team", r.pods()[1].Name))
	r.Settle()
	r.want("Job", conditions(r.job(0)), "SuccessCriteriaMet=CompletionsReached Complete=CompletionsReached")
	r.want("JobSet", conditions(r.jobSet()), "Completed=AllJobsCompleted")
	r.want("pods", len(r.pods()), 0)
}

func TestEvictedPodThatFailsIsADisruption(t *testing.T) {
	r := newRig(t)
	r.workers.onTerm = 143
	r.running(1, 2)
	name := r.pods()[0].Name
	r.check(r.Evict("team", name))
	r.Settle()
	r.want("message", message(r.job(0), "Failed"), "Pod team/"+name+" has condition DisruptionTarget matching FailJob rule at index 0")
}

// A pod that is deleted counts only once it has ended, and is replaced only then.
func TestDeletedPodIsWaitedFor(t *testing.T) {
	r := newRig(t)
	r.workers.onTerm = -1
	r.running(1, 2)
	r.check(r.DeletePod("team", r.pods()[0].Name, -1))
	r.Settle()
	r.want("Job", conditions(r.job(0))+counts(r.job(0)), "active=1 ready=1 terminating=1")
	r.want("pods", len(r.pods()), 2)
	r.pass(120 * time.Second)
	r.Settle()
	r.want("message ends", strings.HasSuffix(message(r.job(0), "FailureTarget"), "failed with exit code 137 matching FailJob rule at index 4"), true)
}

// Pods that a suspension ends do not count, whatever they exit with.
func TestSuspendedPodsDoNotCount(t *testing.T) {
	for _, code := range []int32{0, 143} {
		r := newRig(t)
		r.workers.onTerm = -1
		r.running(1, 2)
		r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": true}}, "")
		r.Settle()
		r.want("Job", conditions(r.job(0))+" "+counts(r.job(0)), "Suspended=JobSuspended terminating=2")
		r.want("startTime", r.job(0).At("status", "startTime"), nil)
		r.want("JobSet", conditions(r.jobSet())+" "+counts(r.jobSet()), "Suspended=SuspendedJobs suspended=1")
		for i := range 2 {
			r.exit(i, code)
		}
		// The kubelet is quick: the controller does not see them between end and removal.
		for range 2 {
			name := r.pods()[0].Name
			r.step("kubelet: end team/" + name)
			r.step("kubelet: remove team/" + name)
		}
		r.Settle()
		r.want("Job", conditions(r.job(0))+" "+counts(r.job(0)), "Suspended=JobSuspended terminating=0")
		r.want("JobSet", conditions(r.jobSet()), "Suspended=SuspendedJobs")
	}
}

// The controller looks at all pods for its failure rules, also at those that it has
// let go.
func TestSuspendedPodSeenFailedFailsTheJob(t *testing.T) {
	r := newRig(t)
	r.workers.onTerm = 143
	r.running(1, 1)
	r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": true}}, "")
	r.step("jobset: jobs")
	r.step("job: pods")
	r.step("job: status")
	r.step("kubelet: terminate")
	r.step("kubelet: end")
	r.step("job: status")
	r.want("Job", conditions(r.job(0)), "Suspended=JobSuspended FailureTarget=PodFailurePolicy")
	// It has no startTime, and cannot end without one.
	r.Settle()
	r.want("Job", conditions(r.job(0)), "Suspended=JobSuspended FailureTarget=PodFailurePolicy")
	r.want("JobSet", conditions(r.jobSet()), "Suspended=SuspendedJobs")
	r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": false}}, "")
	r.Settle()
	r.want("JobSet", conditions(r.jobSet()), "Failed=ReachedMaxRestarts")
	r.want("pods", len(r.pods()), 0)
}

func TestSuspendedThenResumed(t *testing.T) {
	r := newRig(t)
	r.running(1, 2)
	before := r.pods()[0].Name
	r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": true}}, "")
	r.Settle()
	r.want("pods", len(r.pods()), 0)
	r.pass(time.Minute)
	r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": false, "replicatedJobs": r.jobSet().At("spec", "replicatedJobs")}}, "")
	r.Settle()
	r.want("Job", counts(r.job(0)), "active=2 ready=2 terminating=0")
	r.want("startTime", r.job(0).Text("status", "startTime"), "2026-11-29T12:01:00Z")
	if r.pods()[0].Name == before {
		t.Errorf("%s is another pod, and has the same name", before)
	}
}

// SIGTERM, then the grace period, then SIGKILL.
func TestGracePeriod(t *testing.T) {
	r := newRig(t)
	r.workers.onTerm = -1
	r.running(1, 1)
	r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": true}}, "")
	r.Settle()
	r.pass(119 * time.Second)
	r.Settle()
	r.want("pods", len(r.pods()), 1)
	r.want("next", r.Next().Sub(r.now), time.Second)
	r.pass(time.Second)
	r.Settle()
	r.want("pods", len(r.pods()), 0)
	name := strings.TrimPrefix(r.workers.log[0], "start ")
	r.want("log", r.workers.log, []string{"start " + name, "terminate " + name, "kill " + name})
}

func TestOutOfMemory(t *testing.T) {
	r := newRig(t)
	r.running(1, 1)
	r.check(r.OutOfMemory("team", r.pods()[0].Name))
	r.Settle()
	r.want("message ends", strings.HasSuffix(message(r.job(0), "Failed"), "failed with exit code 137 matching FailJob rule at index 4"), true)
}

func TestEvictedByTheKubelet(t *testing.T) {
	r := newRig(t)
	r.running(1, 1)
	r.check(r.Pressure("team", r.pods()[0].Name))
	r.Settle()
	r.want("pod", r.pods()[0].Text("status", "reason"), "Evicted")
	r.want("message ends", strings.HasSuffix(message(r.job(0), "Failed"), "has condition DisruptionTarget matching FailJob rule at index 0"), true)
}

func TestDeletedJobSetTakesAllAlong(t *testing.T) {
	r := newRig(t)
	r.workers.onTerm = -1
	r.running(2, 1)
	r.check(r.api.Delete("test", "JobSet", "team", "llama-1", apiserver.Deletion{}))
	r.step("collector: collect Job team/llama-1-workers-0")
	// The Job is gone, and its pod does not know yet.
	r.want("deleting", r.pods()[0].Deleting(), false)
	r.settleAll()
	r.want("Jobs", len(r.api.List("Job")), 0)
	r.want("pods", len(r.pods()), 2)
	r.pass(120 * time.Second)
	r.settleAll()
	r.want("pods", len(r.pods()), 0)
}

func TestForegroundDeletionIsFromTheLeaves(t *testing.T) {
	r := newRig(t)
	r.workers.onTerm = -1
	r.running(1, 1)
	r.check(r.api.Delete("test", "JobSet", "team", "llama-1", apiserver.Deletion{Propagation: apiserver.Foreground}))
	r.settleAll()
	r.want("Job", r.job(0).Deleting(), true)
	r.want("Job", counts(r.job(0)), "terminating=1")
	r.pass(120 * time.Second)
	r.settleAll()
	r.want("JobSet", r.jobSet(), "<nil>")
}

func TestNamespaceThatEnds(t *testing.T) {
	r := newRig(t)
	r.running(1, 2)
	r.check(r.api.Delete("test", "Namespace", "", "team", apiserver.Deletion{}))
	r.step("namespace: delete Pod team/" + r.pods()[0].Name)
	r.step("kubelet: terminate")
	r.settleAll()
	r.want("namespaces", len(r.api.List("Namespace")), 0)
	r.want("pods", len(r.pods()), 0)
}

// What was decided is written, whatever has become of the JobSet.
func TestLateDecisions(t *testing.T) {
	r := newRig(t)
	r.Prompt = false
	r.create(jobSet("llama-1", true, 2, 1))
	r.Settle()
	r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": false}}, "")
	r.step("jobset: reconcile")
	r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": true}}, "")
	r.step("jobset: jobs")
	r.want("Job's suspend", r.job(0).Bool("spec", "suspend"), false)
	r.step("job: pods team/llama-1-workers-0")
	r.want("JobSet", conditions(r.jobSet())+" "+counts(r.jobSet()), "Suspended=SuspendedJobs suspended=2")
	r.Settle()
	r.want("pods", len(r.pods()), 0)

	// A Job that changed since is left to the next time.
	r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": false}}, "")
	r.step("jobset: reconcile")
	r.patch("Job", "team", "llama-1-workers-1", object{"metadata": object{"labels": object{"changed": "yes"}}}, "")
	r.step("jobset: jobs")
	r.want("suspend", []bool{r.job(0).Bool("spec", "suspend"), r.job(1).Bool("spec", "suspend")}, []bool{false, true})
	r.Settle()
	r.want("JobSet", counts(r.jobSet()), "active=2 ready=2")
}
