package compose

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"rtj.dev/rtj/api/v1beta1"
)

// maxAttempt is the largest attempt number: five digits, which the names of
// Jobs and pods have room for.
const maxAttempt = 99999

// attempt is one JobSet and its Jobs.
type attempt struct {
	number int32
	// jobset is nil when it is gone.
	jobset *JobSet
	jobs   []*Job
}

func attemptName(rtj string, n int32) string { return fmt.Sprintf("%s-%d", rtj, n) }

// attemptNumber reads the number from a JobSet's name; 0 when it is not of the form.
func attemptNumber(rtj, name string) int32 {
	digits, ok := strings.CutPrefix(name, rtj+"-")
	if !ok {
		return 0
	}
	return numberIn(digits)
}

// numberIn reads a number as names have it: without sign or leading zeros, and
// of five digits at most. It is 0 when the text is none.
func numberIn(digits string) int32 {
	if digits == "" || digits[0] < '1' || digits[0] > '9' {
		return 0
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n > maxAttempt {
		return 0
	}
	return int32(n)
}

func (j *JobSet) suspended() bool { return j.Spec.Suspend != nil && *j.Spec.Suspend }

// ran reports whether the JobSet was ever started: the annotation is set by the
// update that starts it.
func (j *JobSet) ran() bool {
	return !j.suspended() || j.Meta.Annotations[v1beta1.AnnotationStarted] != ""
}

func (j *JobSet) is(kind jobset.JobSetConditionType) bool {
	return isTrue(j.Status.Conditions, string(kind))
}

func (a *attempt) ran() bool       { return a != nil && a.jobset != nil && a.jobset.ran() }
func (a *attempt) running() bool   { return a.ran() && !a.finished() && !a.jobset.suspended() }
func (a *attempt) completed() bool { return a.jobset != nil && a.jobset.is(jobset.JobSetCompleted) }
func (a *attempt) failed() bool    { return a.jobset != nil && a.jobset.is(jobset.JobSetFailed) }
func (a *attempt) finished() bool  { return a.completed() || a.failed() }

// drained reports whether the Jobs show that no pod is left. It is false when
// that is not known. That Jobs are gone does not mean that pods are; every write
// that relies on it therefore carries the LIST.
func (a *attempt) drained() bool {
	if a.jobset == nil {
		for _, job := range a.jobs {
			if !job.drained() {
				return false
			}
		}
		return true
	}
	if !a.finished() && !a.jobset.suspended() {
		return false
	}
	if len(a.jobs) == 0 && !a.finished() && !a.jobset.is(jobset.JobSetSuspended) {
		// Its controller may be about to make them.
		return false
	}
	if a.countedJobs() > len(a.jobs) {
		return false
	}
	for _, job := range a.jobs {
		if !job.drained() {
			return false
		}
	}
	return true
}

// countedJobs is how many Jobs the JobSet's status counts.
func (a *attempt) countedJobs() int {
	counted := int32(0)
	for _, r := range a.jobset.Status.ReplicatedJobsStatus {
		counted += r.Succeeded + r.Failed + r.Active + r.Suspended
	}
	return int(counted)
}

// wantedJobs is how many Jobs the JobSet makes.
func (a *attempt) wantedJobs() int {
	wanted := int32(0)
	for _, r := range a.jobset.Spec.ReplicatedJobs {
		wanted += r.wanted()
	}
	return int(wanted)
}

// endingSince is since when the attempt ends without having been asked to: its
// JobSet finished, was suspended or deleted, and the pods that are left are being
// stopped. It is zero while it goes on, or while nobody stops them.
func (a *attempt) endingSince() time.Time {
	if a.jobset == nil {
		return a.jobsDeletedAt()
	}
	if at := a.jobset.Meta.DeletionTimestamp; at != nil {
		return at.Time
	}
	for _, kind := range []jobset.JobSetConditionType{jobset.JobSetCompleted, jobset.JobSetFailed} {
		if a.jobset.is(kind) {
			return condition(a.jobset.Status.Conditions, string(kind)).LastTransitionTime.Time
		}
	}
	if a.jobset.suspended() && a.jobset.is(jobset.JobSetSuspended) {
		return condition(a.jobset.Status.Conditions, string(jobset.JobSetSuspended)).LastTransitionTime.Time
	}
	return time.Time{}
}

// jobsDeletedAt is when the last of the Jobs was deleted that are not drained;
// zero when one of them was not.
func (a *attempt) jobsDeletedAt() (last time.Time) {
	for _, job := range a.jobs {
		if job.drained() {
			continue
		}
		at := job.Meta.DeletionTimestamp
		if at == nil {
			return time.Time{}
		}
		if at.After(last) {
			last = at.Time
		}
	}
	return last
}

func (j *Job) is(kind batchv1.JobConditionType) bool {
	return isTrue(j.Status.Conditions, string(kind))
}

// drained: Complete or Failed, or suspended with no pod active or terminating.
// An unset number of terminating pods is not known.
func (j *Job) drained() bool {
	if j.is(batchv1.JobComplete) || j.is(batchv1.JobFailed) {
		return true
	}
	return j.Spec.Suspend != nil && *j.Spec.Suspend && (j.is(batchv1.JobSuspended) || j.ending()) &&
		j.Status.Active == 0 && j.Status.Terminating != nil && *j.Status.Terminating == 0
}

// ending reports whether it is decided how the Job ends, so that it makes no pod any
// more. One that was suspended before its status had a start time stays like this: the
// API server refuses that it is finished, and it is not told as suspended either.
func (j *Job) ending() bool {
	return j.is(batchv1.JobFailureTarget) || j.is(batchv1.JobSuccessCriteriaMet)
}

// suspendedBefore reports whether the Job has been suspended since before the time, as
// far as whole seconds tell.
func (j *Job) suspendedBefore(t time.Time) bool {
	c := condition(j.Status.Conditions, string(batchv1.JobSuspended))
	return c.Status == "True" && !c.LastTransitionTime.After(t)
}

// endingUnasked reports whether the Job shows terminating pods that its own controller
// did not end.
func (j *Job) endingUnasked() bool {
	if j.Status.Terminating == nil || *j.Status.Terminating == 0 {
		return false
	}
	if j.Spec.Suspend != nil && *j.Spec.Suspend {
		return false
	}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		if j.is(kind) {
			return false
		}
	}
	return j.Meta.DeletionTimestamp == nil
}

