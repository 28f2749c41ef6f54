package jobs

import (
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rtj.dev/rtj/test/world/apiserver"
)

// job is what the controllers read of one version of a Job.
type job struct {
	*apiserver.Object
	suspend, indexed      bool
	parallelism           int64
	completions           int64 // -1: none
	backoffLimit          int64
	deadline              int64 // activeDeadlineSeconds; -1: none
	rules                 []any // of its podFailurePolicy
	replacesOnlyFailed    bool
	complete, failed      bool
	failedAt              time.Time
	jobSet                string // UID
	replicatedJob, number string
	status                jobStatus
}

// jobStatus is a Job's status.
type jobStatus struct {
	conditions                []any
	startTime, completionTime string
	active, succeeded, failed int64
	// ready and terminating are -1 where they are not set.
	ready, terminating int64
	completed          indexes
	// The pods that ended and still have the finalizer, by UID.
	uncountedSucceeded, uncountedFailed []string
}

type jobKey struct{}

func jobOf(o *apiserver.Object) *job {
	return o.Cached(jobKey{}, func() any {
		spec, status := below(o.Body, "spec"), below(o.Body, "status")
		j := &job{
			Object: o, suspend: isTrue(spec, "suspend"), indexed: spec["completionMode"] == string(batchv1.IndexedCompletion),
			parallelism: number(spec, 1, "parallelism"), completions: number(spec, -1, "completions"),
			backoffLimit: number(spec, 6, "backoffLimit"), deadline: number(spec, -1, "activeDeadlineSeconds"),
			rules:              list(spec, "podFailurePolicy", "rules"),
			replacesOnlyFailed: spec["podFailurePolicy"] != nil || spec["podReplacementPolicy"] == string(batchv1.Failed),
			complete:           o.True(string(batchv1.JobComplete)), failed: o.True(string(batchv1.JobFailed)),
			jobSet: o.Owner(), replicatedJob: o.Label(labelReplicatedJob), number: o.Label(labelJobIndex),
			status: jobStatus{
				conditions: list(status, "conditions"), startTime: text(status, "startTime"), completionTime: text(status, "completionTime"),
				active: number(status, 0, "active"), succeeded: number(status, 0, "succeeded"), failed: number(status, 0, "failed"),
				ready: number(status, -1, "ready"), terminating: number(status, -1, "terminating"),
				completed:          parseIndexes(text(status, "completedIndexes")),
				uncountedSucceeded: texts(list(status, "uncountedTerminatedPods", "succeeded")),
				uncountedFailed:    texts(list(status, "uncountedTerminatedPods", "failed")),
			},
		}
		if j.failed {
			at, _ := o.Condition(string(batchv1.JobFailed))["lastTransitionTime"].(string)
			j.failedAt = moment(at)
		}
		return j
	}).(*job)
}

func (j *job) finished() bool { return j.complete || j.failed }

// is the condition of a Job, in a status that may not be written yet.
func (s *jobStatus) is(kind batchv1.JobConditionType) bool {
	return conditionIn(s.conditions, string(kind))["status"] == string(corev1.ConditionTrue)
}

func (s *jobStatus) equal(t *jobStatus) bool {
	// Conditions are copied where one changes.
	sameConditions := len(s.conditions) == len(t.conditions) && (len(s.conditions) == 0 || &s.conditions[0] == &t.conditions[0])
	return sameConditions && s.startTime == t.startTime && s.completionTime == t.completionTime &&
		s.active == t.active && s.succeeded == t.succeeded && s.failed == t.failed && s.ready == t.ready && s.terminating == t.terminating &&
		slices.Equal(s.completed, t.completed) &&
		slices.Equal(s.uncountedSucceeded, t.uncountedSucceeded) && slices.Equal(s.uncountedFailed, t.uncountedFailed)
}

// body is the status as the API has it.
func (s *jobStatus) body() object {
	o := object{}
	for key, n := range map[string]int64{"active": s.active, "succeeded": s.succeeded, "failed": s.failed} {
		if n != 0 {
			o[key] = n
		}
	}
	for key, n := range map[string]int64{"ready": s.ready, "terminating": s.terminating} {
		if n >= 0 {
			o[key] = n
		}
	}
	for key, t := range map[string]string{"startTime": s.startTime, "completionTime": s.completionTime, "completedIndexes": s.completed.String()} {
		if t != "" {
			o[key] = t
		}
	}
	if len(s.conditions) > 0 {
		o["conditions"] = s.conditions
	}
	uncounted := object{}
	for key, uids := range map[string][]string{"succeeded": s.uncountedSucceeded, "failed": s.uncountedFailed} {
		if len(uids) > 0 {
			uncounted[key] = anys(uids)
		}
	}
	o["uncountedTerminatedPods"] = uncounted
	return o
}

// set sets a condition as the Job controller does: False is not set where there was
// none.
func (s *jobStatus) set(now time.Time, kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string) {
	next := object{
		"type": string(kind), "status": string(status), "reason": reason, "message": message,
		"lastProbeTime": timestamp(now), "lastTransitionTime": timestamp(now),
	}
	for i, item := range s.conditions {
		old := item.(object)
		if old["type"] != next["type"] {
			continue
		}
		if old["status"] != next["status"] || old["reason"] != reason || old["message"] != message {
			s.conditions = slices.Clone(s.conditions)
			s.conditions[i] = next
		}
		return
	}
	if status != corev1.ConditionFalse {
		s.conditions = append(slices.Clone(s.conditions), next)
	}
}

// indexes are completed ones, sorted.
type indexes []int64

// parseIndexes reads the form of status.completedIndexes: "0,2-4".
func parseIndexes(s string) (is indexes) {
	if s == "" {
		return nil
	}
	for _, part := range strings.Split(s, ",") {
		from, to, ok := strings.Cut(part, "-")
		first, err := strconv.ParseInt(from, 10, 64)
		if err != nil {
			continue
		}
		last := first
		if ok {
			if last, err = strconv.ParseInt(to, 10, 64); err != nil {
				continue
			}
		}
		for i := first; i <= last; i++ {
			is = append(is, i)
		}
	}
	return is
}

func (is indexes) String() string {
	var parts []string
	for i := 0; i < len(is); {
		last := i
		for last+1 < len(is) && is[last+1] == is[last]+1 {
			last++
		}
		switch from, to := strconv.FormatInt(is[i], 10), strconv.FormatInt(is[last], 10); last - i {
		case 0:
			parts = append(parts, from)
		case 1:
			parts = append(parts, from, to)
		default:
			parts = append(parts, from+"-"+to)
		}
		i = last + 1
	}
	return strings.Join(parts, ",")
}

func (is indexes) with(i int64) indexes {
	at, ok := slices.BinarySearch(is, i)
	if ok {
		return is
	}
	return slices.Insert(slices.Clone(is), at, i)
}

func (is indexes) has(i int64) bool {
	_, ok := slices.BinarySearch(is, i)
	return ok
}

func texts(items []any) (ts []string) {
	for _, item := range items {
		if t, ok := item.(string); ok {
			ts = append(ts, t)
		}
	}
	return ts
}

func anys(ts []string) []any {
	items := make([]any, len(ts))
	for i, t := range ts {
		items[i] = t
	}
	return items
}
