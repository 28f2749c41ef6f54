package kueue

import (
	"fmt"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

// podsReadyDeadline is when an admitted Workload whose pods are not ready is evicted;
// zero: never. The start counts from the admission, a recovery from when the pods were
// no longer ready; any other reason of PodsReady=False has no limit.
func (k *Kueue) podsReadyDeadline(o *apiserver.Object) time.Time {
	wait := k.config.PodsReady
	if wait == nil || !o.True(admitted) || o.True(podsReady) || o.True(evicted) {
		return time.Time{}
	}
	c := o.Condition(podsReady)
	switch {
	case c == nil || c["reason"] == "WaitForStart" || c["reason"] == "PodsReady":
		return transition(o.Condition(admitted)).Add(wait.Timeout)
	case c["reason"] == "WaitForRecovery":
		limit := wait.RecoveryTimeout
		if limit == 0 {
			limit = wait.Timeout
		}
		return transition(c).Add(limit)
	}
	return time.Time{}
}

func (k *Kueue) reconcilePodsReady(o *apiserver.Object) *act {
	at := k.podsReadyDeadline(o)
	if at.IsZero() || k.Now().Before(at) || !active(o) {
		return nil
	}
	wait := k.config.PodsReady
	count := o.Int("status", "requeueState", "count") + 1
	if wait.BackoffLimit != nil && count > int64(*wait.BackoffLimit) {
		s := k.status(o)
		if !s.set(deactivationTarget, "True", "RequeuingLimitExceeded", "exceeding the maximum number of re-queuing retries", o.Generation) {
			return nil
		}
		return &act{what: "give up", status: s}
	}
	message := fmt.Sprintf("Exceeded the PodsReady timeout %s", o.Key())
	return &act{what: "evict", status: k.eviction(o, PodsReadyTimeout, message, func(s *status) {
		until := k.Now().Add(backoff(wait, count))
		if old := instant(o.Text("status", "requeueState", "requeueAt")); old.After(until) {
			until = old
		}
		s.body["requeueState"] = map[string]any{"count": count, "requeueAt": stamp(until)}
	})}
}

// backoff doubles with each eviction, up to its limit. The real one adds a jitter of a
// ten-thousandth.
func backoff(wait *PodsReady, count int64) time.Duration {
	d := wait.BackoffBase
	for range count - 1 {
		if d >= wait.BackoffMax {
			break
		}
		d *= 2
	}
	return min(d, wait.BackoffMax)
}
