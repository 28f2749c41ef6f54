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
	// launchAgain is the time between two tries: what refuses it, such as a quota of
	// the namespace, may go away.
	launchAgain = 30 * time.Second
	// launchTimeout bounds one try.
	launchTimeout = 10 * time.Second
)

// launch is a JobSet that is wanted and not seen.
type launch struct {
	// jobSet is its name; empty: none is wanted.
	jobSet string
	// due is when its creation is tried next.
	due    time.Time
	trying bool
	result *compose.LaunchProbe
}

func (m *memory) probe() *compose.LaunchProbe {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.launch.result
}

// probeLaunch remembers which JobSet is wanted and tries its creation when it is
// missing for long. It returns when to look again; 0: no need.
func (h *Hooks) probeLaunch(m *memory, parent *v1beta1.ResumableTrainingJob, wanted *compose.Child, now time.Time) time.Duration {
	if h.options.Launcher == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if wanted == nil {
		m.launch = launch{}
		return 0
	}
	l := &m.launch
	if l.jobSet != wanted.Name {
		*l = launch{jobSet: wanted.Name, due: now.Add(launchPatience)}
	}
	switch {
	case l.trying:
		return lookAgain
	case now.Before(l.due):
		return l.due.Sub(now)
	}
	l.trying, l.due = true, now.Add(launchAgain)
	h.inBackground(func() {
		ctx, cancel := context.WithTimeout(h.ctx, launchTimeout)
		defer cancel()
		var probe *compose.LaunchProbe
		defer func() {
			if m.endProbe(wanted.Name, probe) {
				h.news(parent.Namespace, parent.Name)
			}
		}()
		var err error
		if probe, err = h.options.Launcher.DryRun(ctx, parent, wanted); err != nil {
			h.logger.Warn("dry run of a JobSet's creation", "namespace", parent.Namespace, "name", parent.Name, "jobSet", wanted.Name, "error", err)
		}
	})
	return lookAgain
}

// endProbe takes over what a try answered, and reports whether that is news.
func (m *memory) endProbe(jobSet string, probe *compose.LaunchProbe) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.launch.jobSet != jobSet {
		return false
	}
	m.launch.trying = false
	if probe == nil {
		return false
	}
	before := m.launch.result
	m.launch.result = probe
	return before == nil || *before != *probe
}
