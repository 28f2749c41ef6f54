package compose

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

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
	if !ok || digits == "" || digits[0] == '0' {
		return 0
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 1 {
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

func (a *attempt) ran() bool       { return a.jobset != nil && a.jobset.ran() }
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
	counted := int32(0)
	for _, r := range a.jobset.Status.ReplicatedJobsStatus {
		counted += r.Succeeded + r.Failed + r.Active + r.Suspended
	}
	if int(counted) > len(a.jobs) {
		return false
	}
	for _, job := range a.jobs {
		if !job.drained() {
			return false
		}
	}
	return true
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
	return j.Spec.Suspend != nil && *j.Spec.Suspend && j.is(batchv1.JobSuspended) &&
		j.Status.Active == 0 && j.Status.Terminating != nil && *j.Status.Terminating == 0
}

// ending reports whether the Job shows terminating pods that its own controller
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

// readyPods and wantedPods count over all Jobs.
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
		want := int32(1)
		if r.Replicas != nil {
			want = *r.Replicas
		}
		if done[r.Name] < want {
			return false
		}
	}
	return true
}

var (
	exitCodeInMessage = regexp.MustCompile(`exit code (\d+)`)
	disruptionMessage = "condition DisruptionTarget"
)

// failure returns the message of the failed Job, or the JobSet's.
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

// exitCode returns the exit code that a Job's failure message names; the rules
// that RTJ puts in front of the pod failure policy make it do so.
func (a *attempt) exitCode() (int, bool) {
	for _, job := range a.jobs {
		c := condition(job.Status.Conditions, string(batchv1.JobFailed))
		if c.Status != "True" {
			continue
		}
		if m := exitCodeInMessage.FindStringSubmatch(c.Message); m != nil {
			code, err := strconv.Atoi(m[1])
			return code, err == nil
		}
	}
	return 0, false
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
