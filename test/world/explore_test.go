package world

import (
	"strings"
	"sync"
	"testing"

	"rtj.dev/rtj/compose"
)

// A clone that goes the same way ends in the same world, and leaves the one that it
// was made of alone.
func TestClonesGoTheSameWay(t *testing.T) {
	for seed := range uint64(30) {
		w := New(drawn(seed))
		w.chaos()
		before := w.fingerprint()
		a, b := w.Clone(), w.Clone()
		a.calm()
		b.calm()
		if a.fingerprint() != b.fingerprint() {
			t.Errorf("seed %d: two clones went different ways", seed)
		}
		if w.fingerprint() != before {
			t.Errorf("seed %d: what happens in a clone changes the world that it was made of", seed)
		}
	}
}

// The smallest world closes, with every promise kept. A world whose fingerprint is known
// may do the same as the first one that had it, and becomes the same: else the
// fingerprint would leave something out that matters.
func TestTheSmallestWorldCloses(t *testing.T) {
	x := Explore(Small(1, 0, 0, 0), Options{Workers: 2, Audit: 1})
	switch {
	case x.Unsound != "":
		t.Fatalf("%s\n%s", x.Unsound, x.Script)
	case x.Broken != nil:
		t.Fatalf("%v\n%s", x.Broken, x.Script)
	case !x.Closed || x.Left > 0:
		t.Fatalf("not closed: %d left", x.Left)
	case x.Ends == 0 || x.Audited == 0:
		t.Errorf("%d ends, %d worlds compared", x.Ends, x.Audited)
	}
	for _, pair := range []string{"phase Launches > Claimed", "phase Trains > Succeeded"} {
		if !x.Coverage.Pairs[pair] {
			t.Errorf("no pair %s", pair)
		}
	}
}

// What the fingerprint left out would be found: here it leaves out all of a world.
func TestAuditFindsWhatAFingerprintLeavesOut(t *testing.T) {
	a, b := New(Small(1, 0, 0, 0)), New(Small(1, 0, 0, 0))
	trials := b.trials()
	b.try(trials[0])
	x := &explorer{leads: make([]lead, 1)}
	x.more = sync.NewCond(&x.mu)
	for _, w := range []*World{a, b} {
		x.audit(todo{World: w}, lead{from: w, trials: w.trials()})
	}
	if !strings.Contains(x.found.Unsound, "What may happen in it, and in the second") {
		t.Errorf("%q", x.found.Unsound)
	}
}

// The last rule in a state is found on every way to it: on one way it is A, on the
// other B, and C follows.
func TestPairsAreThoseOfEveryWay(t *testing.T) {
	var c coverage
	c.begin()
	rule := func(name string) []decision { return []decision{{"job", "table", name}} }
	c.edge(-1, 0, nil)
	c.edge(0, 1, rule("A"))
	c.edge(0, 1, rule("B"))
	c.edge(1, 2, nil)
	c.edge(2, 3, rule("C"))
	pairs := c.close().Pairs
	for _, pair := range []string{"table A > C", "table B > C"} {
		if !pairs[pair] {
			t.Errorf("no pair %s in %v", pair, pairs)
		}
	}
	if len(pairs) != 2 {
		t.Errorf("%v", pairs)
	}
}

// A rule that neither decided nor is listed is told, and one that is listed and did.
func TestCoverageIsJudged(t *testing.T) {
	all := Coverage{Rules: map[string]int{}}
	for table, names := range compose.Tables() {
		for _, name := range names {
			if rule := table + " " + name; Unreached[rule] == "" {
				all.Rules[rule] = 1
			}
		}
	}
	if wrong := JudgeCoverage(all); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	decided, rules := all.Reached()
	all.Rules["release LeftoverWorkload"] = 1
	if d, n := all.Reached(); d != decided || n != rules || d+len(Unreached) != n || len(JudgeCoverage(all)) > 0 {
		t.Errorf("%d of %d rules, and %d are not reached; with what is beside the tables %d of %d: %v", decided, rules, len(Unreached), d, n, JudgeCoverage(all))
	}
	delete(all.Rules, "phase Terminal")
	if wrong := JudgeCoverage(all); len(wrong) != 1 || !strings.Contains(wrong[0], "phase Terminal never decided") {
		t.Error(wrong)
	}
	for rule := range Unreached {
		all.Rules = map[string]int{rule: 1}
		if wrong := strings.Join(JudgeCoverage(all), "\n"); !strings.Contains(wrong, "rule "+rule+" decided") {
			t.Error(wrong)
		}
		break
	}
}
