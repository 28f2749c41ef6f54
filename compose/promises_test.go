package compose_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
)

// judged is one decision with what it was made from.
type judged struct {
	o        *compose.Observation
	d        *compose.Decision
	deleting bool
}

// promises hold for every decision, whatever was observed.
var promises = []struct {
	name   string
	broken func(*judged) string
}{
	{"a JobSet is started only with the current claim, admission and status.attempt", startsWithoutClaim},
	{"a new JobSet is suspended", createsRunning},
	{"a JobSet that runs is never deleted unless its attempt was given up", deletesRunning},
	{"the JobSet of attempt n goes only once status.attempt is at least n", deletesForgotten},
	{"a release or claim carries the LIST, a claim status.attempt", withoutList},
	{"a Workload that holds quota is never dropped", dropsQuota},
	{"quota is given back only when no attempt runs by what is observed", releasesRunning},
	{"terminal phases are never left, and nothing is created in them", leavesTerminal},
	{"numbers never go down", goesDown},
	{"a deleted job creates nothing", createsWhileDeleted},
	{"a child that exists is returned as observed but for our fields", changesChildren},
	{"no child is returned twice", returnsTwice},
	{"at most one patch of a Workload, each guarded", patchesTwice},
	{"a job is let go only when nothing runs and no quota is held", letsGoEarly},
	{"the time to look again is not negative", negativeResync},
	{"status keeps within its schema", outOfSchema},
}

func (j *judged) child(kind, name string) *compose.Child {
	for i := range j.d.Children {
		if c := &j.d.Children[i]; c.Kind == kind && c.Name == name {
			return c
		}
	}
	return nil
}

func conditionOf(list []compose.Condition, kind string) compose.Condition {
	for _, c := range list {
		if c.Type == kind {
			return c
		}
	}
	return compose.Condition{}
}

func isTrue(list []compose.Condition, kind string) bool {
	return conditionOf(list, kind).Status == "True"
}

// holdsQuota: reserved, and not finished.
func holdsQuota(w *compose.Workload) bool {
	return isTrue(w.Status.Conditions, "QuotaReserved") && !isTrue(w.Status.Conditions, "Finished")
}

func ran(j *compose.JobSet) bool {
	return j.Spec.Suspend == nil || !*j.Spec.Suspend || j.Meta.Annotations[v1beta1.AnnotationStarted] != ""
}

func running(j *compose.JobSet) bool {
	return (j.Spec.Suspend == nil || !*j.Spec.Suspend) && !isTrue(j.Status.Conditions, "Completed") && !isTrue(j.Status.Conditions, "Failed")
}

// number of an attempt by its JobSet's name; 0 when it is none.
func number(name string) int32 {
	digits, ok := strings.CutPrefix(name, "llama-")
	n, err := strconv.ParseInt(digits, 10, 32)
	if !ok || err != nil || n > 99999 || digits != strconv.FormatInt(n, 10) {
		return 0
	}
	return int32(n)
}

func (j *judged) forced(n int32) bool {
	for _, f := range j.o.Parent.Status.Forced {
		if f.Attempt == n {
			return true
		}
	}
	return false
}

func startsWithoutClaim(j *judged) string {
	for _, c := range j.d.Children {
		if c.Kind != "JobSet" || !sets(&c, "spec.suspend", false) {
			continue
		}
		n := number(c.Name)
		if j.deleting || j.o.Parent.Spec.Suspend || j.o.Parent.Status.Phase.Terminal() {
			return "starts " + c.Name + " of a job that must not run"
		}
		if j.o.Parent.Status.Attempt != n {
			return fmt.Sprintf("starts %s while status.attempt is %d", c.Name, j.o.Parent.Status.Attempt)
		}
		for i := range j.o.Workloads {
			if holdsClaim(&j.o.Workloads[i], n) {
				return ""
			}
		}
		return "starts " + c.Name + " without a claim"
	}
	return ""
}

func holdsClaim(w *compose.Workload, n int32) bool {
	var claim struct {
		WorkloadUID string      `json:"workloadUID"`
		ReservedAt  metav1.Time `json:"reservedAt"`
		Attempt     int32       `json:"attempt"`
	}
	if json.Unmarshal([]byte(w.Meta.Annotations[v1beta1.AnnotationClaim]), &claim) != nil {
		return false
	}
	at := conditionOf(w.Status.Conditions, "QuotaReserved").LastTransitionTime
	return holdsQuota(w) && isTrue(w.Status.Conditions, "Admitted") && !isTrue(w.Status.Conditions, "Evicted") && w.Meta.DeletionTimestamp == nil &&
		(w.Spec.Active == nil || *w.Spec.Active) && claim.Attempt == n && claim.WorkloadUID == string(w.Meta.UID) && claim.ReservedAt.Equal(&at)
}

func sets(c *compose.Child, path string, value any) bool {
	for _, f := range c.Set {
		if strings.Join(f.Path, ".") == path && f.Value == value {
			return true
		}
	}
	return false
}

