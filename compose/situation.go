package compose

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose/checkpoint"
)

// situation is an observation with what follows from it. It is gathered once;
// the rules read it.
type situation struct {
	*Observation
	decision *Decision
	deleting bool

	spec *v1beta1.ResumableTrainingJobSpec
	// was is the status as observed, next the one to be written.
	was, next *v1beta1.ResumableTrainingJobStatus

	// workload is <name>-w<k> for the k of status; nil when it is not there.
	workload *Workload
	// leftover are Workloads of a lower k.
	leftover []*Workload
	// reservation of the workload, zero while it holds no quota.
	reservation reservation
	// claim in the workload, nil when there is none.
	claim *claim

	// attempt is the current one: the highest that was claimed or ran. It is nil
	// before the first.
	attempt *attempt
	// prepared is a JobSet that never ran, of a number above the current attempt's.
	prepared *JobSet
	// older attempts, newest first.
	older []*attempt

	// yield is the request that the current attempt ends; nil when there is none.
	yield *yield
	// document is the observed control document of any attempt.
	document *controlDocument

	// launch is what the launch table decided.
	launch launch
	// asked caches the choice of a checkpoint.
	asked *choice
	// wake is when to look again; zero: never.
	wake time.Time
}

func gather(o *Observation, deleting bool) *situation {
	s := &situation{
		Observation: o,
		decision:    &Decision{Rules: make([]Match, 0, 16)},
		deleting:    deleting,
		spec:        &o.Parent.Spec,
		was:         &o.Parent.Status,
		next:        statusToChange(&o.Parent.Status),
	}
	s.next.ObservedGeneration = o.Parent.Generation
	s.gatherWorkloads()
	s.gatherAttempts()
	s.document = readControl(o.Control)
	s.gatherYield()
	return s
}

// statusToChange is a copy of the observed status. It shares what a decision only ever
// replaces as a whole.
func statusToChange(was *v1beta1.ResumableTrainingJobStatus) *v1beta1.ResumableTrainingJobStatus {
	next := *was
	next.Conditions, next.Ledger = slices.Clone(was.Conditions), slices.Clone(was.Ledger)
	next.Forced, next.RestoreFailures = slices.Clone(was.Forced), slices.Clone(was.RestoreFailures)
	if end := was.LastEnd; end != nil {
		copied := *end
		next.LastEnd = &copied
	}
	if from := was.Checkpoint.RestoredFrom; from != nil {
		copied := *from
		next.Checkpoint.RestoredFrom = &copied
	}
	return &next
}

func workloadName(rtj string, k int32) string { return rtj + "-w" + strconv.Itoa(int(k)) }

// workloadNumber reads k from a Workload's name; 0 when it is not of the form.
func workloadNumber(rtj, name string) int32 {
	digits, ok := strings.CutPrefix(name, rtj+"-w")
	if !ok {
		return 0
	}
	return numberIn(digits)
}

// gatherWorkloads finds the Workload that counts. One of a higher number is only
// made once status says the number, so it tells that the status is an older one.
func (s *situation) gatherWorkloads() {
	s.next.WorkloadNumber = max(s.was.WorkloadNumber, 1)
	for i := range s.Workloads {
		s.next.WorkloadNumber = max(s.next.WorkloadNumber, workloadNumber(s.Parent.Name, s.Workloads[i].Meta.Name))
	}
	current := workloadName(s.Parent.Name, s.next.WorkloadNumber)
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if w.Meta.Name == current {
			s.workload = w
			s.reservation = w.reservation()
			s.claim = w.claim()
		} else {
			s.leftover = append(s.leftover, w)
		}
	}
	slices.SortFunc(s.leftover, func(a, b *Workload) int { return strings.Compare(a.Meta.Name, b.Meta.Name) })
}

func (s *situation) gatherAttempts() {
	number := s.was.Attempt
	for i := range s.JobSets {
		// The claim stands before status does: it is what makes the attempt exist.
		if j := &s.JobSets[i]; j.ran() || s.isClaimed(j) {
			number = max(number, attemptNumber(s.Parent.Name, j.Meta.Name))
		}
	}
	if number > 0 {
		s.attempt = &attempt{number: number}
	}
	for i := range s.JobSets {
		j := &s.JobSets[i]
		n := attemptNumber(s.Parent.Name, j.Meta.Name)
		switch {
		case s.attempt != nil && n == number:
			if !s.isImpostor(n, j) {
				s.attempt.jobset = j
			}
		case n > number && (s.prepared == nil || n > attemptNumber(s.Parent.Name, s.prepared.Meta.Name)):
			s.prepared = j
		case n > 0 && n < number:
			s.older = append(s.older, &attempt{number: n, jobset: j})
		}
	}
	slices.SortFunc(s.older, func(a, b *attempt) int { return cmp.Compare(b.number, a.number) })
	s.gatherJobs()
}

