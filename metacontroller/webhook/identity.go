package webhook

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// IdentityHeader, in the answer of a hook, says which version of it decides: a
// release, or the digest of a program. Hooks that set it, also in answers to HEAD,
// have every parent synced again when it changes; see [applier.Changing].
const IdentityHeader = "Hook-Identity"

const (
	// identityInterval is how often hooks that say who they are are asked.
	identityInterval = 5 * time.Second
	// identityTimeout bounds how long the answer may take.
	identityTimeout = 2 * time.Second
)

// self is what the hooks of a controller last said about who they are.
type self struct {
	mu       sync.Mutex
	last     string
	onChange func()
}

// note takes it from an answer. An answer that says nothing changes nothing.
func (s *self) note(answer *http.Response) {
	says := answer.Header.Get(IdentityHeader)
	if says == "" {
		return
	}
	s.mu.Lock()
	changed, tell := s.last != "" && s.last != says, s.onChange
	s.last = says
	s.mu.Unlock()
	if changed && tell != nil {
		tell()
	}
}

func (s *self) known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last != ""
}

// OnChange implements [applier.Changing].
func (h *Hooks) OnChange(f func()) {
	h.self.mu.Lock()
	defer h.self.mu.Unlock()
	h.self.onChange = f
}

// watchIdentity asks hooks that have said who they are with an answer whether they
// still are, so that a change is noticed where nothing happens. Others are left
// alone.
func (h *Hooks) watchIdentity(ctx context.Context) {
	hook := h.sync
	if hook == nil {
		hook = h.finalize
	}
	tick := time.NewTicker(identityInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if hook == nil || !h.self.known() {
			continue
		}
		if answer, err := hook.head(ctx); err == nil {
			answer.Body.Close()
			h.self.note(answer)
		}
	}
}

func (h *hook) head(ctx context.Context) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	access, err := h.connection.access(ctx)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, h.url.String(), nil)
	if err != nil {
		return nil, err
	}
	if access.authorization != "" {
		request.Header.Set("Authorization", access.authorization)
	}
	return access.client.Do(request)
}
