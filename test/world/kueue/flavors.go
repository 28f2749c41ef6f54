package kueue

import (
	"fmt"
	"slices"
	"sort"

	"rtj.dev/rtj/test/world/apiserver"
)

// mode is how a flavor can be given, worst first.
type mode int

const (
	noFit mode = iota
	noCandidates
	preempts
	fits
)

// assignment is what the scheduler found for a Workload.
type assignment struct {
	counts  []int64
	flavors []map[string]string // of each podSet, by resource
	usage   map[slot]int64
	mode    mode
	// preempting are the slots that need preemption.
	preempting map[slot]bool
	message    string
	targets    []*holding
}

// assign finds flavors for a Workload: with all pods, else by preemption, else with
// fewer pods.
func (k *Kueue) assign(w *apiserver.Object, cq *clusterQueue) assignment {
	sets := demandOf(w)
	counts := make([]int64, len(sets))
	least := int64(0)
	for i, set := range sets {
		counts[i] = set.count
		least += set.count - set.minCount
	}
	full := k.assignCounts(w, cq, counts)
	if full.mode == fits {
		return full
	}
	if full.mode == preempts {
		if full.targets = k.targets(w, cq, full.usage, full.preempting); len(full.targets) > 0 {
			return full
		}
	}
	if least > 0 {
		if fewer, ok := k.assignFewer(w, cq, sets, least); ok {
			return fewer
		}
	}
	full.targets = nil
	if full.mode == preempts {
		full.mode = noCandidates
	}
	return full
}

// assignFewer searches the most pods that fit, as Kueue does: by halves, though with
// preemption what fits need not be in one piece.
func (k *Kueue) assignFewer(w *apiserver.Object, cq *clusterQueue, sets []podSet, least int64) (found assignment, ok bool) {
	good := -1
	at := sort.Search(int(least)+1, func(i int) bool {
		counts := make([]int64, len(sets))
		for j, set := range sets {
			counts[j] = set.count - (set.count-set.minCount)*int64(i)/least
		}
		a := k.assignCounts(w, cq, counts)
		if a.mode == preempts {
			a.targets = k.targets(w, cq, a.usage, a.preempting)
		}
		if a.mode == fits || len(a.targets) > 0 {
			good, found = i, a
			return true
		}
		return false
	})
	return found, at == good
}

func (k *Kueue) assignCounts(w *apiserver.Object, cq *clusterQueue, counts []int64) assignment {
	a := assignment{counts: counts, usage: map[slot]int64{}, preempting: map[slot]bool{}, mode: fits}
	for i, set := range demandOf(w) {
		flavors, m, why := k.assignPodSet(w, cq, set, counts[i], a.usage, a.preempting)
		a.flavors = append(a.flavors, flavors)
		if m < a.mode {
			a.mode = m
		}
		if why != "" {
			if a.message != "" {
				a.message += "; "
			}
			a.message += "couldn't assign flavors to pod set " + set.name + ": " + why
		}
		if m == noFit {
			return a
		}
	}
	return a
}

// assignPodSet finds a flavor in each resource group and adds what it takes to usage.
func (k *Kueue) assignPodSet(w *apiserver.Object, cq *clusterQueue, set podSet, count int64, usage map[slot]int64, preempting map[slot]bool) (map[string]string, mode, string) {
	given := map[string]string{}
	worst := fits
	var why string
	q := quotaOf(cq.seen)
	used := sum(k.held(cq.seen.Name))
	for _, res := range set.resources() {
		if given[res] != "" {
			continue
		}
		group := q.group(res)
		if group == nil {
			if set.requests[res] == 0 {
				continue
			}
			return given, noFit, fmt.Sprintf("resource %s unavailable in ClusterQueue", res)
		}
		flavor, m, reason := k.flavorIn(w, cq, group, set, count, usage, used)
		if reason != "" {
			if why != "" {
				why += ", "
			}
			why += reason
		}
		if m < worst {
			worst = m
		}
		if m == noFit {
			return given, noFit, why
		}
		for _, r := range set.resources() {
			if !slices.Contains(group.covered, r) {
				continue
			}
			s := slot{flavor, r}
			given[r] = flavor
			usage[s] += set.requests[r] * count
			if usage[s] > q.nominal(s)-used[s] {
				preempting[s] = true
			}
		}
	}
	return given, worst, why
}

