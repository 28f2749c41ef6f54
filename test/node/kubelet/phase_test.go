package kubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rtj.dev/rtj/test/node/sandbox"
)

// What a container is, in the tables below: a running one, one that was never
// started, or one that ended with a code.
const (
	runs    = -1
	waits   = -2
	restart = -3 // waits to be started again
)

func containers(states []int, init bool) []*container {
	var all []*container
	for _, s := range states {
		c := &container{spec: &corev1.Container{Name: "c"}, init: init}
		switch s {
		case runs:
			c.box = &sandbox.Container{}
		case waits:
		case restart:
			c.last = &sandbox.Exit{Code: 1}
		default:
			c.box, c.exit = &sandbox.Container{}, &sandbox.Exit{Code: s}
		}
		all = append(all, c)
	}
	return all
}

func TestPhase(t *testing.T) {
	const (
		never     = corev1.RestartPolicyNever
		onFailure = corev1.RestartPolicyOnFailure
		always    = corev1.RestartPolicyAlways
	)
	deleted, deadline := &ending{}, &ending{reason: "DeadlineExceeded"}
	for _, c := range []struct {
		name   string
		policy corev1.RestartPolicy
		inits  []int
		mains  []int
		ending *ending
		want   corev1.PodPhase
	}{
		{"nothing started", never, nil, []int{waits}, nil, corev1.PodPending},
		{"one of two started", never, nil, []int{runs, waits}, nil, corev1.PodPending},
		{"all run", never, nil, []int{runs, runs}, nil, corev1.PodRunning},
		{"one ended, one runs", never, nil, []int{1, runs}, nil, corev1.PodRunning},
		{"all well", never, nil, []int{0, 0}, nil, corev1.PodSucceeded},
		{"one failed", never, nil, []int{0, 1}, nil, corev1.PodFailed},
		{"will be restarted", onFailure, nil, []int{1}, nil, corev1.PodRunning},
		{"is being restarted", onFailure, nil, []int{restart}, nil, corev1.PodRunning},
		{"done under OnFailure", onFailure, nil, []int{0}, nil, corev1.PodSucceeded},
		{"done under Always", always, nil, []int{0}, nil, corev1.PodRunning},
		{"init runs", never, []int{runs}, []int{waits}, nil, corev1.PodPending},
		{"init done", never, []int{0}, []int{runs}, nil, corev1.PodRunning},
		{"init failed", never, []int{1, waits}, []int{waits}, nil, corev1.PodFailed},
		{"init will be restarted", onFailure, []int{1}, []int{waits}, nil, corev1.PodPending},
		{"deleted, still runs", never, nil, []int{runs}, deleted, corev1.PodRunning},
		{"deleted, all well", never, nil, []int{0}, deleted, corev1.PodSucceeded},
		{"deleted, all well under Always", always, nil, []int{0}, deleted, corev1.PodSucceeded},
		{"deleted, killed", never, nil, []int{137}, deleted, corev1.PodFailed},
		{"deleted before it started", never, nil, []int{waits}, deleted, corev1.PodFailed},
		{"deleted before one of two started", never, nil, []int{0, waits}, deleted, corev1.PodFailed},
		{"deleted while an init waited", never, []int{waits}, []int{waits}, deleted, corev1.PodFailed},
		{"deadline over, all well", never, nil, []int{0}, deadline, corev1.PodFailed},
	} {
		w := &worker{pod: &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: c.policy}}, ending: c.ending,
			inits: containers(c.inits, true), mains: containers(c.mains, false)}
		if got := w.phase(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestConditionsChangeTimeOnlyWithTheirStatus(t *testing.T) {
	s := &corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: "Foreign", Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Old"}}}
	setCondition(s, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "New"})
	if c := s.Conditions[1]; c.Reason != "New" || !c.LastTransitionTime.IsZero() {
		t.Errorf("%+v", c)
	}
	setCondition(s, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	if c := s.Conditions[1]; c.LastTransitionTime.IsZero() || len(s.Conditions) != 2 {
		t.Errorf("%+v", s.Conditions)
	}
}

func TestBackOffDoublesFromTheSecondRestartOn(t *testing.T) {
	w := &worker{}
	end := &sandbox.Exit{Code: 1, FinishedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for attempt, want := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute} {
		c := &container{spec: &corev1.Container{Name: "c"}, attempt: attempt}
		if got := w.backOff(c, end).retry.Sub(end.FinishedAt); got != want {
			t.Errorf("after attempt %d: %s, want %s", attempt, got, want)
		}
	}
	if got := w.backOff(&container{spec: &corev1.Container{}, attempt: 40}, end).retry.Sub(end.FinishedAt); got != 5*time.Minute {
		t.Errorf("after many: %s", got)
	}
}
