//go:build e2e

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestPhaseAndExitCodes(t *testing.T) {
	w := newWorld(t)
	w.pod("good", "echo fine; echo last words > /dev/termination-log")
	w.pod("bad", "exit 75")
	good := w.waitPhase("good", corev1.PodSucceeded)
	if s := terminated(good); s.ExitCode != 0 || s.Reason != "Completed" || s.Message != "last words\n" {
		t.Errorf("%+v", s)
	}
	if c := condition(good, corev1.PodReady); c.Status != corev1.ConditionFalse || c.Reason != "PodCompleted" {
		t.Errorf("%+v", c)
	}
	if got := w.log("good"); got != "fine\n" {
		t.Errorf("log: %q", got)
	}
	if s := terminated(w.waitPhase("bad", corev1.PodFailed)); s.ExitCode != 75 || s.Reason != "Error" {
		t.Errorf("%+v", s)
	}
	w.delete("good")
	w.waitGone("good")
}

func TestDeletionIsGracefulAndLeavesAFinalStatus(t *testing.T) {
	w := newWorld(t)
	w.pod("listens", untilTerm, hold)
	w.pod("deaf", deaf, hold, func(p *corev1.Pod) { *p.Spec.TerminationGracePeriodSeconds = 1 })
	for _, name := range []string{"listens", "deaf"} {
		w.waitLog(name, "up")
		w.delete(name)
	}
	w.waitPhase("listens", corev1.PodSucceeded)
	if got := w.log("listens"); !strings.HasSuffix(got, "caught\n") {
		t.Errorf("log of a terminated pod: %q", got)
	}
	if s := terminated(w.waitPhase("deaf", corev1.PodFailed)); s.ExitCode != 137 {
		t.Errorf("after SIGKILL: %+v", s)
	}
	for _, name := range []string{"listens", "deaf"} {
		w.waitPod(name, "consented to", func(p *corev1.Pod) bool { return *p.DeletionGracePeriodSeconds == 0 })
		w.release(name)
		w.waitGone(name)
	}
}

func TestEvictionIsADeletionThatSaysWhy(t *testing.T) {
	w := newWorld(t)
	w.pod("a", untilTerm, hold)
	w.waitLog("a", "up")
	err := w.client.PolicyV1().Evictions(w.ns).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: w.ns}})
	if err != nil {
		t.Fatal(err)
	}
	p := w.waitPhase("a", corev1.PodSucceeded)
	if c := condition(p, corev1.DisruptionTarget); c.Status != corev1.ConditionTrue || c.Reason != "EvictionByEvictionAPI" {
		t.Errorf("the condition that the eviction wrote: %+v", c)
	}
	w.release("a")
	w.waitGone("a")
}

func TestPreStopHookRunsFirst(t *testing.T) {
	w := newWorld(t)
	w.pod("a", "trap 'test -e /tmp/hook && echo after hook; exit 0' TERM; echo up; while :; do sleep 0.05; done", hold, func(p *corev1.Pod) {
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "sleep 0.3; touch /tmp/hook"}}}}
	})
	w.waitLog("a", "up")
	w.delete("a")
	w.waitPhase("a", corev1.PodSucceeded)
	if got := w.log("a"); !strings.Contains(got, "after hook") {
		t.Errorf("log: %q", got)
	}
	w.release("a")
}

func TestInitContainersRunInOrder(t *testing.T) {
	w := newWorld(t)
	inits := func(scripts ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			mounts := []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
			p.Spec.Containers[0].VolumeMounts = mounts
			for i, s := range scripts {
				p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{
					Name: fmt.Sprintf("init-%d", i), Image: "host", Command: []string{"sh", "-c", s}, VolumeMounts: mounts})
			}
		}
	}
	w.pod("good", "cat /v/log", inits("echo one >> /v/log", "echo two >> /v/log"))
	w.pod("bad", "echo never", inits("exit 3", "echo never"))
	w.waitPhase("good", corev1.PodSucceeded)
	if got := w.log("good"); got != "one\ntwo\n" {
		t.Errorf("log: %q", got)
	}
	bad := w.waitPhase("bad", corev1.PodFailed)
	if s := bad.Status.InitContainerStatuses; s[0].State.Terminated.ExitCode != 3 || s[1].State.Waiting == nil || bad.Status.ContainerStatuses[0].State.Waiting == nil {
		t.Errorf("%+v", bad.Status)
	}
}

func TestProbes(t *testing.T) {
	w := newWorld(t)
	check := func(script string) *corev1.Probe {
		return &corev1.Probe{InitialDelaySeconds: 1, PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}}}
	}
	w.pod("ready", "echo up; sleep 2.5; touch /tmp/ready; while :; do sleep 1; done", func(p *corev1.Pod) { p.Spec.Containers[0].ReadinessProbe = check("test -e /tmp/ready") })
	w.pod("sick", "trap 'exit 9' TERM; while :; do sleep 0.05; done", func(p *corev1.Pod) { p.Spec.Containers[0].LivenessProbe = check("false") })
	w.pod("closed", deaf, func(p *corev1.Pod) {
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}}
	})
	w.waitLog("ready", "up")
	w.waitPod("ready", "unready", func(p *corev1.Pod) bool { return condition(p, corev1.PodReady).Reason == "ContainersNotReady" })
	w.waitPod("ready", "ready", func(p *corev1.Pod) bool { return condition(p, corev1.PodReady).Status == corev1.ConditionTrue })
	if s := terminated(w.waitPhase("sick", corev1.PodFailed)); s.ExitCode != 9 {
		t.Errorf("%+v", s)
	}
	if c := condition(w.waitPhase("closed", corev1.PodRunning), corev1.PodReady); c.Status != corev1.ConditionFalse {
		t.Errorf("a port that nobody listens on: %+v", c)
	}
}

func TestRestartPolicyAlways(t *testing.T) {
	w := newWorld(t)
	w.pod("a", "test -e /v/again && exec sleep 1000; touch /v/again; echo first; exit 4", func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	})
	p := w.waitPod("a", "restarted", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].RestartCount == 1 && s[0].State.Running != nil
	})
	if last := p.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 4 {
		t.Errorf("%+v", p.Status.ContainerStatuses[0])
	}
	b, err := w.client.CoreV1().Pods(w.ns).GetLogs("a", &corev1.PodLogOptions{Previous: true}).DoRaw(t.Context())
	if err != nil || string(b) != "first\n" {
		t.Errorf("log of the first run: %q, %v", b, err)
	}
}

func TestUsersOfContainers(t *testing.T) {
	w := newWorld(t)
	uid, gid := int64(4711), int64(4712)
	w.pod("a", "id -u; id -g; touch /tmp/mine && echo writes", func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &uid, RunAsGroup: &gid}
	})
	if os.Getuid() != 0 {
		w.waitPod("a", "refused", func(p *corev1.Pod) bool {
			s := p.Status.ContainerStatuses
			return len(s) == 1 && s[0].State.Waiting != nil && strings.Contains(s[0].State.Waiting.Message, "runAsUser 4711")
		})
		return
	}
	w.waitPhase("a", corev1.PodSucceeded)
	if got := w.log("a"); got != "4711\n4712\nwrites\n" {
		t.Errorf("log: %q", got)
	}
}
