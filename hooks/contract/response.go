package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	kjson "sigs.k8s.io/json"
)

// SyncResponse is what the sync and finalize hooks answer.
type SyncResponse struct {
	// Status replaces the status of the parent; the runner adds
	// observedGeneration. Empty or null, the status becomes observedGeneration
	// alone.
	Status json.RawMessage `json:"status,omitempty"`
	// Children are all the objects that should exist. An object that the parent
	// controls and that is not among them is deleted.
	Children []json.RawMessage `json:"children"`
	// ResyncAfterSeconds, if above zero, asks to be called again after that many
	// seconds at the latest. Fractions count.
	ResyncAfterSeconds float64 `json:"resyncAfterSeconds,omitempty"`
	// Finalized, in the answer of the finalize hook, lets the parent go.
	Finalized bool `json:"finalized,omitempty"`
}

// AppendJSON appends the response to dst as JSON. It trusts Status and Children
// to be JSON and copies them as they are, where json.Marshal would scan each of
// them again.
func (r *SyncResponse) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"status":`...)
	if len(r.Status) == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, r.Status...)
	}
	dst = append(dst, `,"children":[`...)
	for i, child := range r.Children {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, child...)
	}
	dst = append(dst, ']')
	if r.ResyncAfterSeconds > 0 {
		dst = append(dst, `,"resyncAfterSeconds":`...)
		dst = strconv.AppendFloat(dst, r.ResyncAfterSeconds, 'f', -1, 64)
	}
	if r.Finalized {
		dst = append(dst, `,"finalized":true`...)
	}
	return append(dst, '}')
}

// DecodeSyncResponse decodes the answer of a sync or finalize hook. Besides what
// is wrong with the envelope it refuses a name that occurs twice in an object, and
// a child that is null, lacks apiVersion, kind or metadata.name, or is there
// already. It returns an [*Error] for whatever it refuses. The result aliases data.
//
// A field that is null is as one that is not there.
func DecodeSyncResponse(data []byte) (*SyncResponse, error) {
	r, passedOver, err := DecodeSyncResponseLoosely(data)
	if err != nil {
		return nil, err
	}
	if len(passedOver) > 0 {
		return nil, passedOver[0]
	}
	return r, nil
}

// DecodeSyncResponseLoosely is [DecodeSyncResponse] with responseUnMarshallMode
// loose: it passes over unknown fields, takes the last of those that occur twice,
// and returns what it passed over. An answer that has unknown fields only is
// refused all the same: it would mean that there should be no children, and was
// most likely meant as an error.
func DecodeSyncResponseLoosely(data []byte) (r *SyncResponse, passedOver []*Error, err error) {
	s := &scanner{data: data}
	r = &SyncResponse{}
	known := 0
	err = s.names(func(key string, again bool) (err error) {
		if again {
			passedOver = append(passedOver, twice(key))
		}
		known++
		switch key {
		case "status":
			switch s.peek() {
			case '{', 'n':
				r.Status, err = s.raw()
			default:
				err = fieldError("", "want an object, got %s", s.describe())
			}
		case "children":
			r.Children = nil
			if s.peek() == 'n' {
				err = s.skip()
				break
			}
			err = s.elements(func(i int) error {
				child, err := s.object()
				r.Children = append(r.Children, child)
				return in(fmt.Sprintf("[%d]", i), err)
			})
		case "resyncAfterSeconds":
			r.ResyncAfterSeconds = 0
			if s.peek() == 'n' {
				err = s.skip()
				break
			}
			r.ResyncAfterSeconds, err = s.number()
		case "finalized":
			r.Finalized = false
			if s.peek() == 'n' {
				err = s.skip()
				break
			}
			r.Finalized, err = s.boolean()
		default:
			known--
			passedOver = append(passedOver, unknownField(key))
			return s.skip()
		}
		return in(key, err)
	})
	if err != nil {
		return nil, nil, err
	}
	if err := s.end(); err != nil {
		return nil, nil, err
	}
	if known == 0 && len(passedOver) > 0 {
		return nil, nil, passedOver[0]
	}
	if _, err := r.Identities(""); err != nil {
		return nil, nil, err
	}
	return r, append(passedOver, r.repeated()...), nil
}

func unknownField(key string) *Error { return fieldError("", "unknown field %s", strconv.Quote(key)) }

// repeated finds, in status and in each child, a name that occurs twice.
func (r *SyncResponse) repeated() []*Error {
	var found []*Error
	look := func(place string, raw json.RawMessage) {
		s := &scanner{data: raw}
		if err, ok := in(place, s.unique()).(*Error); ok {
			found = append(found, err)
		}
	}
	if len(r.Status) > 0 {
		look("status", r.Status)
	}
	for i, child := range r.Children {
		look(fmt.Sprintf("children[%d]", i), child)
	}
	return found
}

func (s *scanner) number() (float64, error) {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, fieldError("", "want a number, got %s", s.describe())
	}
	start := s.pos
	if err := s.skipNumber(); err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(string(s.data[start:s.pos]), 64)
	if err != nil {
		return 0, fieldError("", "number out of range")
	}
	return n, nil
}

// Identity says which object a child is.
type Identity struct {
	APIVersion string
	Kind       string
	Namespace  string
	Name       string
}

// String returns the identity for messages: "JobSet.jobset.x-k8s.io/v1alpha2 ns/name".
func (i Identity) String() string {
	return KindKey(i.APIVersion, i.Kind) + " " + ObjectKey(i.Namespace, i.Name)
}

// Identities returns the identity of each child, in order. A child without a
// namespace gets defaultNamespace. It returns an [*Error] for a child that is
// null, lacks apiVersion, kind or metadata.name, or occurs twice.
func (r *SyncResponse) Identities(defaultNamespace string) ([]Identity, error) {
	identities := make([]Identity, 0, len(r.Children))
	seen := make(map[Identity]bool, len(r.Children))
	for i, child := range r.Children {
		place := fmt.Sprintf("children[%d]", i)
		id, err := identify(child)
		if err != nil {
			return nil, in(place, err)
		}
		if id.Namespace == "" {
			id.Namespace = defaultNamespace
		}
		if seen[id] {
			return nil, fieldError(place, "%s occurs twice", id)
		}
		seen[id] = true
		identities = append(identities, id)
	}
	return identities, nil
}

func identify(child json.RawMessage) (Identity, error) {
	s := &scanner{data: child}
	if s.peek() != '{' {
		return Identity{}, fieldError("", "want an object, got %s", s.describe())
	}
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Namespace    string `json:"namespace"`
			Name         string `json:"name"`
			GenerateName string `json:"generateName"`
		} `json:"metadata"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(child, &head); err != nil {
		return Identity{}, fieldError("", "not an object of Kubernetes: %v", err)
	}
	switch {
	case head.APIVersion == "":
		return Identity{}, fieldError("apiVersion", "missing")
	case head.Kind == "":
		return Identity{}, fieldError("kind", "missing")
	case head.Metadata.Name == "" && head.Metadata.GenerateName != "":
		return Identity{}, fieldError("metadata.name", "missing: generateName makes a new object at each sync, name the child")
	case head.Metadata.Name == "":
		return Identity{}, fieldError("metadata.name", "missing")
	}
	return Identity{head.APIVersion, head.Kind, head.Metadata.Namespace, head.Metadata.Name}, nil
}

// IsNull tells whether raw holds no value: it is empty or null.
func IsNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}
