package compose

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
)

const (
	workloadAPI  = "kueue.x-k8s.io/v1beta2"
	workloadKind = "Workload"
)

// workloadChildren are the Workloads that should exist. One is left out only
// when it holds no quota.
func (s *situation) workloadChildren() []Child {
	var children []Child
	for _, w := range s.leftover {
		if w.reserved() {
			children = append(children, keepWorkload(w))
		}
	}
	if child := first(s, "workload", workloads); child != nil {
		children = append(children, *child)
	}
	return children
}

var workloads = []rule[*Child]{
	{name: "Terminal", when: (*situation).terminal, then: (*situation).workloadAsObserved},
	{name: "HoldsQuota", when: func(s *situation) bool { return s.workload.reserved() }, then: (*situation).reservedWorkload},
	{name: "Deleted", when: func(s *situation) bool { return s.deleting }, then: nothing[*Child]},
	{name: "Paused", when: func(s *situation) bool { return s.spec.Suspend && !s.live() && s.judged() }, then: nothing[*Child]},
	{name: "FinishedByOthers", when: func(s *situation) bool {
		return s.workload != nil && s.workload.finished() && s.judged() && !s.endsHere()
	}, then: nothing[*Child]},
	{name: "Waits", when: func(s *situation) bool { return s.workload != nil }, then: (*situation).unreservedWorkload},
	{name: "AttemptStands", when: func(s *situation) bool { return s.attempt != nil && !s.ended() }, then: nothing[*Child]},
	{name: "VerdictPending", when: func(s *situation) bool { return !s.judged() }, then: nothing[*Child]},
	{name: "EndsHere", when: (*situation).endsHere, then: nothing[*Child]},
	{name: "EndNotRemembered", when: func(s *situation) bool { return s.attempt != nil && !s.endStands() }, then: nothing[*Child]},
	{name: "LeftoverHoldsQuota", when: func(s *situation) bool { return len(s.leftover) > 0 }, then: nothing[*Child]},
	{name: "NotReady", when: func(s *situation) bool { return s.spec.Suspend || s.missing().reason != "" }, then: nothing[*Child],
		why: func(s *situation) string { return s.missing().reason }},
	{name: "OnHold", when: (*situation).holding, then: nothing[*Child],
		why: func(s *situation) string { return s.next.Hold.Reason }},
	{name: "Queues", when: always, then: (*situation).newWorkload},
}

func keepWorkload(w *Workload) Child {
	return Child{APIVersion: workloadAPI, Kind: workloadKind, Name: w.Meta.Name, Observed: w.Raw}
}

func (s *situation) workloadAsObserved() *Child {
	if s.workload == nil {
		return nil
	}
	child := keepWorkload(s.workload)
	return &child
}

// reservedWorkload: podSets and queue cannot change. A renamed priority class
// applies at once, but not between reservation and claim, where it would make
// the admission look like one of an older generation.
func (s *situation) reservedWorkload() *Child {
	child := s.workloadAsObserved()
	if s.claimed() {
		child.Set = s.priorityChanges()
	}
	return child
}

func (s *situation) unreservedWorkload() *Child {
	child := s.workloadAsObserved()
	if s.workload.finished() || !s.workload.active() {
		return child
	}
	if sets := s.podSets(); !s.shapeMarked(sets) {
		child.Set = append(child.Set,
			Field{Path: []string{"metadata", "annotations", v1beta1.AnnotationShape}, Value: s.shapeMark(sets)},
			Field{Path: []string{"spec", "podSets"}, Value: plain(sets)})
	}
	if s.workload.Spec.QueueName != s.spec.QueueName {
		child.Set = append(child.Set, Field{Path: []string{"spec", "queueName"}, Value: s.spec.QueueName})
	}
	child.Set = append(child.Set, s.priorityChanges()...)
	return child
}

// shapeMarked reports whether the Workload was written for the shape of now.
func (s *situation) shapeMarked(sets []kueue.PodSet) bool {
	generation, sum := splitMark(s.workload.Meta.Annotations[v1beta1.AnnotationShape])
	return generation == s.Parent.Generation || sum == shapeHash(sets)
}

// priorityChanges follow the class that the spec names. A class that does not
// exist changes nothing.
func (s *situation) priorityChanges() []Field {
	name := ""
	if ref := s.workload.Spec.PriorityClassRef; ref != nil {
		name = ref.Name
	}
	if s.spec.PriorityClassName == name {
		return nil
	}
	if s.spec.PriorityClassName == "" {
		return []Field{{Path: []string{"spec", "priorityClassRef"}}, {Path: []string{"spec", "priority"}}}
	}
	class := s.priorityClass()
	if class == nil {
		return nil
	}
	return []Field{
		{Path: []string{"spec", "priorityClassRef"}, Value: plain(priorityRef(class.Meta.Name))},
		{Path: []string{"spec", "priority"}, Value: int64(class.Value)},
	}
}

func priorityRef(name string) *kueue.PriorityClassRef {
	return &kueue.PriorityClassRef{Group: kueue.WorkloadPriorityClassGroup, Kind: kueue.WorkloadPriorityClassKind, Name: name}
}

func (s *situation) priorityClass() *PriorityClass {
	for i := range s.PriorityClasses {
		if s.PriorityClasses[i].Meta.Name == s.spec.PriorityClassName {
			return &s.PriorityClasses[i]
		}
	}
	return nil
}

func (s *situation) newWorkload() *Child {
	sets := s.podSets()
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Name: workloadName(s.Parent.Name, s.next.WorkloadNumber), Namespace: s.Parent.Namespace,
			Labels: map[string]string{
				v1beta1.LabelUID: string(s.Parent.UID),
				// Kueue names the job by it in preemption messages.
				"kueue.x-k8s.io/job-uid": string(s.Parent.UID),
			},
			Annotations: map[string]string{v1beta1.AnnotationShape: s.shapeMark(sets)},
		},
		Spec: kueue.WorkloadSpec{PodSets: sets, QueueName: kueue.LocalQueueName(s.spec.QueueName)},
	}
	if class := s.priorityClass(); class != nil {
		value := class.Value
		w.Spec.PriorityClassRef, w.Spec.Priority = priorityRef(class.Meta.Name), &value
	}
	return &Child{APIVersion: workloadAPI, Kind: workloadKind, Name: w.Name, New: w}
}

// plain turns typed values into what JSON has.
func plain(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	if json.Unmarshal(text, &out) != nil {
		return nil
	}
	return out
}