func createsRunning(j *judged) string {
	for _, c := range j.d.Children {
		if c.Kind != "JobSet" || c.New == nil {
			continue
		}
		var o struct {
			Spec struct {
				Suspend bool `json:"suspend"`
			} `json:"spec"`
		}
		if err := json.Unmarshal(written(c.New), &o); err != nil || !o.Spec.Suspend {
			return c.Name
		}
	}
	return ""
}

func deletesRunning(j *judged) string {
	for i := range j.o.JobSets {
		s := &j.o.JobSets[i]
		if n := number(s.Meta.Name); n > 0 && running(s) && j.child("JobSet", s.Meta.Name) == nil && !j.forced(n) {
			return s.Meta.Name
		}
	}
	return ""
}

func deletesForgotten(j *judged) string {
	for i := range j.o.JobSets {
		s := &j.o.JobSets[i]
		if n := number(s.Meta.Name); ran(s) && n > j.o.Parent.Status.Attempt && j.child("JobSet", s.Meta.Name) == nil && !j.forced(n) {
			return fmt.Sprintf("%s while status.attempt is %d", s.Meta.Name, j.o.Parent.Status.Attempt)
		}
	}
	return ""
}

func withoutList(j *judged) string {
	for _, p := range j.d.Patches {
		switch {
		case (p.Name == "release" || p.Name == "claim" || p.Name == "finish") && p.NoLivePods == nil:
			return p.Name + " without the LIST"
		case p.Name == "claim" && (p.StatusAttempt == nil || *p.StatusAttempt != j.o.Parent.Status.Attempt):
			return "claim without the status.attempt that was read"
		case p.Target.Subresource == "status" && givesBack(p) && p.Name != "release":
			return p.Name + " gives quota back"
		}
	}
	return ""
}

func givesBack(p compose.Patch) bool { return bytes.Contains(p.Body, []byte(`"admission":null`)) }

func dropsQuota(j *judged) string {
	for i := range j.o.Workloads {
		if w := &j.o.Workloads[i]; holdsQuota(w) && j.child("Workload", w.Meta.Name) == nil {
			return w.Meta.Name
		}
	}
	return ""
}

func releasesRunning(j *judged) string {
	for _, p := range j.d.Patches {
		if !givesBack(p) && p.Name != "claim" {
			continue
		}
		for i := range j.o.JobSets {
			if s := &j.o.JobSets[i]; running(s) && number(s.Meta.Name) > 0 && !j.forced(number(s.Meta.Name)) {
				return fmt.Sprintf("%s while %s runs", p.Name, s.Meta.Name)
			}
		}
	}
	return ""
}

func leavesTerminal(j *judged) string {
	was := j.o.Parent.Status.Phase
	if !was.Terminal() {
		return ""
	}
	if j.d.Status.Phase != was {
		return fmt.Sprintf("%s -> %s", was, j.d.Status.Phase)
	}
	for _, c := range j.d.Children {
		if c.New != nil && c.Kind != "ConfigMap" {
			return "creates " + c.Kind + " " + c.Name
		}
	}
	return ""
}

func goesDown(j *judged) string {
	was, is := &j.o.Parent.Status, j.d.Status
	switch {
	case is.Attempt < was.Attempt:
		return "attempt"
	case is.WorkloadNumber < was.WorkloadNumber:
		return "workloadNumber"
	case is.Preemptions < was.Preemptions:
		return "preemptions"
	case was.LastEnd != nil && (is.LastEnd == nil || is.LastEnd.Attempt < was.LastEnd.Attempt):
		return "lastEnd"
	case is.Totals.Attempts < was.Totals.Attempts:
		return "totals"
	}
	return ""
}

func createsWhileDeleted(j *judged) string {
	for _, c := range j.d.Children {
		if j.deleting && c.New != nil {
			return c.Kind + " " + c.Name
		}
	}
	return ""
}

// ours are the fields that may be changed of a child, by kind.
var ours = map[string][]string{
	"JobSet":    {"spec.suspend", "metadata.annotations." + v1beta1.AnnotationStarted},
	"ConfigMap": {"data.control.json"},
	"Workload":  {"spec.podSets", "spec.queueName", "spec.priorityClassRef", "spec.priority", "metadata.annotations." + v1beta1.AnnotationShape},
}

func changesChildren(j *judged) string {
	observed := map[string]json.RawMessage{}
	for i := range j.o.Workloads {
		observed["Workload/"+j.o.Workloads[i].Meta.Name] = j.o.Workloads[i].Raw
	}
	for i := range j.o.JobSets {
		observed["JobSet/"+j.o.JobSets[i].Meta.Name] = j.o.JobSets[i].Raw
	}
	if j.o.Control != nil {
		observed["ConfigMap/"+j.o.Control.Meta.Name] = j.o.Control.Raw
	}
	for _, c := range j.d.Children {
		raw, exists := observed[c.Kind+"/"+c.Name]
		if exists != (c.New == nil) || !bytes.Equal(raw, c.Observed) {
			return c.Kind + " " + c.Name + " is not as observed"
		}
		for _, f := range c.Set {
			if path := strings.Join(f.Path, "."); !contains(ours[c.Kind], path) {
				return c.Kind + " " + c.Name + ": " + path
			}
		}
		if _, err := c.Render(); err != nil {
			return err.Error()
		}
	}
	return ""
}

