package kubelet

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/util/pod"

	"rtj.dev/rtj/test/node/sandbox"
)

// Limits of a container's termination message, as of a kubelet.
const (
	maxMessage      = 4096
	maxMessageOfLog = 2048
)

// report writes the pod's status, if it is not what it should be. Conditions
// and fields of others are kept.
func (w *worker) report(ctx context.Context) error {
	if equality.Semantic.DeepEqual(w.status(&w.pod.Status), &w.pod.Status) {
		return nil
	}
	live, err := w.client.CoreV1().Pods(w.rec.Namespace).Get(ctx, w.rec.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && live.UID != w.rec.UID {
		return nil // the watch will say so
	}
	if err != nil {
		return err
	}
	patched, _, unchanged, err := podutil.PatchPodStatus(ctx, w.client, w.rec.Namespace, w.rec.Name, w.rec.UID, live.Status, *w.status(&live.Status))
	if err != nil {
		return err
	}
	if unchanged {
		patched = live
	}
	// Only the status: whether anything else changed is for the next step,
	// which compares with what containers were last told.
	known := *w.pod
	known.Status = patched.Status
	w.pod = &known
	w.update(patched)
	return nil
}

// status is what the pod's status should be, given what it is.
func (w *worker) status(old *corev1.PodStatus) *corev1.PodStatus {
	s := old.DeepCopy()
	if s.Phase != corev1.PodSucceeded && s.Phase != corev1.PodFailed {
		s.Phase = w.phase()
		if s.Phase == corev1.PodFailed && w.ending != nil && w.ending.reason != "" {
			s.Reason, s.Message = w.ending.reason, w.ending.message
		}
	}
	if s.StartTime == nil {
		now := metav1.Now().Rfc3339Copy()
		s.StartTime = &now
	}
	s.HostIP, s.HostIPs = w.nodeIP.String(), []corev1.HostIP{{IP: w.nodeIP.String()}}
	s.PodIP, s.PodIPs = w.rec.IP.String(), []corev1.PodIP{{IP: w.rec.IP.String()}}
	s.InitContainerStatuses = w.containerStatuses(w.inits)
	s.ContainerStatuses = w.containerStatuses(w.mains)
	for _, c := range w.conditions(s) {
		setCondition(s, c)
	}
	return s
}

// phase is the pod's phase by what is known about its containers.
func (w *worker) phase() corev1.PodPhase {
	running := w.anyRunning()
	if w.ending != nil && !running && w.ending.reason != "" {
		return corev1.PodFailed
	}
	for _, c := range w.inits {
		end := c.ended()
		switch {
		case end != nil && end.Code == 0:
		case end != nil && !w.restarts(c, end), w.ending != nil && !running:
			return corev1.PodFailed
		default:
			return corev1.PodPending
		}
	}
	waiting, restarting, failed := 0, 0, 0
	for _, c := range w.mains {
		end := c.ended()
		switch {
		case c.running():
		case end == nil && c.last != nil:
			restarting++
		case end == nil:
			waiting++
		case w.ending == nil && w.restarts(c, end):
			restarting++
		case end.Code != 0:
			failed++
		}
	}
	switch {
	case w.ending != nil && !running:
		if waiting+restarting+failed > 0 {
			return corev1.PodFailed
		}
		return corev1.PodSucceeded
	case waiting > 0:
		return corev1.PodPending
	case running || restarting > 0:
		return corev1.PodRunning
	case failed > 0:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

// over says that no container of the pod will ever run again.
func (w *worker) over() bool {
	p := w.phase()
	return !w.anyRunning() && (p == corev1.PodSucceeded || p == corev1.PodFailed)
}

func (w *worker) initialized() bool {
	for _, c := range w.inits {
		if end := c.ended(); end == nil || end.Code != 0 {
			return false
		}
	}
	return true
}

func (w *worker) containerStatuses(all []*container) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for _, c := range all {
		s := corev1.ContainerStatus{
			Name: c.spec.Name, Image: c.spec.Image, RestartCount: int32(c.attempt),
		}
		started := w.started(c)
		s.Started, s.Ready = &started, w.ready(c)
		end := c.ended()
		switch {
		case c.running():
			s.State.Running = &corev1.ContainerStateRunning{StartedAt: stamp(c.box.Run().StartedAt)}
		case c.known != nil:
			s.State.Terminated = c.known
		case end != nil && c.restart != nil && w.ending == nil:
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: c.restart.reason, Message: c.restart.message}
			s.LastTerminationState.Terminated = w.terminated(c, end, c.box, c.attempt)
		case end != nil:
			s.State.Terminated = w.terminated(c, end, c.box, c.attempt)
		default:
			s.State.Waiting = w.why(c)
		}
		if c.last != nil && s.LastTerminationState.Terminated == nil {
			s.LastTerminationState.Terminated = w.terminated(c, c.last, nil, c.attempt-1)
			s.LastTerminationState.Terminated.StartedAt = stamp(c.lastRun.StartedAt)
		}
		if c.box != nil {
			s.ContainerID = w.containerID(c, c.attempt)
			s.ImageID = "process://" + c.spec.Image
		}
		list = append(list, s)
	}
	return list
}

func (w *worker) containerID(c *container, attempt int) string {
	return fmt.Sprintf("process://%s/%s/%d", w.rec.UID, c.spec.Name, attempt)
}

func (w *worker) why(c *container) *corev1.ContainerStateWaiting {
	switch {
	case w.blocked != nil && !w.mounted:
		return &corev1.ContainerStateWaiting{Reason: w.blocked.reason, Message: w.blocked.message}
	case c.waiting != nil:
		return &corev1.ContainerStateWaiting{Reason: c.waiting.reason, Message: c.waiting.message}
	case !w.initialized():
		return &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	}
	return &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
}

func (w *worker) terminated(c *container, end *sandbox.Exit, box *sandbox.Container, attempt int) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{
		ExitCode: int32(end.Code), FinishedAt: stamp(end.FinishedAt), ContainerID: w.containerID(c, attempt), Reason: "Error",
	}
	if box != nil {
		t.StartedAt = stamp(box.Run().StartedAt)
	}
	switch {
	case end.StartError != "":
		t.Reason, t.Message = "StartError", end.StartError
		return t
	case end.Lost:
		t.Reason, t.Message = "ContainerStatusUnknown", "The container could not be located when the pod was looked at: its shim was killed, its state was deleted, or the machine was restarted."
		return t
	case end.Code == 0:
		t.Reason = "Completed"
	}
	if box != nil {
		t.Message = w.terminationMessage(c, box, end)
	}
	return t
}

