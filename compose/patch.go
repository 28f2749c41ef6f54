package compose

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/api/v1beta1"
)

var rtjTarget = Target{APIVersion: v1beta1.GroupVersion.String(), Resource: v1beta1.Resource}

func workloadTarget(w *Workload, subresource string) Target {
	return Target{APIVersion: workloadAPI, Resource: "workloads", Subresource: subresource, Namespace: w.Meta.Namespace, Name: w.Meta.Name}
}

// patches are the writes that are wanted. At most one of them is of the
// Workload, since each carries its resourceVersion.
func (s *situation) patches() []Patch {
	var list []Patch
	if p := s.runIDPatch(); p != nil {
		list = append(list, *p)
	}
	for _, of := range []func(*situation) *Patch{
		(*situation).releasePatch, (*situation).finishPatch, (*situation).queuePatch, (*situation).claimPatch, (*situation).podsReadyPatch,
	} {
		if p := of(s); p != nil {
			list = append(list, *p)
			break
		}
	}
	if p := s.noticePatch(); p != nil {
		list = append(list, *p)
	}
	for i := range list {
		if list[i].NoLivePods != nil {
			s.retryList()
		}
	}
	return list
}

// retryList looks again after a write that the LIST may have stopped: pods are
// not watched, so nothing else would wake us. It waits longer with time.
func (s *situation) retryList() {
	wait := time.Second
	if s.next.LastEnd != nil {
		wait = min(max(s.Now.Sub(s.next.LastEnd.At.Time)/4, wait), 15*time.Second)
	}
	s.wakeAfter(wait)
}

// noLivePods is the LIST: no pod of ours that may still run, but for those of
// attempts that were given up.
func (s *situation) noLivePods() *NoLivePods {
	selector := v1beta1.LabelUID + "=" + string(s.Parent.UID)
	if len(s.was.Forced) > 0 {
		numbers := make([]string, len(s.was.Forced))
		for i, f := range s.was.Forced {
			numbers[i] = strconv.Itoa(int(f.Attempt))
		}
		slices.Sort(numbers)
		selector += "," + v1beta1.LabelAttempt + " notin (" + strings.Join(numbers, ",") + ")"
	}
	return &NoLivePods{Namespace: s.Parent.Namespace, LabelSelector: selector, FieldSelector: "status.phase!=Succeeded,status.phase!=Failed"}
}

// annotate is the merge patch of one annotation, on the object of that UID.
func annotate(uid types.UID, key, value string) json.RawMessage {
	return json.RawMessage(encode(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": map[string]string{key: value}}}))
}
