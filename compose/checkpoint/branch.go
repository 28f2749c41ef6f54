package checkpoint

import (
	"fmt"
	"strings"
)

// branch is the newest line of attempts: the head, which is the highest attempt
// with a manifest of its own, then the attempt from which the head went on, up
// to the step that it restored, and so on.
//
// What a zombie of an older attempt commits late is beyond the step from which
// the branch went on, so it is never a candidate. An attempt that committed
// nothing hides nothing.
type branch struct {
	snapshot *Snapshot
	query    Query

	// segments of the branch, of falling attempts.
	segments []segment
	// end says why the branch goes no further back.
	end string
	// cursor is the segment that the last manifest was compared with.
	cursor int

	// fromExists reports that Query.From has a manifest or is named as a restore
	// point by an attempt on its branch.
	fromExists bool
	// fromAttempt is the attempt of Query.From.
	fromAttempt int32
	// judged and descending are the last attempt that descends judged, and the
	// answer: manifests come attempt by attempt.
	judged     int32
	descending bool
	// stranger is the message for what does not descend.
	stranger string
}

// segment is the part of an attempt that belongs to a branch: its checkpoints
// up to a step, or exactly one.
type segment struct {
	attempt int32
	upTo    int64
	only    string
}

// newestBranch finds the branch. With Query.From it is the newest of those that
// go through it, and ends there.
func newestBranch(s *Snapshot, q Query, order []int32) branch {
	b := branch{snapshot: s, query: q}
	if q.From != "" {
		b.stranger = "it does not descend from " + clip(q.From, 128)
		b.findFrom(order)
	}
	for _, i := range order {
		m := &s.Manifests[i]
		if !m.named() || otherRun(q, m) || (q.From != "" && !b.descends(m.Attempt)) {
			continue
		}
		b.follow(m.Attempt)
		break
	}
	if len(b.segments) == 0 && b.fromExists {
		b.segments = append(b.segments, segment{attempt: b.fromAttempt, only: q.From})
	}
	return b
}

func (b *branch) findFrom(order []int32) {
	attempt, _, _, _, err := ParseID(b.query.From)
	if err != nil {
		return
	}
	b.fromAttempt = attempt
	for _, i := range order {
		m := &b.snapshot.Manifests[i]
		if m.ID == b.query.From || b.descends(m.Attempt) {
			b.fromExists = true
			return
		}
	}
}

// follow walks from the head back through the start records. Each step leads to
// a lower attempt, so records that name each other in a circle end the branch.
func (b *branch) follow(head int32) {
	next := segment{attempt: head, upTo: maxStep}
	for {
		b.segments = append(b.segments, next)
		start := b.snapshot.Attempts[next.attempt].Start
		switch {
		case start == nil:
			b.end = fmt.Sprintf("attempt %d has no readable start record, so what it continued is not known", next.attempt)
			return
		case start.Restore == nil:
			b.end = fmt.Sprintf("attempt %d started fresh", next.attempt)
			return
		case start.Restore.Attempt >= next.attempt:
			b.end = fmt.Sprintf("attempt %d says that it continued attempt %d, which cannot be", next.attempt, start.Restore.Attempt)
			return
		case b.query.From != "" && start.Restore.Checkpoint == b.query.From:
			b.segments = append(b.segments, segment{attempt: start.Restore.Attempt, only: b.query.From})
			return
		}
		next = segment{attempt: start.Restore.Attempt, upTo: start.Restore.Step}
	}
}

// maxStep is a step that no checkpoint exceeds.
const maxStep = 1<<63 - 1

// Descends reports whether an attempt that restored a checkpoint descends from
// another: it restored that one, or a checkpoint of an attempt whose chain of
// restore points goes through it. What is not known does not descend.
func Descends(s *Snapshot, restored, from string) bool {
	if restored == from {
		return true
	}
	attempt, _, _, _, err := ParseID(restored)
	if err != nil {
		return false
	}
	b := branch{snapshot: s, query: Query{From: from}}
	if b.fromAttempt, _, _, _, err = ParseID(from); err != nil {
		return false
	}
	return b.reachesFrom(attempt)
}

// descends reports whether the attempt's chain of restore points goes through
// Query.From.
func (b *branch) descends(attempt int32) bool {
	if b.judged != attempt {
		b.judged, b.descending = attempt, b.reachesFrom(attempt)
	}
	return b.descending
}

func (b *branch) reachesFrom(attempt int32) bool {
	for attempt > b.fromAttempt {
		start := b.snapshot.Attempts[attempt].Start
		switch {
		case start == nil || start.Restore == nil || start.Restore.Attempt >= attempt:
			return false
		case start.Restore.Checkpoint == b.query.From:
			return true
		}
		attempt = start.Restore.Attempt
	}
	return false
}

// place says why a manifest is no candidate; no reason means that it is one.
// Manifests must come newest first.
func (b *branch) place(m *Manifest) (reason, message string) {
	switch {
	case !m.named() && m.Defect != nil:
		return m.Defect.Reason, m.Defect.Message
	case otherRun(b.query, m):
		return condemned(b.snapshot, b.query, m)
	}
	for b.cursor < len(b.segments) && b.segments[b.cursor].attempt > m.Attempt {
		b.cursor++
	}
	if b.cursor < len(b.segments) {
		if at := b.segments[b.cursor]; at.attempt == m.Attempt {
			if at.only == m.ID || (at.only == "" && m.Step <= at.upTo) {
				return "", ""
			}
		}
	}
	if b.query.From != "" && !b.descends(m.Attempt) {
		return ReasonNotDescendant, b.stranger
	}
	return ReasonOtherBranch, b.elsewhere(m)
}

// elsewhere says how the branch passes a manifest by.
func (b *branch) elsewhere(m *Manifest) string {
	if b.cursor < len(b.segments) && b.cursor > 0 {
		if at := b.segments[b.cursor]; at.attempt == m.Attempt {
			return fmt.Sprintf("attempt %d went on from step %d of attempt %d, this is step %d",
				b.segments[b.cursor-1].attempt, at.upTo, m.Attempt, m.Step)
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "attempt %d is not on the newest branch, which goes back from attempt %d", m.Attempt, b.segments[0].attempt)
	const shown = 4
	for i, at := range b.segments[1:] {
		if i == shown {
			text.WriteString(", ...")
			break
		}
		fmt.Fprintf(&text, ", attempt %d", at.attempt)
	}
	if b.cursor == len(b.segments) && b.end != "" {
		text.WriteString("; " + b.end + "; spec.resume.from can name this checkpoint")
	}
	return text.String()
}