func (s *situation) gatherJobs() {
	for i := range s.Jobs {
		n := attemptNumber(s.Parent.Name, s.Jobs[i].Meta.Labels["jobset.sigs.k8s.io/jobset-name"])
		if s.attempt != nil && n == s.attempt.number {
			s.attempt.jobs = append(s.attempt.jobs, &s.Jobs[i])
			continue
		}
		for _, a := range s.older {
			if a.number == n {
				a.jobs = append(a.jobs, &s.Jobs[i])
			}
		}
	}
	if s.attempt != nil {
		slices.SortFunc(s.attempt.jobs, func(a, b *Job) int { return strings.Compare(a.Meta.Name, b.Meta.Name) })
	}
}

// claimIsCurrent reports whether the claim is of the reservation that stands.
func (s *situation) claimIsCurrent() bool {
	return s.claim != nil && s.workload.reserved() && s.claim.equal(s.reservation)
}

// isClaimed reports whether the claim that stands is of the JobSet, which was
// built for the same reservation.
func (s *situation) isClaimed(j *JobSet) bool {
	return s.claimIsCurrent() && s.claim.isOf(attemptNumber(s.Parent.Name, j.Meta.Name), j) && j.builtFor().equal(s.reservation)
}

// isImpostor reports whether a JobSet of attempt n was made after the one that was
// claimed, upon an older view of the parent: it must not run in its place.
func (s *situation) isImpostor(n int32, j *JobSet) bool {
	return !j.ran() && s.claim != nil && s.claim.Attempt == n && !s.claim.isOf(n, j)
}

// claimed reports whether the current attempt holds the claim of the reservation.
func (s *situation) claimed() bool {
	return s.attempt != nil && s.claimIsCurrent() && s.claim.Attempt == s.attempt.number
}

// terminal reports whether the job ended for good, in the observed status.
func (s *situation) terminal() bool { return s.was.Phase.Terminal() }

// ended reports whether the end of the current attempt was observed, now or earlier.
func (s *situation) ended() bool {
	return s.attempt == nil || s.next.LastEnd != nil && s.next.LastEnd.Attempt >= s.attempt.number
}

// judged reports whether the current attempt ended and its outcome is known.
func (s *situation) judged() bool {
	return s.attempt == nil || s.ended() && s.next.LastEnd.Outcome != ""
}

// endStands reports whether the judged end stands in the observed status.
func (s *situation) endStands() bool {
	return s.attempt != nil && s.was.LastEnd != nil &&
		s.was.LastEnd.Attempt >= s.attempt.number && s.was.LastEnd.Outcome != ""
}

// live reports whether the current attempt ran and has not ended.
func (s *situation) live() bool { return s.attempt != nil && s.attempt.ran() && !s.ended() }

// unstarted reports whether the current attempt was claimed and its JobSet,
// which is there, never ran.
func (s *situation) unstarted() bool {
	return s.attempt != nil && !s.ended() && s.attempt.jobset != nil && !s.attempt.jobset.ran()
}

func (s *situation) forced(n int32) bool {
	return slices.ContainsFunc(s.was.Forced, func(f v1beta1.ForcedAttempt) bool { return f.Attempt == n })
}

// records of the current attempt in the store.
func (s *situation) records() checkpoint.Records {
	if s.attempt == nil || s.Catalog == nil {
		return checkpoint.Records{}
	}
	return s.Catalog.Attempts[s.attempt.number]
}

// wakeAt asks to look again at the time, if nothing happens before.
func (s *situation) wakeAt(t time.Time) {
	if s.wake.IsZero() || t.Before(s.wake) {
		s.wake = t
	}
}

// reached reports whether the time has come; until then it asks to look again at it.
func (s *situation) reached(t time.Time) bool {
	if s.Now.Before(t) {
		s.wakeAt(t)
		return false
	}
	return true
}

func (s *situation) wakeAfter(d time.Duration) { s.wakeAt(s.Now.Add(d)) }

// wantCatalog asks for a reading of the store that begins at the time or later;
// for a time to come it asks to look again then.
func (s *situation) wantCatalog(notBefore time.Time) {
	if notBefore.After(s.Now) {
		s.wakeAt(notBefore)
		return
	}
	if s.decision.Catalog.NotBefore.Before(notBefore) {
		s.decision.Catalog.NotBefore = notBefore
	}
}

// catalogSince reports whether the newest reading, good or not, began at the
// time or later; where it did not, it asks for one.
func (s *situation) catalogSince(t time.Time) bool {
	if s.Catalog != nil && !s.Catalog.ListedAt.IsZero() && !s.Catalog.ListedAt.Before(t) {
		return true
	}
	s.wantCatalog(t)
	return false
}
