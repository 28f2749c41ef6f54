//go:build e2e

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/test/node/sandbox"
)

func TestARestartedNodeAdopts(t *testing.T) {
	w := newWorld(t)
	w.pod("runs", untilTerm)
	w.pod("ends", "trap 'exit 5' USR1; echo up; while :; do sleep 0.05; done")
	w.pod("deleted", untilTerm, hold)
	w.pod("gone", deaf)
	ids := map[string]string{}
	for _, name := range []string{"runs", "ends", "deleted", "gone"} {
		w.waitLog(name, "up")
		ids[name] = w.get(name).Status.ContainerStatuses[0].ContainerID
	}
	goneUID := string(w.get("gone").UID)
	w.node.end(syscall.SIGKILL)
	box := func(name string) *sandbox.Container {
		t.Helper()
		c, err := sandbox.Open(filepath.Join(w.node.dir, "pods", strings.Split(ids[name], "/")[2], "containers", "main", "0"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if err := box("ends").Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if _, err := box("ends").Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.delete("deleted")
	zero := int64(0)
	if err := w.client.CoreV1().Pods(w.ns).Delete(t.Context(), "gone", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	w.node.start()
	if s := terminated(w.waitPhase("ends", corev1.PodFailed)); s.ExitCode != 5 {
		t.Errorf("ended while no node ran: %+v", s)
	}
	w.waitPhase("deleted", corev1.PodSucceeded)
	w.release("deleted")
	w.waitGone("deleted")
	w.eventually("the container of a pod that is gone has ended", func() bool { return len(processesWith(goneUID)) == 0 })
	runs := w.get("runs")
	if s := runs.Status.ContainerStatuses[0]; s.State.Running == nil || s.ContainerID != ids["runs"] || s.RestartCount != 0 {
		t.Errorf("not adopted: %+v", s)
	}
	w.delete("runs")
	w.waitGone("runs")
}

func TestALostContainerDoesNotRunTwice(t *testing.T) {
	w := newWorld(t)
	p := w.pod("a", deaf)
	w.waitLog("a", "up")
	w.node.end(syscall.SIGKILL)
	if out, err := w.node.command("cleanup", "--dir="+w.node.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if left := processesWith(string(p.UID)); len(left) > 0 {
		t.Errorf("cleanup left %v", left)
	}
	w.node.start()
	if s := terminated(w.waitPhase("a", corev1.PodFailed)); s.ExitCode != 137 || s.Reason != "ContainerStatusUnknown" {
		t.Errorf("%+v", s)
	}
}

func TestAStoppedNodeIsLostAndComesBack(t *testing.T) {
	w := newWorld(t)
	w.pod("a", untilTerm, hold)
	w.waitLog("a", "up")
	ready := func() corev1.ConditionStatus {
		n, err := w.client.CoreV1().Nodes().Get(t.Context(), w.node.name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status
			}
		}
		return ""
	}
	w.eventually("node ready", func() bool { return ready() == corev1.ConditionTrue })
	if err := w.node.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.delete("a")
	w.eventually("node lost", func() bool { return ready() == corev1.ConditionUnknown })
	if p := w.get("a"); len(processesWith(string(p.UID))) == 0 || p.Status.Phase != corev1.PodRunning {
		t.Error("the container did not outlive its node")
	}
	if err := w.node.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.waitPhase("a", corev1.PodSucceeded)
	w.eventually("node ready again", func() bool { return ready() == corev1.ConditionTrue })
	w.release("a")
	w.waitGone("a")
}

func TestStopContainersOnExit(t *testing.T) {
	w := newWorld(t, "--stop-containers-on-exit")
	p := w.pod("a", deaf)
	w.waitLog("a", "up")
	w.node.end(syscall.SIGTERM)
	if left := processesWith(string(p.UID)); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
}
