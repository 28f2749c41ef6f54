package compose

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
)

// podSetLaunch is what the admission adds to the pods of one replicatedJob.
type podSetLaunch struct {
	count        int32
	labels       map[string]string
	annotations  map[string]string
	nodeSelector map[string]string
	tolerations  []corev1.Toleration
}

// errNoFlavor: it may not have been seen yet.
var errNoFlavor = errors.New("does not exist")

// errOlderPodSets: Kueue writes an admission without a resourceVersion, so one
// that was made for older podSets can land after our update of them.
var errOlderPodSets = errors.New("the admission is of an older generation of the Workload")

// judgeAdmission judges shape and generation of the admission, and returns what
// it adds to each podSet. The generation is judged once, before the first claim
// of the reservation: while it stands podSets cannot change, and a priority class
// that is renamed does not make it another one.
func (s *situation) judgeAdmission() (map[string]podSetLaunch, error) {
	w := s.workload
	if at := w.condition(kueue.WorkloadQuotaReserved).ObservedGeneration; at != 0 && at != w.Meta.Generation && !s.claimIsCurrent() {
		return nil, fmt.Errorf("%w: it was made at generation %d, the Workload is at %d", errOlderPodSets, at, w.Meta.Generation)
	}
	if w.Status.Admission == nil {
		return nil, errors.New("the Workload has quota reserved and no admission")
	}
	assigned := map[string]PodSetAssignment{}
	for _, a := range w.Status.Admission.PodSetAssignments {
		assigned[a.Name] = a
	}
	sets := map[string]podSetLaunch{}
	for _, set := range w.Spec.PodSets {
		a, ok := assigned[set.Name]
		if !ok {
			return nil, fmt.Errorf("the admission has no podSet %q", set.Name)
		}
		launch, err := s.podSetLaunch(set.Name, set.Count, set.MinCount, a)
		if err != nil {
			return nil, fmt.Errorf("podSet %q: %w", set.Name, err)
		}
		sets[set.Name] = launch
	}
	if len(assigned) != len(sets) {
		return nil, fmt.Errorf("the admission has %d podSets, the Workload has %d", len(assigned), len(sets))
	}
	for _, job := range s.spec.Template.Spec.ReplicatedJobs {
		if _, ok := sets[job.Name]; !ok {
			return nil, fmt.Errorf("the admission has no podSet for replicatedJob %q", job.Name)
		}
	}
	return sets, nil
}

func (s *situation) podSetLaunch(name string, count int32, minCount *int32, a PodSetAssignment) (podSetLaunch, error) {
	launch := podSetLaunch{count: count, labels: map[string]string{}, annotations: map[string]string{}, nodeSelector: map[string]string{}}
	if a.Count != nil {
		launch.count = *a.Count
	}
	least := count
	if minCount != nil {
		least = *minCount
	}
	if launch.count < least || launch.count > count {
		return launch, fmt.Errorf("%d pods were admitted, between %d and %d were asked for", launch.count, least, count)
	}
	for _, resource := range slices.Sorted(maps.Keys(a.Flavors)) {
		flavor := s.flavor(a.Flavors[resource])
		if flavor == nil {
			return launch, fmt.Errorf("ResourceFlavor %q %w", a.Flavors[resource], errNoFlavor)
		}
		if err := merge(launch.nodeSelector, flavor.Spec.NodeLabels, "node label"); err != nil {
			return launch, err
		}
		launch.addTolerations(flavor.Spec.Tolerations)
	}
	for _, check := range s.workload.Status.AdmissionChecks {
		for _, u := range check.PodSetUpdates {
			if u.Name != name {
				continue
			}
			err := errors.Join(merge(launch.labels, u.Labels, "label"), merge(launch.annotations, u.Annotations, "annotation"),
				merge(launch.nodeSelector, u.NodeSelector, "node label"))
			if err != nil {
				return launch, fmt.Errorf("admission check %q: %w", check.Name, err)
			}
			launch.addTolerations(u.Tolerations)
		}
	}
	return launch, nil
}

func (s *situation) flavor(name string) *ResourceFlavor {
	for i := range s.Flavors {
		if s.Flavors[i].Meta.Name == name {
			return &s.Flavors[i]
		}
	}
	return nil
}

func (l *podSetLaunch) addTolerations(more []corev1.Toleration) {
	for _, t := range more {
		if !slices.ContainsFunc(l.tolerations, func(o corev1.Toleration) bool { return o.MatchToleration(&t) }) {
			l.tolerations = append(l.tolerations, t)
		}
	}
}

// merge adds entries; the same key with another value is a conflict, as in Kueue.
func merge(into, from map[string]string, what string) error {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if old, ok := into[key]; ok && old != from[key] {
			return fmt.Errorf("%s %s is %q and %q", what, key, old, from[key])
		}
		into[key] = from[key]
	}
	return nil
}

// recordAdmission brings the admission that attempts are built from into status.
func (s *situation) recordAdmission() {
	w := s.workload
	if !w.reserved() || w.Status.Admission == nil {
		s.next.Admission = nil
		return
	}
	if s.attempt == nil || !s.claimed() {
		// The admission is mirrored once it is used, in the same write as the attempt.
		return
	}
	admission := &v1beta1.AdmissionStatus{
		Workload: w.Meta.Name, ClusterQueue: w.Status.Admission.ClusterQueue,
		ReservedAt: s.reservation.ReservedAt, WorldSize: s.worldSize(),
	}
	for _, a := range w.Status.Admission.PodSetAssignments {
		set := v1beta1.AdmittedPodSet{Name: a.Name, Flavors: a.Flavors}
		if a.Count != nil {
			set.Count = *a.Count
		}
		admission.PodSets = append(admission.PodSets, set)
	}
	s.next.Admission = admission
}
