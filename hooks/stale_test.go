package hooks_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rtj.dev/rtj/compose/checkpoint"
)

// A parent that is seen late changes no identity. Whatever is decided upon an older
// status or spec, beside children that are current, and by however many answers, the
// run has the same id; and once its writes met the API server, no attempt is started
// but the one that the live status names, none for the second time, and none beside
// another.
func TestAStaleParentChangesNoIdentity(t *testing.T) {
	eachMoment(t, 40, func(t *testing.T, seed uint64, m *moment) {
		older := olderParents(t, m)
		names := slices.Sorted(maps.Keys(older))
		moments := []*moment{m}
		if m.catalog != nil && len(m.catalog.Attempts) > 0 {
			moments = append(moments, withoutRecords(m))
		}
		for _, m := range moments {
			if !sound(t, m) {
				continue
			}
			// Two of them at a moment, and others at the next.
			for i := range uint64(min(2**more, len(names))) {
				what := names[(2*seed+i)%uint64(len(names))]
				if broken := staleBreaks(t, m, older[what]); broken != "" {
					t.Errorf("%s, seen with %s: %s", m.name, what, broken)
				}
			}
		}
	})
	t.Run("earlier parents of the scripts", func(t *testing.T) {
		t.Parallel()
		all := scriptMoments(t)
		for i := 0; i < len(all); i += max(4 / *more, 1) {
			m := all[i]
			for _, back := range []int{1, 3, 8} {
				if back > i || all[i-back].script != m.script {
					break
				}
				if broken := staleBreaks(t, m, parsed(t, all[i-back].request.Parent)); broken != "" {
					t.Errorf("%s, seen with the parent %d syncs before: %s", m.name, back, broken)
				}
			}
		}
	})
}

// withoutRecords is the same moment of a job whose workers write no records: then
// the store knows no attempt's number.
func withoutRecords(m *moment) *moment {
	n := *m
	n.catalog = &checkpoint.Snapshot{ListedAt: m.catalog.ListedAt, Failure: m.catalog.Failure}
	n.name += " without records"
	return &n
}

// sound reports whether nothing is broken without an older parent: arbitrary moments
// may be impossible by themselves.
func sound(t *testing.T, m *moment) bool {
	t.Helper()
	c := newCluster(t, m)
	return c.answers(maxAnswers, nil) == "" && c.broken() == ""
}

// olderParents are what the parent may have been earlier, by what is told of it.
func olderParents(t *testing.T, m *moment) map[string]object {
	t.Helper()
	older := func(change func(parent, status object)) object {
		parent := parsed(t, m.request.Parent)
		status, _ := parent["status"].(object)
		if status == nil {
			status = object{}
			parent["status"] = status
		}
		change(parent, status)
		return parent
	}
	before := func(status object) {
		attempt, _ := status["attempt"].(int64)
		if attempt > 0 {
			status["attempt"] = attempt - 1
		}
		for _, key := range []string{"lastEnd", "yield", "podsEnding"} {
			if number(status, key, "attempt") >= attempt {
				delete(status, key)
			}
		}
		ledger, _ := status["ledger"].([]any)
		status["ledger"] = slices.DeleteFunc(ledger, func(e any) bool { return number(e.(object), "attempt") >= attempt })
	}
	return map[string]object{
		"no status":          older(func(p, _ object) { delete(p, "status") }),
		"the attempt before": older(func(_, s object) { before(s); s["phase"] = "Running" }),
		"no end":             older(func(_, s object) { delete(s, "lastEnd"); s["phase"] = "Running" }),
		"the Workload before": older(func(_, s object) {
			s["workloadNumber"] = max(number(s, "workloadNumber")-1, 0)
			delete(s, "forced")
		}),
		"suspend as it was": older(func(p, _ object) {
			spec := p["spec"].(object)
			suspend, _ := spec["suspend"].(bool)
			spec["suspend"] = !suspend
			p["metadata"].(object)["generation"] = max(number(p, "metadata", "generation")-1, 1)
		}),
	}
}

