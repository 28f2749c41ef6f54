package jobs_test

import (
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

// A silent node: its pods are not ready after 50 s, deleted after 300 s more, and
// terminate for ever, while their processes go on.
func TestLostNodeKeepsItsPodsTerminating(t *testing.T) {
	r := newRig(t)
	r.running(1, 2)
	r.check(r.LoseNode("node-0"))
	r.pass(49 * time.Second)
	r.Settle()
	r.want("Job", counts(r.job(0)), "active=2 ready=2 terminating=0")
	r.pass(time.Second)
	r.Settle()
	r.want("Job", counts(r.job(0)), "active=2 terminating=0")
	r.pass(299 * time.Second)
	r.Settle()
	r.want("deleting", r.pods()[0].Deleting(), false)
	r.pass(time.Second)
	r.Settle()
	r.want("DisruptionTarget", r.pods()[0].Condition("DisruptionTarget")["reason"], "DeletionByTaintManager")
	r.pass(time.Hour)
	r.Settle()
	r.want("Job", conditions(r.job(0))+counts(r.job(0)), "terminating=2")
	r.want("processes heard", len(r.workers.log), 2)
	// Suspending changes nothing about it.
	r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": true}}, "")
	r.Settle()
	r.want("Job", conditions(r.job(0))+" "+counts(r.job(0)), "Suspended=JobSuspended terminating=2")

	r.check(r.ReturnNode("node-0"))
	r.Settle()
	// The suspension has let go only of pods that were active: these count.
	r.want("Job", conditions(r.job(0))+" "+counts(r.job(0)), "Suspended=JobSuspended SuccessCriteriaMet=CompletionsReached succeeded=2 terminating=0")
	r.want("JobSet", conditions(r.jobSet()), "Suspended=SuspendedJobs")
	r.want("pods", len(r.pods()), 0)
	r.want("taints", r.api.Get("Node", "", "node-0").At("spec", "taints"), nil)
}

// Where no node is heard, it may be the network: pods stay as they are.
func TestAllNodesLost(t *testing.T) {
	r := newRig(t)
	r.running(1, 2)
	r.check(r.LoseNode("node-0"))
	r.pass(time.Minute)
	r.Settle()
	r.check(r.LoseNode("node-1"))
	for range 10 {
		r.pass(10 * time.Minute)
		r.Settle()
	}
	r.want("Job", counts(r.job(0)), "active=2 terminating=0")
	r.check(r.ReturnNode("node-1"))
	r.Settle()
	r.pass(300 * time.Second)
	r.Settle()
	r.want("Job", counts(r.job(0)), "terminating=2")
}

// A Node that is deleted takes its pods' objects along, but not their processes: those
// end when the machine is back.
func TestDeletedNodeLeavesZombies(t *testing.T) {
	r := newRig(t)
	r.running(1, 1)
	zombie := r.pods()[0].UID
	r.check(r.LoseNode("node-0"))
	r.check(r.DeleteNode("node-0"))
	r.Settle()
	r.pass(39 * time.Second)
	r.Settle()
	r.want("Job", counts(r.job(0)), "active=1 ready=1 terminating=0")
	r.pass(time.Second)
	r.Settle()
	if got := message(r.job(0), "Failed"); !strings.HasSuffix(got, "has condition DisruptionTarget matching FailJob rule at index 0") {
		t.Error(got)
	}
	_, exited, _ := r.workers.State(zombie)
	r.want("the zombie has ended", exited, false)
	r.want("pods", len(r.pods()), 0)

	r.check(r.ReturnNode("node-0"))
	r.Settle()
	_, exited, _ = r.workers.State(zombie)
	r.want("the zombie has ended", exited, true)
	r.want("pool", r.api.Get("Node", "", "node-0").Label("pool"), "a")
}

func TestBlipIsNotNoticed(t *testing.T) {
	r := newRig(t)
	r.running(1, 2)
	r.check(r.LoseNode("node-0"))
	r.pass(40 * time.Second)
	r.Settle()
	r.exit(0, 0)
	r.Settle()
	r.want("Job", counts(r.job(0)), "active=2 ready=2 terminating=0")
	r.check(r.ReturnNode("node-0"))
	r.Settle()
	r.want("Job", counts(r.job(0)), "active=1 ready=1 succeeded=1 terminating=0")
}

func TestDrainedNode(t *testing.T) {
	r := newRig(t)
	r.workers.onTerm = 143
	r.running(1, 2)
	r.check(r.Drain("node-0"))
	r.Settle()
	if got := message(r.job(0), "Failed"); !strings.HasSuffix(got, "has condition DisruptionTarget matching FailJob rule at index 0") {
		t.Error(got)
	}
	r.create(jobSet("llama-2", false, 1, 1))
	r.Settle()
	r.want("node", r.pods()[0].Text("spec", "nodeName"), "node-1")
}

func TestPodsWaitForRoom(t *testing.T) {
	r := newRig(t)
	r.create(jobSet("llama-1", false, 1, 5)) // two nodes of two CPUs
	r.Settle()
	waiting := 0
	for _, p := range r.pods() {
		if p.Text("spec", "nodeName") == "" {
			waiting++
			r.want("phase", p.Text("status", "phase"), "Pending")
		}
	}
	r.want("waiting pods", waiting, 1)
	r.want("JobSet", counts(r.jobSet()), "active=1")
}

func TestImageThatCannotBeHad(t *testing.T) {
	r := newRig(t)
	r.create(jobSet("llama-1", false, 1, 1))
	for range 4 {
		r.step(r.work()[0])
	}
	r.check(r.Unpullable("team", r.pods()[0].Name))
	r.Settle()
	r.pass(time.Hour)
	r.Settle()
	r.want("Job", counts(r.job(0)), "active=1 terminating=0")
	r.check(r.DeletePod("team", r.pods()[0].Name, -1))
	r.Settle()
	// The kubelet cannot tell how the container ended, and says 137.
	r.want("message ends", strings.HasSuffix(message(r.job(0), "Failed"), "failed with exit code 137 matching FailJob rule at index 4"), true)
}

// A pod without a node that is deleted fails without an exit code.
func TestDeletedBeforeItHadANode(t *testing.T) {
	r := newRig(t)
	r.check(r.Drain("node-0"))
	r.check(r.Drain("node-1"))
	r.create(jobSet("llama-1", false, 1, 1))
	r.Settle()
	r.check(r.DeletePod("team", r.pods()[0].Name, -1))
	r.Settle()
	r.want("Job", conditions(r.job(0)), "FailureTarget=BackoffLimitExceeded Failed=BackoffLimitExceeded")
	r.want("pods", len(r.pods()), 0)
}

// A notice reaches the pod at once; the ConfigMap alone waits for the kubelet's round.
func TestControlDirectory(t *testing.T) {
	r := newRig(t)
	r.create(object{"kind": "ConfigMap", "metadata": object{"namespace": "team", "name": "llama-control"}, "data": object{"control.json": "none"}})
	r.running(1, 1)
	p := r.pods()[0]
	w := r.workers.pods[p.UID]
	r.want("control", w.control, "none")
	r.pass(30 * time.Second)
	r.patch("ConfigMap", "team", "llama-control", object{"data": object{"control.json": "yield"}}, "")
	r.Settle()
	r.want("control", w.control, "none")
	r.want("next", r.Next().Sub(r.now), 37*time.Second)
	r.pass(37 * time.Second)
	r.Settle()
	r.want("control", w.control, "yield")

	r.patch("ConfigMap", "team", "llama-control", object{"data": object{"control.json": "now"}}, "")
	r.patch("Pod", "team", p.Name, object{"metadata": object{"annotations": object{"training.rtj.dev/yield": "notice"}}}, "")
	r.Settle()
	r.want("control and notice", w.control+" "+w.notice, "now notice")
}

func TestWebhook(t *testing.T) {
	r := newRig(t)
	r.create(jobSet("llama-1", true, 1, 2))
	r.want("network", r.jobSet().Bool("spec", "network", "enableDNSHostnames"), true)
	jobs := func(change func(job object)) object {
		body := jobSet("llama-1", true, 1, 2)["spec"].(object)["replicatedJobs"].([]any)
		job := body[0].(object)
		job["groupName"] = "default"
		job["template"].(object)["spec"].(object)["completionMode"] = "Indexed"
		change(job)
		return object{"spec": object{"replicatedJobs": body}}
	}
	template := func(job object) object {
		return job["template"].(object)["spec"].(object)["template"].(object)["spec"].(object)
	}
	node := jobs(func(job object) { template(job)["nodeSelector"] = object{"pool": "a"} })
	image := jobs(func(job object) { template(job)["containers"].([]any)[0].(object)["image"] = "other" })
	size := jobs(func(job object) { job["template"].(object)["spec"].(object)["parallelism"] = int64(1) })
	try := func(what string, body object, refused bool) {
		t.Helper()
		_, err := r.api.Patch("test", "JobSet", "team", "llama-1", body, "")
		if (err != nil) != refused {
			t.Errorf("%s: %v", what, err)
		}
	}
	try("node of a suspended JobSet", node, false)
	try("image of a suspended JobSet", image, true)
	try("size of a suspended JobSet", size, true)
	try("failure policy", object{"spec": object{"failurePolicy": object{"maxRestarts": int64(1)}}}, true)
	r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": false}}, "")
	try("node of a running JobSet", jobs(func(job object) { template(job)["nodeSelector"] = object{"pool": "b"} }), true)
	r.Settle()
	r.want("node", r.job(0).Text("spec", "template", "spec", "nodeSelector", "pool"), "a")

	long := jobSet(strings.Repeat("l", 50), true, 1, 2)
	if _, err := r.api.Create("test", long); err == nil || !strings.Contains(err.Error(), "exceed 63 characters") {
		t.Error(err)
	}
}

func TestQuotaOfObjects(t *testing.T) {
	r := newRig(t)
	r.check(r.Refuse("team", "JobSet"))
	_, err := r.api.Create("test", jobSet("llama-1", true, 1, 1))
	if want := `jobsets.jobset.x-k8s.io "llama-1" is forbidden: exceeded quota: too-small, requested: count/jobsets.jobset.x-k8s.io=1, used: count/jobsets.jobset.x-k8s.io=0, limited: count/jobsets.jobset.x-k8s.io=0`; err == nil || err.Error() != want {
		t.Error(err)
	}
	r.check(r.Permit("team"))
	r.check(r.Refuse("team", "Job"))
	r.create(jobSet("llama-1", true, 1, 1))
	r.Settle()
	r.want("status of a JobSet that makes no Job", r.jobSet().At("status"), nil)
	r.check(r.Permit("team"))
	r.Settle()
	r.want("JobSet", conditions(r.jobSet()), "Suspended=SuspendedJobs")
}

func TestHealEndsWhatLasts(t *testing.T) {
	r := newRig(t)
	r.check(r.Refuse("team", "Job"))
	r.check(r.LoseNode("node-0"))
	r.check(r.DeleteNode("node-0"))
	r.check(r.Drain("node-1"))
	r.create(jobSet("llama-1", false, 1, 2))
	r.Heal()
	r.Settle()
	r.want("JobSet", counts(r.jobSet()), "active=1 ready=1")
}

// What happens in a copy of the world changes nothing of the original.
func TestClones(t *testing.T) {
	r := newRig(t)
	r.running(1, 2)
	before := r.jobSet()
	api := r.api.Clone(func() time.Time { return r.now })
	other := newRig(t)
	for uid, w := range r.workers.pods {
		copied := *w
		other.workers.pods[uid] = &copied
	}
	other.api, other.collector = api, apiserver.NewCollector(api)
	env := r.Env
	env.API, env.Workers = api, other.workers
	other.Cluster = r.Clone(env)
	other.exit(0, 1)
	other.Settle()
	other.want("JobSet", conditions(other.jobSet()), "Failed=ReachedMaxRestarts")
	r.Settle()
	if r.jobSet() != before {
		t.Error("the original changed")
	}
}
