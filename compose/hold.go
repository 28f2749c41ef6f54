package compose

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
)

const (
	// unusableAfter is how long an admission may be held without being usable.
	unusableAfter = 30 * time.Second
	// firstHold is the first wait of a hold; it doubles up to maxBackoff.
	firstHold = 30 * time.Second
)

// storeHolds are the reasons that only a reading of the store can lift.
var storeHolds = map[string]bool{
	v1beta1.ReasonStoreUnreachable:       true,
	v1beta1.ReasonStoreAccessDenied:      true,
	v1beta1.ReasonBucketNotFound:         true,
	v1beta1.ReasonSecretNotFound:         true,
	v1beta1.ReasonSecretIncomplete:       true,
	v1beta1.ReasonVerdictPending:         true,
	v1beta1.ReasonNoCompatibleCheckpoint: true,
}

// specHolds are the reasons that an edit of the spec may lift.
var specHolds = map[string]bool{
	v1beta1.ReasonNoCompatibleCheckpoint: true,
	v1beta1.ReasonLaunchRefused:          true,
	v1beta1.ReasonAdmissionUnusable:      true,
	v1beta1.ReasonStoreUnreachable:       true,
	v1beta1.ReasonStoreAccessDenied:      true,
	v1beta1.ReasonBucketNotFound:         true,
	v1beta1.ReasonSecretNotFound:         true,
	v1beta1.ReasonSecretIncomplete:       true,
	v1beta1.ReasonStartupDeadline:        true,
}

// hold puts the job on hold, from now on and for longer each time in a row.
func (s *situation) hold(reason, message string) {
	count := int32(1)
	if old := s.was.Hold; old != nil && old.Reason == reason {
		count = old.Count + 1
	}
	at := metav1.NewTime(s.Now.UTC())
	until := metav1.NewTime(s.Now.Add(doubled(firstHold, count)).UTC())
	s.next.Hold = &v1beta1.HoldStatus{Reason: reason, Message: clip(message, 1024), Since: at, Until: &until, Count: count}
	s.wakeAt(until.Time)
}

// reviewHold lifts or extends the hold that stands. One that is over stays in
// status, since the next one for the same reason is longer, until an attempt
// trains or the user intervenes.
func (s *situation) reviewHold() {
	h := s.next.Hold
	if h == nil {
		return
	}
	switch {
	case s.terminal(), s.spec.Suspend && !s.live(), s.live() && s.trains():
		s.next.Hold = nil
	case s.Parent.Generation != s.was.ObservedGeneration && specHolds[h.Reason]:
		s.next.Hold = nil
	case s.holding():
		s.wakeAt(h.Until.Time)
	}
}

// holdForStore waits longer and longer between two readings of a store that
// cannot be used, or that holds nothing that fits, while nothing is queued. A
// Workload that is on hold for that does not go back to the queue only to give
// quota back again.
func (s *situation) holdForStore() {
	h := s.next.Hold
	onHold := h != nil && storeHolds[h.Reason]
	if s.workload.reserved() || s.workload != nil && !onHold || s.terminal() || s.deleting || s.spec.Suspend || !s.judged() || s.holding() {
		return
	}
	switch l := s.storeUsable(); {
	case l.reason == v1beta1.ReasonCatalogNotRead:
	case l.reason != "":
		s.hold(l.reason, l.message)
	case onHold && h.Reason == v1beta1.ReasonNoCompatibleCheckpoint && s.noneFits():
		s.hold(h.Reason, s.noneFitsMessage())
	}
}

// holding reports whether the hold is in force.
func (s *situation) holding() bool {
	h := s.next.Hold
	if h == nil || h.Until == nil {
		return false
	}
	if s.Now.Before(h.Until.Time) {
		return true
	}
	// A reason in the store is lifted by a reading that began after the wait.
	return storeHolds[h.Reason] && !s.live() && !s.catalogSince(h.Until.Time)
}

// holdStands reports whether the hold is in force and stands in the observed
// status, so that an act may rely on it.
func (s *situation) holdStands() bool {
	was, now := s.was.Hold, s.next.Hold
	return s.holding() && was != nil && was.Reason == now.Reason && was.Count == now.Count
}

// keepsAdmission reports whether the hold is short enough to keep the quota.
func keepsAdmission(h *v1beta1.HoldStatus) bool {
	switch h.Reason {
	case v1beta1.ReasonCrashBackOff, v1beta1.ReasonDisruptionBackOff, v1beta1.ReasonRestoreBackOff:
		return h.Until.Sub(h.Since.Time) <= keepAdmission
	}
	return false
}

// wantCatalogAgain asks for another reading once the last one is older than the period.
func (s *situation) wantCatalogAgain(period time.Duration) {
	if s.Catalog == nil || s.Catalog.ListedAt.IsZero() {
		s.wantCatalog(s.Now)
		return
	}
	if due := s.Catalog.ListedAt.Add(period); !due.After(s.Now) {
		s.wantCatalog(s.Now)
	} else {
		s.wakeAt(due)
	}
}
