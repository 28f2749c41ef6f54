package hooks

import (
	"context"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/hooks/edge"
)

// Store reads the metadata of runs. Its readings are never nil, and say why the
// store could not be read. [catalog.Reader] is one.
type Store interface {
	Read(ctx context.Context, run catalog.Run, ask catalog.Ask) *checkpoint.Snapshot
}

// Secrets has the credentials of stores. live.Secrets is one.
type Secrets interface {
	// Get returns the credentials in a Secret, or what a person has to do about it.
	Get(ctx context.Context, namespace, name string) (*catalog.Credentials, *checkpoint.Failure)
	// Forget has the Secret read anew, after a store refused what is in it.
	Forget(namespace, name string)
}

// read begins a reading and waits for it, until it ends or takes long; then the
// job is synced again when it ends.
func (h *Hooks) read(ctx context.Context, m *memory, r *edge.Reading) {
	done := make(chan struct{})
	h.inBackground(func() {
		// What stands if the reading panics.
		snapshot := &checkpoint.Snapshot{ListedAt: r.Begun, Failure: &checkpoint.Failure{
			Kind: checkpoint.Unreachable, Message: "internal error while reading the store; see the log of rtj"}}
		defer func() { h.endReading(m, r, snapshot, done) }()
		ctx, cancel := context.WithTimeout(h.ctx, edge.ReadTimeout)
		defer cancel()
		snapshot = h.readNow(ctx, r)
	})
	patience := time.NewTimer(h.options.InlineRead)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	case <-ctx.Done():
	}
}

// readNow gets the credentials and reads.
func (h *Hooks) readNow(ctx context.Context, r *edge.Reading) *checkpoint.Snapshot {
	var credentials *catalog.Credentials
	namespace, secret := r.Place.Secret()
	if secret != "" && h.options.Secrets != nil {
		var failure *checkpoint.Failure
		if credentials, failure = h.options.Secrets.Get(ctx, namespace, secret); failure != nil {
			return &checkpoint.Snapshot{ListedAt: r.Begun, Failure: failure}
		}
	}
	snapshot := h.options.Store.Read(ctx, r.Place.Run(credentials), r.Ask)
	if f := snapshot.Failure; f != nil && f.Kind == checkpoint.AccessDenied && credentials != nil {
		h.options.Secrets.Forget(namespace, secret)
	}
	return snapshot
}

func (h *Hooks) endReading(m *memory, r *edge.Reading, snapshot *checkpoint.Snapshot, done chan struct{}) {
	h.options.Metrics.read(h.now().Sub(r.Begun), snapshot)
	m.mu.Lock()
	waited := m.EndReading(r, snapshot)
	m.mu.Unlock()
	close(done)
	if !waited {
		h.News(r.Place.Job())
	}
}
