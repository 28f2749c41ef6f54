package kueue

import (
	"cmp"
	"slices"

	"rtj.dev/rtj/test/world/apiserver"
)

// targets are the Workloads of the ClusterQueue that must go for a request to fit; none
// where they do not suffice. Those that are evicted already count first, so that no
// others are evicted while they drain; then the lowest priority, then the newest
// reservation.
func (k *Kueue) targets(preemptor *apiserver.Object, cq *clusterQueue, wants map[slot]int64, preempting map[slot]bool) []*holding {
	q := quotaOf(cq.seen)
	held := k.held(cq.seen.Name)
	var candidates []*holding
	for _, h := range held {
		if h.object.UID != preemptor.UID && preemptible(q.within, preemptor, h.object) && uses(h, preempting) {
			candidates = append(candidates, h)
		}
	}
	slices.SortFunc(candidates, func(a, b *holding) int {
		return cmp.Or(
			-cmp.Compare(one(a.object.True(evicted)), one(b.object.True(evicted))),
			cmp.Compare(priorityOf(a.object), priorityOf(b.object)),
			b.since.Compare(a.since),
			cmp.Compare(a.object.UID, b.object.UID),
		)
	})
	used := sum(held)
	fit := func() bool {
		for s, n := range wants {
			if n > q.nominal(s)-used[s] {
				return false
			}
		}
		return true
	}
	move := func(h *holding, sign int64) {
		for s, n := range h.used {
			used[s] += sign * n
		}
	}
	var targets []*holding
	for _, h := range candidates {
		move(h, -1)
		targets = append(targets, h)
		if !fit() {
			continue
		}
		// Some may stay after all: the ones taken first are tried last.
		for i := len(targets) - 2; i >= 0; i-- {
			move(targets[i], 1)
			if fit() {
				targets[i] = targets[len(targets)-1]
				targets = targets[:len(targets)-1]
			} else {
				move(targets[i], -1)
			}
		}
		return targets
	}
	return nil
}

func preemptible(policy string, preemptor, candidate *apiserver.Object) bool {
	p, c := priorityOf(preemptor), priorityOf(candidate)
	switch policy {
	case "LowerPriority":
		return p > c
	case "LowerOrNewerEqualPriority":
		return p > c || p == c && queuedSince(preemptor).Before(queuedSince(candidate))
	case "Any":
		return true
	}
	return false
}

func uses(h *holding, slots map[slot]bool) bool {
	for s := range h.used {
		if slots[s] {
			return true
		}
	}
	return false
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
