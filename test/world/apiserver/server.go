package apiserver

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"time"
)

// Server is the API server. It is for one goroutine.
type Server struct {
	now      func() time.Time
	revision int64
	// existence is the revision of the last change of what exists, is to go and owns
	// what.
	existence int64
	uids      int64
	kinds     map[string]*history
	admit     map[string][]func(s *Server, old, new *Object) error
	defaults  map[string][]func(body map[string]any) map[string]any
	// Trace, if set, is told of every write that changed something, after it was done.
	Trace func(Write)
}

// Write is one change of an object.
type Write struct {
	// By names who wrote.
	By string
	// Old is nil for a creation, New once the object is gone.
	Old, New *Object
}

// Kind of the object.
func (w Write) Kind() string {
	if w.New != nil {
		return w.New.Kind
	}
	return w.Old.Kind
}

// history is what was of one kind, and is.
type history struct {
	states []state
}

// state is a kind at a revision and until the next one's, sorted by key.
type state struct {
	revision int64
	objects  []*Object
}

func (h *history) now() []*Object {
	if h == nil || len(h.states) == 0 {
		return nil
	}
	return h.states[len(h.states)-1].objects
}

// New returns an empty server.
func New(now func() time.Time) *Server {
	return &Server{
		now: now, kinds: map[string]*history{},
		admit:    map[string][]func(s *Server, old, new *Object) error{},
		defaults: map[string][]func(body map[string]any) map[string]any{},
	}
}

// Clone returns a server with the same objects, views and validators, by another
// clock. It is traced by nobody.
func (s *Server) Clone(now func() time.Time) *Server {
	c := &Server{now: now, revision: s.revision, existence: s.existence, uids: s.uids, kinds: make(map[string]*history, len(s.kinds)), admit: maps.Clone(s.admit), defaults: maps.Clone(s.defaults)}
	for kind, h := range s.kinds {
		// Appending to either copies.
		c.kinds[kind] = &history{states: slices.Clip(h.states)}
		h.states = slices.Clip(h.states)
	}
	return c
}

// Now is the time of the server.
func (s *Server) Now() time.Time { return s.now() }

// Timestamp is the time as objects have it: RFC 3339 in whole seconds.
func (s *Server) Timestamp() string { return s.now().UTC().Format(time.RFC3339) }

// Revision counts the changes of all objects.
func (s *Server) Revision() int64 { return s.revision }

// Existence is the revision of the last change of what exists, is to go, and owns what.
func (s *Server) Existence() int64 { return s.existence }

// Changed is the revision of the last change of a kind; 0: there was none.
func (s *Server) Changed(kind string) int64 {
	if h := s.kinds[kind]; h != nil && len(h.states) > 0 {
		return h.states[len(h.states)-1].revision
	}
	return 0
}

// Kinds are those of which there ever was an object, sorted.
func (s *Server) Kinds() []string { return slices.Sorted(maps.Keys(s.kinds)) }

// Admit adds a validator of a kind: old is nil at a creation, new at a deletion. Its
// error refuses the write; it should be one of the API's.
func (s *Server) Admit(kind string, f func(old, new *Object) error) {
	s.AdmitBy(kind, func(_ *Server, old, new *Object) error { return f(old, new) })
}

// AdmitBy adds a validator of a kind that looks at other objects: those of the server
// that validates, which may be a clone.
func (s *Server) AdmitBy(kind string, f func(s *Server, old, new *Object) error) {
	s.admit[kind] = append(slices.Clip(s.admit[kind]), f)
}

// Default adds what sets the defaults of a kind at its creation. It returns the body
// with them, and changes nothing of the one that it gets.
func (s *Server) Default(kind string, f func(body map[string]any) map[string]any) {
	s.defaults[kind] = append(slices.Clip(s.defaults[kind]), f)
}

// Get returns an object; nil when there is none.
func (s *Server) Get(kind, namespace, name string) *Object {
	return find(s.kinds[kind].now(), namespace, name)
}

// List returns the objects of a kind, sorted by namespace and name. The slice must
// not be changed.
func (s *Server) List(kind string) []*Object { return s.kinds[kind].now() }

// Each calls do for every object, by kind, namespace and name.
func (s *Server) Each(do func(*Object)) {
	for _, kind := range s.Kinds() {
		for _, o := range s.List(kind) {
			do(o)
		}
	}
}

// Owned returns the objects of a kind that the owner controls.
func (s *Server) Owned(kind, ownerUID string) (owned []*Object) {
	for _, o := range s.List(kind) {
		if o.Owner() == ownerUID {
			owned = append(owned, o)
		}
	}
	return owned
}

// View returns the objects of a kind as they were at a revision. The slice must not
// be changed.
func (s *Server) View(kind string, revision int64) []*Object {
	h := s.kinds[kind]
	if h == nil {
		return nil
	}
	i := sort.Search(len(h.states), func(i int) bool { return h.states[i].revision > revision })
	if i == 0 {
		return nil
	}
	return h.states[i-1].objects
}

// Changes returns the revisions after since at which a kind changed, oldest first:
// where a view may stand.
func (s *Server) Changes(kind string, since int64) (revisions []int64) {
	if h := s.kinds[kind]; h != nil {
		i := sort.Search(len(h.states), func(i int) bool { return h.states[i].revision > since })
		for _, state := range h.states[i:] {
			revisions = append(revisions, state.revision)
		}
	}
	return revisions
}

// Forget drops what no view from this revision on shows.
func (s *Server) Forget(kind string, revision int64) {
	h := s.kinds[kind]
	if h == nil {
		return
	}
	i := sort.Search(len(h.states), func(i int) bool { return h.states[i].revision > revision })
	if i > 64 {
		h.states = slices.Clone(h.states[i-1:])
	}
}

func compareKey(o *Object, namespace, name string) int {
	if c := strings.Compare(o.Namespace, namespace); c != 0 {
		return c
	}
	return strings.Compare(o.Name, name)
}

func place(objects []*Object, namespace, name string) (int, bool) {
	return slices.BinarySearchFunc(objects, struct{}{}, func(o *Object, _ struct{}) int { return compareKey(o, namespace, name) })
}

func find(objects []*Object, namespace, name string) *Object {
	if i, ok := place(objects, namespace, name); ok {
		return objects[i]
	}
	return nil
}

// store makes a version the newest, or, with nil, removes the object.
func (s *Server) store(by string, old, next *Object) {
	kept := old
	if kept == nil {
		kept = next
	}
	h := s.kinds[kept.Kind]
	if h == nil {
		h = &history{}
		s.kinds[kept.Kind] = h
	}
	was := h.now()
	i, exists := place(was, kept.Namespace, kept.Name)
	objects := make([]*Object, 0, len(was)+1)
	objects = append(objects, was[:i]...)
	if next != nil {
		objects = append(objects, next)
	}
	if exists {
		i++
	}
	objects = append(objects, was[i:]...)
	if next == nil {
		s.revision++ // a deletion is a change too
	}
	h.states = append(h.states, state{s.revision, objects})
	if old == nil || next == nil || old.deleting || next.deleting || !slices.Equal(old.owners, next.owners) {
		s.existence = s.revision
	}
	if s.Trace != nil {
		s.Trace(Write{By: by, Old: old, New: next})
	}
}
