package trainer

import (
	"fmt"
	"strings"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/store"
)

// Do has the workers do the one thing that they may do now whose name ends so:
// "a-1 commits step 3". It is an error if there is none, or more than one.
func (t *Trainer) Do(what string) error {
	var found []event.Event
	var names []string
	t.Events(func(e event.Event) {
		names = append(names, e.Name)
		if e.Name == what || strings.HasSuffix(e.Name, "/"+what) || strings.HasSuffix(e.Name, " "+what) {
			found = append(found, e)
		}
	})
	if len(found) != 1 {
		return fmt.Errorf("%d events are %q; offered are %q", len(found), what, names)
	}
	found[0].Do()
	return nil
}

// Work has the workers do what they may do now, faults left out, attempt by attempt in
// turn, until done says so or nothing is left. It reports whether done did. No time
// passes. Steps come last, so that a save is stored before the next one.
func (t *Trainer) Work(done func() bool) bool {
	// Without time a training that never ends makes steps for ever.
	const enough = 100_000
	for turn := range enough {
		if done() {
			return true
		}
		var next func()
		for i := range t.gangs {
			g := &t.gangs[(turn+i)%len(t.gangs)]
			t.gangEvents(g, t.env.Now(), func(e event.Event) {
				if next == nil && !e.Fault {
					next = e.Do
				}
			})
		}
		if next == nil {
			return false
		}
		next()
	}
	return false
}

// Hand writes what the workers of an attempt write, for scripts that have none: the
// same documents under the same keys. Errors are those of the store.
type Hand struct {
	Store                              *store.Store
	Now                                func() time.Time
	StorageURI, Namespace, Name, RunID string
	Attempt, WorldSize                 int32
	Identity                           map[string]string
	Behaviour                          Behaviour
	// Label tells the nonces of hands of the same attempt apart.
	Label string

	saves int
}

func (h *Hand) environment() *environment {
	e := &environment{
		namespace: h.Namespace, name: h.Name, runID: h.RunID, attempt: h.Attempt, worldSize: h.WorldSize, identity: h.Identity,
		prefix: store.RunPrefix(h.StorageURI, h.Namespace, h.Name, h.RunID),
	}
	if e.identity == nil {
		e.identity = map[string]string{}
	}
	return e
}

func (h *Hand) put(key string, data []byte) error {
	_, err := h.Store.Put(h.environment().prefix+key, data)
	return err
}

// Start writes the start record; restore is a checkpoint id, or empty for a fresh start.
func (h *Hand) Start(restore string) error {
	s := &checkpoint.Start{Attempt: h.Attempt, WorldSize: h.WorldSize, Layout: h.environment().layout(), StartedAt: h.Now().UTC()}
	if restore != "" {
		attempt, step, _, _, err := checkpoint.ParseID(restore)
		if err != nil {
			return err
		}
		s.Restore = &checkpoint.Restore{Checkpoint: restore, Attempt: attempt, Step: step}
	}
	return h.put(recordKey(h.Attempt, "start"), encode(startDocument{ofKind("AttemptStart"), s}))
}

// Commit makes a whole checkpoint and returns its id.
func (h *Hand) Commit(step int64) (id string, err error) {
	e := h.environment()
	h.saves++
	g := gang{env: e, behaviour: h.Behaviour, label: fmt.Sprintf("hand %s %s/%s-%d ", h.Label, h.Namespace, h.Name, h.Attempt), saves: h.saves - 1}
	g.WorldSize = h.WorldSize
	s := g.begin(step, h.Now())
	for _, part := range s.parts {
		if err := h.put(part.key, part.data); err != nil {
			return "", err
		}
	}
	id, data := manifest(e, &h.Behaviour, s, h.Now().UTC())
	return id, h.put("manifests/"+id+".json", data)
}

// Progress writes the progress record.
func (h *Hand) Progress(p checkpoint.Progress) error {
	p.Attempt = h.Attempt
	if p.UpdatedAt.IsZero() {
		p.UpdatedAt = h.Now().UTC()
	}
	return h.put(recordKey(h.Attempt, "progress"), encodeProgress(&p))
}

// Result writes the result record.
func (h *Hand) Result(r checkpoint.Result) error {
	d := resultDocument{
		head: ofKind("AttemptResult"), Attempt: h.Attempt, Outcome: r.Outcome, Step: r.Step, LostSteps: r.LostSteps,
		Message: r.Message, RestoreFailure: r.RestoreFailure, EndedAt: h.Now().UTC(),
	}
	if r.Checkpoint != "" {
		d.Checkpoint = &r.Checkpoint
	}
	return h.put(recordKey(h.Attempt, "result"), encode(d))
}

// Quarantine writes the quarantine record of a checkpoint.
func (h *Hand) Quarantine(q checkpoint.Quarantine) error {
	if q.RecordedAt.IsZero() {
		q.RecordedAt = h.Now().UTC()
	}
	return h.put("quarantine/"+q.Checkpoint+".json", encode(quarantineDocument{ofKind("Quarantine"), &q}))
}

// Lift removes a quarantine.
func (h *Hand) Lift(id string) error {
	return h.Store.Delete(h.environment().prefix + "quarantine/" + id + ".json")
}