func (w *worker) terminationMessage(c *container, box *sandbox.Container, end *sandbox.Exit) string {
	if b, err := readTail(w.terminationPath(c), maxMessage); err == nil && len(b) > 0 {
		return string(b)
	}
	if end.Code == 0 || c.spec.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return ""
	}
	b, err := readTail(filepath.Join(box.Dir(), sandbox.LogFile), maxMessageOfLog)
	if err != nil {
		return ""
	}
	return string(b)
}

// readTail reads the last n bytes of a file, as valid UTF-8.
func readTail(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-n), n))
	return []byte(strings.ToValidUTF8(string(b), "\uFFFD")), err
}

// conditions are those that a kubelet owns.
func (w *worker) conditions(s *corev1.PodStatus) []corev1.PodCondition {
	condition := func(t corev1.PodConditionType, ok bool, reason, message string) corev1.PodCondition {
		c := corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: message}
		if !ok {
			c.Status = corev1.ConditionFalse
		}
		return c
	}
	list := []corev1.PodCondition{
		condition(corev1.PodReadyToStartContainers, w.mounted && !finishedPhase(s.Phase), "", ""),
	}
	scheduled := false
	for _, c := range s.Conditions {
		scheduled = scheduled || c.Type == corev1.PodScheduled
	}
	if !scheduled {
		list = append(list, condition(corev1.PodScheduled, true, "", ""))
	}
	var uninitialized, unready []string
	for _, c := range w.inits {
		if end := c.ended(); end == nil || end.Code != 0 {
			uninitialized = append(uninitialized, c.spec.Name)
		}
	}
	for _, c := range w.mains {
		if !w.ready(c) {
			unready = append(unready, c.spec.Name)
		}
	}
	switch {
	case s.Phase == corev1.PodSucceeded:
		list = append(list, condition(corev1.PodInitialized, true, "PodCompleted", ""))
	case len(uninitialized) > 0:
		list = append(list, condition(corev1.PodInitialized, false, "ContainersNotInitialized", fmt.Sprintf("containers with incomplete status: %s", uninitialized)))
	default:
		list = append(list, condition(corev1.PodInitialized, true, "", ""))
	}
	ready, reason, message := false, "", ""
	switch {
	case s.Phase == corev1.PodSucceeded:
		reason = "PodCompleted"
	case s.Phase == corev1.PodFailed:
		reason = "PodFailed"
	case len(unready) > 0:
		reason, message = "ContainersNotReady", fmt.Sprintf("containers with unready status: %s", unready)
	default:
		ready = true
	}
	list = append(list, condition(corev1.ContainersReady, ready, reason, message))
	for _, gate := range w.pod.Spec.ReadinessGates {
		if ready && !isConditionTrue(s, gate.ConditionType) {
			ready, reason, message = false, "ReadinessGatesNotReady", fmt.Sprintf("corresponding condition of pod readiness gate %q is not True", gate.ConditionType)
		}
	}
	return append(list, condition(corev1.PodReady, ready, reason, message))
}

func isConditionTrue(s *corev1.PodStatus, t corev1.PodConditionType) bool {
	for _, c := range s.Conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// setCondition changes the transition time only with the status.
func setCondition(s *corev1.PodStatus, c corev1.PodCondition) {
	for i := range s.Conditions {
		old := &s.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		} else {
			c.LastTransitionTime = metav1.Now().Rfc3339Copy()
		}
		c.LastProbeTime, c.ObservedGeneration = old.LastProbeTime, old.ObservedGeneration
		*old = c
		return
	}
	c.LastTransitionTime = metav1.Now().Rfc3339Copy()
	s.Conditions = append(s.Conditions, c)
}

func finishedPhase(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }

// stamp is a time with the precision that the API keeps.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t).Rfc3339Copy() }