// staleRounds is how many answers are given upon the older parent.
const staleRounds = 4

// staleBreaks lets a runner write what it decides upon an older parent, and then all
// come to rest. It returns what must not be.
func staleBreaks(t *testing.T, m *moment, parent object) string {
	t.Helper()
	parent["metadata"].(object)["resourceVersion"] = "older"
	if equal(parent["status"], parsed(t, m.request.Parent)["status"]) && equal(parent["spec"], parsed(t, m.request.Parent)["spec"]) {
		return ""
	}
	c := newCluster(t, m)
	run := runID(t, c.now())
	stale := c.now()
	stale.request.Parent = encoded(t, parent)
	if other := runID(t, stale); other != run {
		return fmt.Sprintf("the run is %s, not %s", other, run)
	}
	c.answers(staleRounds, parent)
	c.answers(maxAnswers, nil)
	if broken := c.broken(); broken != "" {
		return broken + "\n" + c.story()
	}
	return ""
}

func runID(t *testing.T, m *moment) string {
	t.Helper()
	_, response := m.mustAnswer(t)
	return text(parsed(t, response.Status), "runID")
}

// answers gives and applies answers until nothing is written, upon the parent that
// stands, or upon an older one that is seen instead. It returns what must not be.
func (c *cluster) answers(most int, parent object) string {
	for range most {
		view := c.now()
		if parent != nil {
			view.request.Parent = encoded(c.t, parent)
		}
		d, response := view.mustAnswer(c.t)
		before := len(c.made)
		c.apply(view.request, d, response)
		if !d.Catalog.NotBefore.IsZero() {
			c.read()
		} else if len(c.made) == before || d.Finalized {
			return ""
		}
	}
	return "does not come to rest"
}

// starts is one start of a JobSet: which, by the number of its attempt, what the live
// status named, and what ran before.
type start struct {
	attempt, status int64
	running         []string
}

// notes a start, by the change of a JobSet.
func (c *cluster) noteStart(was, is object) {
	before, _ := below(was, "spec")["suspend"].(bool)
	after, _ := below(is, "spec")["suspend"].(bool)
	if before && !after {
		c.starts = append(c.starts, start{attemptOf(text(is, "metadata", "name")), number(c.parent, "status", "attempt"), c.running()})
	}
}

// broken is what the starts show that must not be.
func (c *cluster) broken() string {
	seen := map[int64]bool{}
	for _, s := range c.starts {
		switch {
		case s.attempt != s.status:
			return fmt.Sprintf("attempt %d is started while status.attempt is %d", s.attempt, s.status)
		case len(s.running) > 0:
			return fmt.Sprintf("attempt %d is started beside %s", s.attempt, strings.Join(s.running, ", "))
		case seen[s.attempt] || c.lived[s.attempt]:
			return fmt.Sprintf("attempt %d is started for the second time", s.attempt)
		}
		seen[s.attempt] = true
	}
	return ""
}

// noteLives notes which attempts may have run before the moment: those that were
// started, and those that status counts of which no JobSet waits for its start.
func (c *cluster) noteLives() {
	c.lived = map[int64]bool{}
	for n := int64(1); n <= number(c.parent, "status", "attempt"); n++ {
		c.lived[n] = true
	}
	for id, o := range c.objects {
		if !strings.HasPrefix(id, "JobSet.") {
			continue
		}
		suspend, _ := below(o, "spec")["suspend"].(bool)
		c.lived[attemptOf(text(o, "metadata", "name"))] = !suspend || text(o, "metadata", "annotations", "training.rtj.dev/started") != ""
	}
}

// attemptOf is the number at the end of a JobSet's name.
func attemptOf(name string) int64 {
	n, _ := strconv.ParseInt(name[strings.LastIndex(name, "-")+1:], 10, 64)
	return n
}
