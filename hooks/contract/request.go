package contract

import (
	"encoding/json"
	"strconv"
)

// SyncRequest is what a runner sends to the sync and finalize hooks.
//
// The objects of a decoded request alias the bytes that it was decoded from.
// They must not be modified.
type SyncRequest struct {
	// Controller is the CompositeController for which the hook is called.
	Controller json.RawMessage `json:"controller"`
	// Parent is the object to be synced.
	Parent json.RawMessage `json:"parent"`
	// Children are the objects that the parent controls, of the kinds that the
	// controller declares; a declared kind without objects has an empty map.
	Children ObjectMap `json:"children"`
	// Related are the objects that the customize hook asked for.
	Related ObjectMap `json:"related"`
	// Finalizing is true exactly for the finalize hook.
	Finalizing bool `json:"finalizing"`
	// ServerSideApplied names the first child, by kind and place, that the runner
	// wrote by server-side apply; empty: none was, as far as the request shows. It is
	// no part of the message, but found out from managedFields when it is decoded.
	ServerSideApplied string `json:"-"`
}

// CustomizeRequest is what a runner sends to the customize hook.
type CustomizeRequest struct {
	// Controller is the CompositeController for which the hook is called.
	Controller json.RawMessage `json:"controller"`
	// Parent is the object whose related objects are asked for.
	Parent json.RawMessage `json:"parent"`
}

// DecodeSyncRequest decodes the body of a sync or finalize request. All five
// fields are required: a hook that took missing children for none would start
// what already runs. A related of null is taken as empty, since Metacontroller
// can send it; a children of null is refused, since it cannot.
//
// It returns an [*Error] for whatever it refuses. The result aliases data, which
// must not be modified afterwards.
func DecodeSyncRequest(data []byte) (*SyncRequest, error) {
	s := &scanner{data: data}
	r := &SyncRequest{}
	var controller, parent, children, related, finalizing bool
	err := s.members(func(key string) (err error) {
		switch key {
		case "controller":
			controller = true
			r.Controller, err = s.object()
		case "parent":
			parent = true
			r.Parent, err = s.object()
		case "children":
			children = true
			r.Children, err = s.objectMap(func(kind, place string) {
				if s.serverSide && r.ServerSideApplied == "" {
					r.ServerSideApplied = kind + " " + place
				}
			})
		case "related":
			related = true
			if s.peek() == 'n' {
				r.Related = ObjectMap{}
				err = s.skip()
			} else {
				r.Related, err = s.objectMap(func(string, string) {})
			}
		case "finalizing":
			finalizing = true
			r.Finalizing, err = s.boolean()
		default:
			return unknownField(key)
		}
		return in(key, err)
	})
	if err != nil {
		return nil, err
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	return r, required(field{"controller", controller}, field{"parent", parent}, field{"children", children},
		field{"related", related}, field{"finalizing", finalizing})
}

// AppendJSON appends the request to dst as JSON, the objects as they are. Kinds
// and objects come in the order of their keys, so equal requests are equal bytes.
func (r *SyncRequest) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"controller":`...)
	dst = append(dst, r.Controller...)
	dst = append(dst, `,"parent":`...)
	dst = append(dst, r.Parent...)
	dst = append(dst, `,"children":`...)
	dst = r.Children.appendJSON(dst)
	dst = append(dst, `,"related":`...)
	dst = r.Related.appendJSON(dst)
	dst = append(dst, `,"finalizing":`...)
	dst = strconv.AppendBool(dst, r.Finalizing)
	return append(dst, '}')
}

// AppendJSON appends the request to dst as JSON, the objects as they are.
func (r *CustomizeRequest) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"controller":`...)
	dst = append(dst, r.Controller...)
	dst = append(dst, `,"parent":`...)
	dst = append(dst, r.Parent...)
	return append(dst, '}')
}

// DecodeCustomizeRequest decodes the body of a customize request, under the same
// rules as [DecodeSyncRequest].
func DecodeCustomizeRequest(data []byte) (*CustomizeRequest, error) {
	s := &scanner{data: data}
	r := &CustomizeRequest{}
	var controller, parent bool
	err := s.members(func(key string) (err error) {
		switch key {
		case "controller":
			controller = true
			r.Controller, err = s.object()
		case "parent":
			parent = true
			r.Parent, err = s.object()
		default:
			return unknownField(key)
		}
		return in(key, err)
	})
	if err != nil {
		return nil, err
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	return r, required(field{"controller", controller}, field{"parent", parent})
}

// objectMap reads the value of children or related, and tells of each object that
// was read.
func (s *scanner) objectMap(read func(kind, place string)) (ObjectMap, error) {
	kinds := ObjectMap{}
	err := s.members(func(kind string) error {
		if _, err := ParseKindKey(kind); err != nil {
			return fieldError("", "%v", err)
		}
		objects := map[string]json.RawMessage{}
		kinds[kind] = objects
		return in(index(kind), s.members(func(place string) error {
			if place == "" {
				return fieldError("", "an object without a name")
			}
			object, err := s.object()
			objects[place] = object
			read(kind, place)
			return in(index(place), err)
		}))
	})
	return kinds, err
}

func (s *scanner) boolean() (bool, error) {
	switch s.peek() {
	case 't':
		return true, s.skip()
	case 'f':
		return false, s.skip()
	default:
		return false, fieldError("", "want a boolean, got %s", s.describe())
	}
}

type field struct {
	name string
	seen bool
}

func required(fields ...field) error {
	for _, f := range fields {
		if !f.seen {
			return fieldError(f.name, "missing")
		}
	}
	return nil
}