func contains(list []string, text string) bool {
	for _, s := range list {
		if s == text {
			return true
		}
	}
	return false
}

func returnsTwice(j *judged) string {
	seen := map[string]bool{}
	for _, c := range j.d.Children {
		if id := c.Kind + "/" + c.Name; seen[id] {
			return id
		} else {
			seen[id] = true
		}
	}
	return ""
}

func patchesTwice(j *judged) string {
	workloads := 0
	for _, p := range j.d.Patches {
		var body struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
				UID             string `json:"uid"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(p.Body, &body); err != nil {
			return p.Name + ": " + err.Error()
		}
		if body.Metadata.ResourceVersion == "" && body.Metadata.UID == "" {
			return p.Name + " is not guarded"
		}
		if p.Target.Resource == "workloads" {
			workloads++
			if body.Metadata.ResourceVersion == "" {
				return p.Name + " has no resourceVersion"
			}
		}
	}
	if workloads > 1 {
		return fmt.Sprintf("%d patches", workloads)
	}
	return ""
}

func letsGoEarly(j *judged) string {
	if !j.d.Finalized {
		return ""
	}
	if !j.deleting {
		return "not deleted"
	}
	for i := range j.o.JobSets {
		if s := &j.o.JobSets[i]; running(s) && number(s.Meta.Name) > 0 && !j.forced(number(s.Meta.Name)) {
			return s.Meta.Name + " runs"
		}
	}
	for i := range j.o.Workloads {
		if w := &j.o.Workloads[i]; holdsQuota(w) {
			return w.Meta.Name + " holds quota"
		}
	}
	return ""
}

func negativeResync(j *judged) string {
	if j.d.ResyncAfter < 0 || j.d.ResyncAfter > 365*24*time.Hour {
		return j.d.ResyncAfter.String()
	}
	return ""
}

var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// outOfSchema: the bounds of status in the CRD, which the API server would refuse
// the whole status for.
func outOfSchema(j *judged) string {
	s := j.d.Status
	for _, list := range []struct {
		name      string
		has, most int
	}{
		{"conditions", len(s.Conditions), 16}, {"passedOver", len(s.Checkpoint.PassedOver), v1beta1.MaxPassedOver}, {"forced", len(s.Forced), v1beta1.MaxForced},
		{"restoreFailures", len(s.RestoreFailures), v1beta1.MaxRestoreFailures}, {"ledger", len(s.Ledger), v1beta1.MaxLedgerEntries},
	} {
		if list.has > list.most {
			return fmt.Sprintf("%d %s", list.has, list.name)
		}
	}
	texts := []bounded{{"runID", s.RunID, 64}, {"workers", s.Workers, 32}}
	for _, c := range s.Conditions {
		if !reasonPattern.MatchString(c.Reason) {
			return fmt.Sprintf("condition %s has reason %q", c.Type, c.Reason)
		}
		texts = append(texts, bounded{"condition " + c.Type, c.Message, 1024})
	}
	if s.Yield != nil {
		texts = append(texts, bounded{"yield.cause", string(s.Yield.Cause), 64})
	}
	if s.Hold != nil {
		texts = append(texts, bounded{"hold.reason", s.Hold.Reason, 64}, bounded{"hold.message", s.Hold.Message, 1024})
	}
	if s.LastEnd != nil {
		texts = append(texts, bounded{"lastEnd.observedBy", s.LastEnd.ObservedBy, 128})
	}
	for _, p := range s.Checkpoint.PassedOver {
		texts = append(texts, bounded{"passedOver.id", p.ID, 128}, bounded{"passedOver.reason", p.Reason, 64}, bounded{"passedOver.message", p.Message, 512})
	}
	for _, ref := range []*v1beta1.CheckpointRef{s.Checkpoint.Latest, s.Checkpoint.RestoredFrom} {
		if ref != nil {
			texts = append(texts, bounded{"checkpoint.id", ref.ID, 128})
		}
	}
	for _, f := range s.RestoreFailures {
		texts = append(texts, bounded{"restoreFailures.checkpoint", f.Checkpoint, 128}, bounded{"restoreFailures.message", f.Message, 1024})
	}
	seen := map[int32]bool{}
	for _, e := range s.Ledger {
		if seen[e.Attempt] {
			return fmt.Sprintf("two ledger entries of attempt %d", e.Attempt)
		}
		seen[e.Attempt] = true
		texts = append(texts, bounded{"ledger.restoredFrom", e.RestoredFrom, 128}, bounded{"ledger.message", e.Message, 1024})
	}
	for _, b := range texts {
		if len([]rune(b.text)) > b.most {
			return fmt.Sprintf("%s has %d characters", b.name, len([]rune(b.text)))
		}
	}
	return ""
}

type bounded struct {
	name, text string
	most       int
}
