package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
)

// Store is the place that storage.uri names, read only. Implementations are
// safe for use by several goroutines.
type Store interface {
	// List yields every object whose key begins with the prefix, which ends with a
	// slash; the keys of one folder come in the order of their bytes. An error is
	// yielded last. A prefix without objects is no error.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// Get reads an object of at most maxBytes. The error is ErrNotExist, a
	// *TooLargeError, or says why the store cannot be read.
	Get(ctx context.Context, key string, maxBytes int64) ([]byte, Object, error)
}

// Object is what a listing tells of an object.
type Object struct {
	// Key is relative to the store's root.
	Key   string
	Bytes int64
	// ETag is without quotes.
	ETag     string
	Modified time.Time
}

// ErrNotExist is returned for an object that is not there.
var ErrNotExist = errors.New("the object does not exist")

// TooLargeError is returned for an object that exceeds what was asked for.
type TooLargeError struct {
	Bytes int64
	Max   int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("has %d bytes, at most %d are read", e.Bytes, e.Max)
}

// Error says why a store cannot be read, and what kind of remedy that needs.
// Its message holds no secret.
type Error struct {
	Kind    checkpoint.FailureKind
	Message string
}

func (e *Error) Error() string { return e.Message }

// Location names a store.
type Location struct {
	// URI is s3://bucket/prefix.
	URI string
	// Endpoint is the server's URL; empty means AWS.
	Endpoint string
	// Region of the bucket; empty asks AWS, and means us-east-1 elsewhere.
	Region string
}

// Credentials of a store. They print as nothing.
type Credentials struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string
}

const redacted = "(credentials)"

// String hides the credentials from fmt.
func (Credentials) String() string { return redacted }

// GoString hides the credentials from fmt's %#v.
func (Credentials) GoString() string { return redacted }

// LogValue hides the credentials from slog.
func (Credentials) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the credentials from encoders.
func (Credentials) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Opener opens the store at a location. Without credentials those of the
// environment are used.
type Opener func(Location, *Credentials) (Store, error)
