package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// majorVersion is the one major version of every document that is read here.
const majorVersion = 1

// MaxDocumentBytes bounds manifests and records. Index objects are larger:
// MaxIndexBytes.
const MaxDocumentBytes = 64 << 10

// errUnknownVersion marks a document of a major version that is not known.
var errUnknownVersion = errors.New("unknown version")

// envelope is what every document begins with.
type envelope struct {
	SchemaVersion *string `json:"schemaVersion"`
	Kind          any     `json:"kind"`
}

// check refuses another major version and another kind, in this order: a later
// version may have other kinds.
func (e *envelope) check(kind string) error {
	if e.SchemaVersion == nil {
		return errors.New("has no schemaVersion")
	}
	version := *e.SchemaVersion
	major, minor, ok := strings.Cut(version, ".")
	m, err := strconv.ParseUint(major, 10, 31)
	if _, minorErr := strconv.ParseUint(minor, 10, 31); !ok || err != nil || minorErr != nil {
		return fmt.Errorf("has schemaVersion %q, which is not <major>.<minor>", clip(version, 32))
	}
	if m != majorVersion {
		return fmt.Errorf("%w: schemaVersion %s, this controller reads %d.x", errUnknownVersion, clip(version, 32), majorVersion)
	}
	if e.Kind != kind {
		return fmt.Errorf("is of kind %q, not %s", clip(fmt.Sprint(e.Kind), 64), kind)
	}
	return nil
}

// decode reads a document of the kind into out, a pointer to a struct that begins
// with the envelope, and keeps quiet about fields that it does not know. A document
// that does not fit is first refused for what its envelope says.
func decode(data []byte, kind string, head *envelope, out any) error {
	if len(data) > MaxDocumentBytes && kind != kindIndex {
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(data), MaxDocumentBytes)
	}
	unfit := json.Unmarshal(data, out)
	if unfit != nil {
		*head = envelope{}
		if err := json.Unmarshal(data, head); err != nil {
			return fmt.Errorf("is not JSON of a %s: %s", kind, jsonError(err))
		}
	}
	if err := head.check(kind); err != nil {
		return err
	}
	if unfit != nil {
		return fmt.Errorf("is not a %s: %s", kind, jsonError(unfit))
	}
	return nil
}

// jsonError says where and what, without Go's type names.
func jsonError(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := wrong.Field
		// A field of an embedded struct is told with the struct's name.
		if embedded, rest, ok := strings.Cut(field, "."); ok && embedded[0] <= 'Z' {
			field = rest
		}
		if field == "" {
			field = "the document"
		}
		return fmt.Sprintf("%s cannot be a %s", field, wrong.Value)
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%s after byte %d", syntax.Error(), syntax.Offset)
	}
	return err.Error()
}