// endedUnasked reports whether pods of the attempt terminate that nobody asked to end.
func (a *attempt) endedUnasked() bool {
	if a.jobset == nil || a.jobset.suspended() || a.finished() || a.jobset.Meta.DeletionTimestamp != nil {
		return false
	}
	for _, job := range a.jobs {
		if job.endingUnasked() {
			return true
		}
	}
	return false
}

// readyPods counts over all Jobs.
func (a *attempt) readyPods() (ready int32) {
	for _, job := range a.jobs {
		ready += job.Status.Ready
	}
	return ready
}

// allReady reports whether every Job of the JobSet is ready or has succeeded.
func (a *attempt) allReady() bool {
	if a.jobset == nil || a.jobset.suspended() || len(a.jobset.Status.ReplicatedJobsStatus) == 0 {
		return false
	}
	done := map[string]int32{}
	for _, r := range a.jobset.Status.ReplicatedJobsStatus {
		done[r.Name] = r.Ready + r.Succeeded
	}
	for _, r := range a.jobset.Spec.ReplicatedJobs {
		if done[r.Name] < r.wanted() {
			return false
		}
	}
	return true
}

var (
	exitCodeInMessage = regexp.MustCompile(`exit code (\d+)`)
	disruptionMessage = "condition DisruptionTarget"
)

// failureMessage returns the message of the failed Job, or the JobSet's.
func (a *attempt) failureMessage() string {
	for _, job := range a.jobs {
		if c := condition(job.Status.Conditions, string(batchv1.JobFailed)); c.Status == "True" {
			return c.Message
		}
	}
	if a.jobset == nil {
		return ""
	}
	return condition(a.jobset.Status.Conditions, string(jobset.JobSetFailed)).Message
}

// exited reports whether the failure message of a Job names the exit code; the
// rules that RTJ puts in front of the pod failure policy make it do so.
func (a *attempt) exited(code int) bool {
	for _, job := range a.jobs {
		c := condition(job.Status.Conditions, string(batchv1.JobFailed))
		if c.Status != "True" {
			continue
		}
		if m := exitCodeInMessage.FindStringSubmatch(c.Message); m != nil && m[1] == strconv.Itoa(code) {
			return true
		}
	}
	return false
}

// disrupted reports whether a Job failed because a pod was a disruption target.
func (a *attempt) disrupted() bool {
	for _, job := range a.jobs {
		c := condition(job.Status.Conditions, string(batchv1.JobFailed))
		if c.Status == "True" && strings.Contains(c.Message, disruptionMessage) {
			return true
		}
	}
	return false
}
