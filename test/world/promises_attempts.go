package world

import (
	"fmt"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/stated"
)

const labelUID = v1beta1.LabelUID

// mayRun tells whether a pod is not known to have ended.
func mayRun(pod *apiserver.Object) bool {
	phase := pod.Text("status", "phase")
	return phase != "Succeeded" && phase != "Failed"
}

func oneRuntime(w *World, l *life) string {
	if w.promises.pods == w.api.Changed("Pod") {
		return ""
	}
	var runs int64
	for _, pod := range w.api.List("Pod") {
		n := stated.Attempt(pod)
		if pod.Label(labelUID) != l.uid || !mayRun(pod) || l.isForced(n) {
			continue
		}
		if runs != 0 && runs != n {
			return fmt.Sprintf("pods of attempts %d and %d", runs, n)
		}
		runs = n
	}
	return ""
}

// launch returns the JobSet that a write of ours started, or nil.
func launch(write apiserver.Write) *apiserver.Object {
	is, was := write.New, write.Old
	if is == nil || is.Kind != "JobSet" || !byUs(write.By) || is.Bool("spec", "suspend") || was != nil && !was.Bool("spec", "suspend") {
		return nil
	}
	return is
}

// claimed returns the Workload whose claim is of the attempt, and whether it stands.
func claimed(w *World, l *life, n int64) (*apiserver.Object, bool) {
	for _, workload := range w.api.Owned("Workload", l.uid) {
		if c, ok := stated.ClaimOf(workload); ok && c.Attempt == n {
			return workload, c.Stands(workload)
		}
	}
	return nil, false
}

// What rtj cannot see at the moment of its write is left out: that Kueue evicted,
// deactivated or deleted the Workload meanwhile. Giving quota back is its own act.
func launchedByClaim(w *World, l *life, write apiserver.Write) string {
	j := launch(write)
	if j == nil {
		return ""
	}
	n := stated.Attempt(j)
	workload, current := claimed(w, l, n)
	switch {
	case current:
		return ""
	case workload == nil && w.deletedByOthers[l.uid]:
		return ""
	case workload == nil:
		return fmt.Sprintf("%s is started, and no Workload has a claim of it", j.Name)
	}
	return fmt.Sprintf("%s is started, and %s holds no quota for its claim", j.Name, workload.Name)
}

func launchedAsAdmitted(w *World, l *life, write apiserver.Write) string {
	j := launch(write)
	if j == nil {
		return ""
	}
	workload, current := claimed(w, l, stated.Attempt(j))
	if !current {
		return "" // the promise before
	}
	admitted, flavor := map[string]int64{}, map[string]string{}
	for _, item := range workload.List("status", "admission", "podSetAssignments") {
		a, _ := item.(map[string]any)
		name, _ := a["name"].(string)
		admitted[name], _ = a["count"].(int64)
		if flavors, _ := a["flavors"].(map[string]any); flavors != nil {
			flavor[name], _ = flavors["example.com/gpu"].(string)
		}
	}
	for _, item := range j.List("spec", "replicatedJobs") {
		r, _ := item.(map[string]any)
		name, _ := r["name"].(string)
		o := &apiserver.Object{Body: r}
		if pods := podsOf(o); pods > admitted[name] {
			return fmt.Sprintf("%s starts %d pods of %s, and %d were admitted", j.Name, pods, name, admitted[name])
		}
		if pool := o.Text("template", "spec", "template", "spec", "nodeSelector", "example.com/pool"); pool != flavor[name] {
			return fmt.Sprintf("%s starts %s on nodes %q, and flavor %q was admitted", j.Name, name, pool, flavor[name])
		}
	}
	return ""
}

func numbersAreNew(w *World, l *life, write apiserver.Write) string {
	j := launch(write)
	if j == nil {
		return ""
	}
	n := stated.Attempt(j)
	if uid, ok := l.launched[n]; ok && uid != j.UID {
		return fmt.Sprintf("attempt %d is another JobSet than before", n)
	}
	l.launched[n], l.launchedAt[n], l.launchedBy[n] = j.UID, w.clock.at, w.running()
	return ""
}
