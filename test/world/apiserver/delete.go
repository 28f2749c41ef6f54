package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Propagation says what becomes of the objects that a deleted one owns.
type Propagation int

const (
	// Background: the object goes at once, and the garbage collector deletes what it
	// owned.
	Background Propagation = iota
	// Foreground: the object stays until the garbage collector has deleted what it owns
	// and blocks it.
	Foreground
	// Orphan leaves what it owned.
	Orphan
)

// Deletion says how an object is deleted.
type Deletion struct {
	// UID and Version, where set, are preconditions.
	UID         string
	Version     int64
	Propagation Propagation
	// Grace is the period that a pod gets, in seconds; nil: its own. 0 is what its
	// kubelet says when the processes are gone.
	Grace *int64
}

// Delete deletes an object.
func (s *Server) Delete(by, kind, namespace, name string, d Deletion) error {
	old := s.Get(kind, namespace, name)
	if old == nil {
		return apierrors.NewNotFound(resource(kind), name)
	}
	if d.UID != "" && d.UID != old.UID || d.Version != 0 && d.Version != old.Version {
		return apierrors.NewConflict(resource(kind), name, fmt.Errorf("precondition failed: uid is %s, resourceVersion is %d", old.UID, old.Version))
	}
	if err := s.check(kind, old, nil); err != nil {
		return err
	}
	finalizers := old.Finalizers()
	switch d.Propagation {
	case Foreground:
		finalizers = with(finalizers, metav1.FinalizerDeleteDependents)
	case Orphan:
		s.orphan(by, old)
	}
	grace := int64(0)
	if kind == "Pod" {
		grace = gracePeriod(old, d.Grace)
	}
	if kind == "Namespace" {
		finalizers = with(finalizers, namespaceFinalizer)
	}
	if grace == 0 && len(finalizers) == 0 {
		s.store(by, old, nil)
		return nil
	}
	at := s.now().Add(time.Duration(grace) * time.Second).UTC().Format(time.RFC3339)
	if old.Deleting() {
		if was := old.Int("metadata", "deletionGracePeriodSeconds"); grace >= was && len(finalizers) == len(old.Finalizers()) {
			return nil // an earlier deletion stands
		}
	}
	body := maps.Clone(old.Body)
	meta := maps.Clone(body["metadata"].(map[string]any))
	body["metadata"] = meta
	if at < old.Text("metadata", "deletionTimestamp") || !old.Deleting() {
		meta["deletionTimestamp"] = at
	}
	meta["deletionGracePeriodSeconds"] = grace
	if len(finalizers) > 0 {
		list := make([]any, len(finalizers))
		for i, f := range finalizers {
			list[i] = f
		}
		meta["finalizers"] = list
	}
	meta["resourceVersion"] = strconv.FormatInt(s.revision+1, 10)
	if !old.Deleting() {
		meta["generation"] = old.Generation + 1
	}
	s.revision++
	s.store(by, old, newObject(body, old))
	return nil
}

func with(list []string, one string) []string {
	if slices.Contains(list, one) {
		return list
	}
	return append(slices.Clone(list), one)
}

// gracePeriod of a pod, in seconds: none if no kubelet has it, or it has ended.
func gracePeriod(pod *Object, asked *int64) int64 {
	if phase := pod.Text("status", "phase"); pod.Text("spec", "nodeName") == "" || phase == "Succeeded" || phase == "Failed" {
		return 0
	}
	switch {
	case asked != nil:
		return max(*asked, 0)
	case pod.At("spec", "terminationGracePeriodSeconds") != nil:
		return pod.Int("spec", "terminationGracePeriodSeconds")
	}
	return 30
}

// orphan removes the owner from what it owns.
func (s *Server) orphan(by string, owner *Object) {
	for _, kind := range s.Kinds() {
		for _, o := range s.List(kind) {
			if !slices.Contains(o.owners, owner.UID) {
				continue
			}
			_, err := s.Update(by, o, "", func(body map[string]any) {
				meta := body["metadata"].(map[string]any)
				list, _ := meta["ownerReferences"].([]any)
				meta["ownerReferences"] = slices.DeleteFunc(list, func(item any) bool {
					r, ok := item.(map[string]any)
					return ok && r["uid"] == owner.UID
				})
			})
			if err != nil {
				panic(errors.Join(errors.New("orphaning"), err)) // nothing came between
			}
		}
	}
}
