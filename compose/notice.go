package compose

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rtj.dev/rtj/api/v1beta1"
)

// notice is what the leader pod's annotation carries; docs/formats.md.
type notice struct {
	SchemaVersion string      `json:"schemaVersion"`
	Kind          string      `json:"kind"`
	Attempt       int32       `json:"attempt"`
	Counter       int         `json:"counter"`
	Yield         noticeYield `json:"yield"`
}

type noticeYield struct {
	ID              int32              `json:"id"`
	Cause           v1beta1.YieldCause `json:"cause"`
	IssuedAt        time.Time          `json:"issuedAt"`
	DurationSeconds float64            `json:"durationSeconds"`
}

// noticeTimes are when the notice is given, counted from the request; after the
// last it is repeated every minute until the workers acknowledge it.
var noticeTimes = []time.Duration{0, time.Second, 5 * time.Second, 15 * time.Second}

const noticePeriod = time.Minute

var notices = []rule[*Pod]{
	{name: "NobodyAsked", when: func(s *situation) bool { return !s.live() || s.yield == nil }, then: nothing[*Pod]},
	{name: "ControlDocumentFirst", when: func(s *situation) bool { return !s.yield.observed && !s.withoutDocument() }, then: nothing[*Pod]},
	{name: "Stopped", when: func(s *situation) bool { return s.next.Yield.SuspendedAt != nil || s.stopDue() || s.attempt.finished() }, then: nothing[*Pod]},
	{name: "Acknowledged", when: (*situation).acknowledged, then: nothing[*Pod]},
	{name: "NoLeader", when: func(s *situation) bool { return s.leader() == nil }, then: nothing[*Pod]},
	{name: "NotDue", when: func(s *situation) bool { return !s.noticeDue() }, then: nothing[*Pod]},
	{name: "Notify", when: always, then: (*situation).leader},
}

// withoutDocument: the control document went before the attempt, in a deletion,
// and nothing may be created any more. The notice says all that it would.
func (s *situation) withoutDocument() bool {
	return s.deleting && s.Control == nil && s.was.Yield != nil && s.was.Yield.Attempt == s.attempt.number
}

func (s *situation) acknowledged() bool {
	p := s.records().Progress
	return p != nil && p.Yield != nil && p.Yield.ID == s.yield.id && p.Yield.AcknowledgedAt != nil
}

// leader is index 0 of job 0 of the trainer's replicatedJob.
func (s *situation) leader() (leader *Pod) {
	for i := range s.LeaderPods {
		p := &s.LeaderPods[i]
		if p.Meta.Labels[v1beta1.LabelAttempt] != number(s.attempt.number) || p.Meta.DeletionTimestamp != nil {
			continue
		}
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if !ended && (leader == nil || p.Meta.Name < leader.Meta.Name) {
			leader = p
		}
	}
	return leader
}

// given is how often the leader pod was told of this yield.
func (s *situation) given(p *Pod) int {
	var n notice
	if json.Unmarshal([]byte(p.Meta.Annotations[v1beta1.AnnotationYield]), &n) != nil || n.Yield.ID != s.yield.id {
		return 0
	}
	return max(n.Counter, 0)
}

func (s *situation) noticeDue() bool {
	given := s.given(s.leader())
	after := noticeTimes[min(given, len(noticeTimes)-1)]
	if extra := given - len(noticeTimes) + 1; extra > 0 {
		after = time.Duration(extra) * noticePeriod
	}
	return s.reached(s.yield.issuedAt.Add(after))
}

// noticePatch tells the leader pod: an annotation reaches it in a fraction of a
// second, where the control document alone takes about a minute.
func (s *situation) noticePatch() *Patch {
	pod := first(s, "notice", notices)
	if pod == nil {
		return nil
	}
	text := encode(notice{
		SchemaVersion: formatVersion, Kind: "Notice", Attempt: s.attempt.number, Counter: s.given(pod) + 1,
		Yield: noticeYield{ID: s.yield.id, Cause: s.yield.cause, IssuedAt: s.yield.issuedAt.UTC(), DurationSeconds: s.yield.deadline.Sub(s.yield.issuedAt).Seconds()},
	})
	return &Patch{
		Name:   "notice",
		Target: Target{APIVersion: "v1", Resource: "pods", Namespace: s.Parent.Namespace, Name: pod.Meta.Name},
		Body:   annotate(pod.Meta.UID, v1beta1.AnnotationYield, text),
	}
}
