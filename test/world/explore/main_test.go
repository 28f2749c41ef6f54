package main

import (
	"strings"
	"testing"

	"rtj.dev/rtj/test/world"
)

func TestWhichWorldsAreExplored(t *testing.T) {
	for _, c := range []struct {
		ask   asked
		names string // of the worlds
		wrong string // in the error
	}{
		{asked{given: []string{"audit"}}, "one job; one job and one fault; one job and one act of people; two jobs, of which one preempts the other; two jobs, of which one preempts the other, and one fault", ""},
		{asked{given: []string{"world"}, world: "one job"}, "one job", ""},
		{asked{given: []string{"jobs", "faults"}, jobs: 2, faults: 1}, "the world", ""},
		{asked{given: []string{"world"}, world: "no job"}, "", "no world is called \"no job\"; there are: one job; one job and one fault; one job and one act of people; two jobs, of which"},
		{asked{given: []string{"world"}}, "", "no world is called \"\""},
		{asked{given: []string{"jobs", "world"}, jobs: 1, world: "one job"}, "", "-world and -jobs"},
		{asked{given: []string{"jobs"}}, "", "-jobs 0"},
		{asked{given: []string{"jobs"}, jobs: 27}, "", "-jobs 27"},
		{asked{given: []string{"jobs", "urgent"}, jobs: 1, urgent: 2}, "", "-urgent 2"},
		{asked{given: []string{"jobs", "urgent"}, jobs: 1, urgent: -1}, "", "-urgent -1"},
		{asked{given: []string{"jobs", "acts"}, jobs: 1, acts: -2}, "", "-acts -2"},
		{asked{given: []string{"jobs", "faults"}, jobs: 1, faults: -3}, "", "-faults -3"},
		{asked{given: []string{"acts"}, acts: 1}, "", "-acts is for a world that is described by -jobs"},
		{asked{given: []string{"urgent", "world"}, urgent: 1, world: "one job"}, "", "-urgent is for"},
		{asked{given: []string{"faults"}}, "", "-faults is for"},
		{asked{given: []string{"coarse"}}, "", "-coarse is for"},
	} {
		worlds, err := c.ask.worlds()
		var names []string
		for _, w := range worlds {
			names = append(names, w.Name)
		}
		if got := strings.Join(names, "; "); got != c.names {
			t.Errorf("%+v: worlds %q, want %q", c.ask, got, c.names)
		}
		switch {
		case c.wrong == "" && err != nil, c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%+v: %v, want %q", c.ask, err, c.wrong)
		}
	}
	w, err := (&asked{given: []string{"jobs", "urgent"}, jobs: 3, urgent: 1, acts: 2, faults: 4, coarse: true}).worlds()
	if err != nil || len(w) != 1 || w[0].Jobs != 3 || w[0].Urgent != 1 || w[0].Acts != 2 || w[0].FaultsLeft != 4 || !w[0].CoarseTimes {
		t.Errorf("%+v, %v, want %+v", w, err, world.Small(3, 1, 2, 4))
	}
}
