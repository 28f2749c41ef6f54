package edge

import (
	"time"

	"rtj.dev/rtj/compose"
)

const (
	// launchPatience is how long a wanted JobSet may be missing before its creation
	// is tried.
	launchPatience = 15 * time.Second
	// launchInterval is the time between two tries: what refuses it, such as a quota
	// of the namespace, may go away.
	launchInterval = 30 * time.Second
)

// launch is a JobSet that is wanted and not seen.
type launch struct {
	// jobSet is its name; empty: none is wanted.
	jobSet string
	// due is when its creation is tried next.
	due    time.Time
	result *compose.LaunchProbe
}

// lasting is the result if it still counts when another JobSet is wanted: that a
// name is taken is why another one is wanted.
func (l *launch) lasting() *compose.LaunchProbe {
	if l.result != nil && l.result.Foreign {
		return l.result
	}
	return nil
}

// launchDue takes note of the wish, and reports whether it is time for a try.
func (m *Memory) launchDue(wanted *compose.Child, now time.Time) bool {
	l := &m.launch
	switch {
	case wanted == nil:
		*l = launch{result: l.lasting()}
		return false
	case l.jobSet != wanted.Name:
		*l = launch{jobSet: wanted.Name, due: now.Add(launchPatience), result: l.lasting()}
		return false
	case now.Before(l.due):
		return false
	}
	l.due = now.Add(launchInterval)
	return true
}

func (m *Memory) setProbe(jobSet string, probe *compose.LaunchProbe) bool {
	if m.launch.jobSet != jobSet {
		return false
	}
	before := m.launch.result
	m.launch.result = probe
	return before == nil || *before != *probe
}

// launchAgain is when the creation is tried next; 0: it is not.
func (m *Memory) launchAgain(now time.Time) time.Duration {
	if m.launch.jobSet == "" {
		return 0
	}
	return max(m.launch.due.Sub(now), time.Millisecond)
}
