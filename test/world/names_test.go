package world

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Names of events say what they are: the packages that offer them and those that read
// the names agree. Whatever is read is offered in one of the first worlds.
func TestNamesThatAreReadAreOffered(t *testing.T) {
	const worlds = 60
	missing := map[string]func(name string) bool{}
	prefix := func(some ...string) {
		for _, p := range some {
			missing[p+"..."] = func(name string) bool { return strings.HasPrefix(name, p) }
		}
	}
	prefix(settling...)
	prefix(queueEvents...)
	prefix(alike...)
	prefix(damaging...)
	prefix(hiding...)
	prefix(startByHand, noRoom, answersAgain, creation, "rtj-0: sync ", "rtj-0: starts", "rtj-1: starts")
	for _, l := range lasts {
		if strings.HasPrefix(l.name, " ") {
			missing["..."+l.name] = func(name string) bool { return strings.HasSuffix(name, l.name) }
		} else {
			prefix(l.name)
		}
	}
	missing["a request of a sync"] = midSync
	// The pods of a lost node are deleted by other ways before the five minutes are over
	// after which the taint evicts them; tests of package jobs have them wait that long.
	delete(missing, "taints: ...")
	for seed := uint64(0); seed < worlds && len(missing) > 0; seed++ {
		script, _ := Recorded(seed)
		w := New(drawn(seed))
		jobs := w.config.jobNames()
		for _, line := range script {
			if w.broken != nil {
				t.Fatal(w.broken)
			}
			var next *choice
			for c := range w.events() {
				for what, is := range missing {
					if is(c.Name) {
						delete(missing, what)
					}
				}
				if err := aboutAJob(c, jobs); err != nil {
					t.Fatalf("seed %d: %s", seed, err)
				}
				if c.Name == line {
					next = c
				}
			}
			if d, ok := timeOf(line); ok {
				w.pass(d)
			} else if next != nil {
				w.do(*next)
			}
		}
	}
	for what := range missing {
		t.Errorf("no event %q is offered in the first %d worlds", what, worlds)
	}
}

// aboutAJob tells what is wrong with the job that an event is about by its name. Of some
// nobody asks that: faults; what is said of queues; what people do after they created the
// jobs, with the end of a namespace; what a listing shows late, since in worlds that are explored it shows all at once.
func aboutAJob(c *choice, jobs []string) error {
	people := strings.HasPrefix(c.Name, "user: ") && !strings.HasPrefix(c.Name, creation)
	if c.Fault || people || aboutQueues(c.Name) || hasPrefix(c.Name, []string{"namespace: ", "store: list shows "}) {
		return nil
	}
	switch job := jobOf(c.Name); {
	case job != "" && !slices.Contains(jobs, job):
		return fmt.Errorf("%q is about %q, and the jobs are %q", c.Name, job, jobs)
	case job == "" && hasPrefix(c.Name, []string{noRoom, creation, "rtj-0: sync ", "trainer: "}):
		return fmt.Errorf("%q is about no job", c.Name)
	}
	return nil
}
