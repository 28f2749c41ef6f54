package hooks

import (
	"context"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
)

// Launcher finds out why a JobSet does not come into being.
type Launcher interface {
	// DryRun tries to create the child of the parent, without effect. An error means
	// that it is not known what would happen.
	DryRun(ctx context.Context, parent *v1beta1.ResumableTrainingJob, child *compose.Child) (*compose.LaunchProbe, error)
}

const (
	// launchPatience is how long a wanted JobSet may be missing before its creation
	// is tried.
	launchPatience = 15 * time.Second
	// launchInterval is the time between two tries: what refuses it, such as a quota
	// of the namespace, may go away.
	launchInterval = 30 * time.Second
	// launchTimeout bounds one try, and so the answer that waits for it.
	launchTimeout = 2 * time.Second
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

func (m *memory) probe() *compose.LaunchProbe {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.launch.result
}

// tryLaunch remembers which JobSet is wanted, and tries its creation when it is
// missing for long. It reports whether that brought news.
func (h *Hooks) tryLaunch(ctx context.Context, m *memory, parent *v1beta1.ResumableTrainingJob, wanted *compose.Child, now time.Time) bool {
	if h.options.Launcher == nil || !m.launchDue(wanted, now) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	probe, err := h.options.Launcher.DryRun(ctx, parent, wanted)
	if err != nil {
		h.logger.Warn("dry run of a JobSet's creation", "namespace", parent.Namespace, "name", parent.Name, "jobSet", wanted.Name, "error", err)
		return false
	}
	return m.setProbe(wanted.Name, probe)
}

// launchDue takes note of the wish, and reports whether it is time for a try.
func (m *memory) launchDue(wanted *compose.Child, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
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

func (m *memory) setProbe(jobSet string, probe *compose.LaunchProbe) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.launch.jobSet != jobSet {
		return false
	}
	before := m.launch.result
	m.launch.result = probe
	return before == nil || *before != *probe
}

// launchAgain is when the creation is tried next; 0: it is not.
func (m *memory) launchAgain(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.launch.jobSet == "" {
		return 0
	}
	return max(m.launch.due.Sub(now), time.Millisecond)
}
