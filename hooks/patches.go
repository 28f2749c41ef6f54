package hooks

import "time"

const (
	// How soon a runner that is not told of news looks whether patches were made.
	firstPatchLook = 2 * time.Second
	maxPatchLook   = 30 * time.Second
)

// patchesAgain is when to decide again after an answer with patches: one that
// failed changes nothing, so nothing else may come to cause it. It waits longer
// the longer patches are wanted in a row; 0: nobody has to.
func (m *memory) patchesAgain(wanted bool, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !wanted {
		m.patchesSince = time.Time{}
		return 0
	}
	if m.patchesSince.IsZero() {
		m.patchesSince = now
	}
	return min(max(now.Sub(m.patchesSince)/4, firstPatchLook), maxPatchLook)
}

// tells reports whether somebody is told of news, such as that a patch failed.
func (h *Hooks) tells() bool {
	h.wakeMu.RLock()
	defer h.wakeMu.RUnlock()
	return h.wake != nil
}