// flavorIn tries the flavors of a group in their order: the first that fits, else the
// one by which preemption helps.
func (k *Kueue) flavorIn(w *apiserver.Object, cq *clusterQueue, group *resourceGroup, set podSet, count int64, usage, used map[slot]int64) (best string, bestMode mode, why string) {
	q := quotaOf(cq.seen)
	for _, f := range group.flavors {
		if refusal := k.refuses(f.name, set); refusal != "" {
			why = join(why, refusal)
			continue
		}
		m := fits
		for _, res := range set.resources() {
			if !slices.Contains(group.covered, res) {
				continue
			}
			s := slot{f.name, res}
			wants := usage[s] + set.requests[res]*count
			switch free := q.nominal(s) - used[s]; {
			case wants > q.nominal(s):
				m = noFit
				why = join(why, fmt.Sprintf("insufficient quota for %s in flavor %s, previously considered podsets requests (%s) + current podset request (%s) > maximum capacity (%s)",
					res, f.name, quantity(res, usage[s]), quantity(res, set.requests[res]*count), quantity(res, q.nominal(s))))
			case wants > free:
				why = join(why, fmt.Sprintf("insufficient unused quota for %s in flavor %s, %s more needed", res, f.name, quantity(res, wants-free)))
				if len(k.targets(w, cq, map[slot]int64{s: wants}, map[slot]bool{s: true})) > 0 {
					m = min(m, preempts)
				} else {
					m = min(m, noCandidates)
				}
			}
			if m == noFit {
				break
			}
		}
		if m == fits || m == preempts && !q.nextTry {
			if m == fits {
				why = ""
			}
			return f.name, m, why
		}
		if m > bestMode {
			best, bestMode = f.name, m
		}
	}
	return best, bestMode, why
}

func join(list, more string) string {
	if list == "" {
		return more
	}
	return list + ", " + more
}

// refuses says why the pods of a podSet do not go with a flavor: its taints, or a node
// selector that asks for other labels of it.
func (k *Kueue) refuses(name string, set podSet) string {
	flavor := k.flavor(name)
	if flavor == nil {
		return "flavor " + name + " not found"
	}
	tolerations := append(objects(set.template["tolerations"]), objects(flavor.At("spec", "tolerations"))...)
	for _, taint := range objects(flavor.At("spec", "nodeTaints")) {
		if taint["effect"] == "PreferNoSchedule" {
			continue
		}
		if !slices.ContainsFunc(tolerations, func(t map[string]any) bool { return tolerates(t, taint) }) {
			return fmt.Sprintf("untolerated taint %v in flavor %s", taint["key"], name)
		}
	}
	labels, _ := flavor.At("spec", "nodeLabels").(map[string]any)
	selector, _ := set.template["nodeSelector"].(map[string]any)
	for key, value := range selector {
		if is, ours := labels[key]; ours && is != value {
			return fmt.Sprintf("flavor %s doesn't match node affinity", name)
		}
	}
	return ""
}

func tolerates(toleration, taint map[string]any) bool {
	if effect, ok := toleration["effect"].(string); ok && effect != "" && effect != taint["effect"] {
		return false
	}
	key, _ := toleration["key"].(string)
	if toleration["operator"] == "Exists" {
		return key == "" || key == taint["key"]
	}
	value, _ := toleration["value"].(string)
	is, _ := taint["value"].(string)
	return key == taint["key"] && value == is
}

func (k *Kueue) flavor(name string) *apiserver.Object {
	for _, f := range k.flavors {
		if f.Name == name {
			return f
		}
	}
	return nil
}
