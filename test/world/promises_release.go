package world

import (
	"fmt"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/stated"
)

// releaseLasts is how long quota may be held that no attempt uses any more: a back-off
// within the admission (30 s), then an admission that cannot be used because the store
// is unreadable or nothing fits (30 s), then a patch that is tried again after it failed
// many times (60 s), and as much again for Jobs that may still start and readings of the
// store that are not due yet.
const releaseLasts = 3 * time.Minute

// releasedSoon: an attempt was stopped, or ended by itself, and no pod of it is left.
// Within releaseLasts its quota is given back, or the next attempt has it.
//
// Only time counts in which everybody waits (see [World.waits]): that an instance of
// rtj is down, sees late, or has a request under way is not its waiting. The store may
// be unreadable: that is no reason to keep quota.
func releasedSoon(w *World, l *life, d time.Duration) string {
	spare, is := w.spare(l)
	if !is || spare != l.spare {
		l.spare, l.spareFor = spare, 0
		return ""
	}
	l.spareFor += d
	if l.spareFor > releaseLasts {
		return fmt.Sprintf("%s: held for %s, and %s", spare, l.spareFor, l.standing())
	}
	return ""
}

// spare is a reservation of a job whose attempt ran and is over.
type spare struct {
	workload, reservedAt string
	attempt              int64
}

func (s spare) String() string {
	return fmt.Sprintf("%s of %s, attempt %d", s.workload, s.reservedAt, s.attempt)
}

// spare returns that of the job; ok tells whether there is one.
func (w *World) spare(l *life) (s spare, ok bool) {
	for _, o := range w.api.Owned("Workload", l.uid) {
		if !o.True("QuotaReserved") || o.True("Finished") {
			continue
		}
		claim, ok := stated.ClaimOf(o)
		if !ok || l.launched[claim.Attempt] == "" || !claim.Stands(o) || !w.over(l, claim.Attempt) {
			continue
		}
		return spare{o.Name, claim.ReservedAt, claim.Attempt}, true
	}
	return spare{}, false
}

// over tells whether an attempt that was launched has no pod left and makes none.
func (w *World) over(l *life, n int64) bool {
	for _, j := range w.api.Owned("JobSet", l.uid) {
		if stated.Attempt(j) == n && !j.Bool("spec", "suspend") && !j.True("Completed") && !j.True("Failed") {
			return false
		}
	}
	for _, pod := range w.api.List("Pod") {
		if pod.Label(labelUID) == l.uid && mayRun(pod) && !l.isForced(stated.Attempt(pod)) {
			return false
		}
	}
	return true
}

// releasedEmpty: quota goes only when no pod is left, whoever gives it back. What frees
// it without rtj is left out: a deactivation, and a deletion by others, such as that of
// the job in the foreground or of its namespace.
func releasedEmpty(w *World, l *life, write apiserver.Write) string {
	was, is := write.Old, write.New
	if was == nil || was.Kind != "Workload" || !was.True("QuotaReserved") || was.True("Finished") {
		return ""
	}
	if is != nil && is.True("QuotaReserved") && !is.True("Finished") {
		return ""
	}
	if !byUs(write.By) && (is == nil || was.At("spec", "active") == false) {
		return ""
	}
	for _, pod := range w.api.List("Pod") {
		if pod.Label(labelUID) == l.uid && mayRun(pod) && !l.isForced(stated.Attempt(pod)) {
			return fmt.Sprintf("%s gives the quota of %s back, and %s is left", write.By, was.Name, pod.Name)
		}
	}
	return ""
}
