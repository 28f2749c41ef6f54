package store

import (
	"crypto/md5"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

// Object is one version of an object. It must not be changed; clones of a store
// share it.
type Object struct {
	// Key is the bucket and the key in it.
	Key string
	// Data are the bytes that a read returns. They are not those of the ETag once
	// they have rotted.
	Data     []byte
	ETag     string
	Modified time.Time

	parse  sync.Once
	parsed any

	meaning sync.Once
	means   string

	judging  sync.Mutex
	verdicts []verdict
}

// Bytes is the object's size.
func (o *Object) Bytes() int64 { return int64(len(o.Data)) }

// ETag is that of an object of one PUT.
func ETag(data []byte) string {
	sum := md5.Sum(data)
	return hex.EncodeToString(sum[:])
}

// document is a record as it was parsed; problem says why it cannot be used.
type document[T any] struct {
	value   *T
	problem string
}

// parsedAs returns the object's bytes as parsed by parse, which is called once. The
// key decides what kind of document it is, so there is only one.
func parsedAs[K, T any](o *Object, name K, parse func(K, []byte) (*T, error)) document[T] {
	o.parse.Do(func() {
		var d document[T]
		var err error
		if o.Bytes() > checkpoint.MaxDocumentBytes {
			err = &catalog.TooLargeError{Bytes: o.Bytes(), Max: checkpoint.MaxDocumentBytes}
		} else {
			d.value, err = parse(name, o.Data)
		}
		if err != nil {
			d.problem = err.Error()
		}
		o.parsed = d
	})
	return o.parsed.(document[T])
}

// manifest returns the object as a manifest with its index objects.
func (o *Object) manifest() *checkpoint.Manifest {
	o.parse.Do(func() {
		id := idOf(o.Key)
		var m checkpoint.Manifest
		if o.Bytes() > checkpoint.MaxDocumentBytes {
			m = checkpoint.NamedManifest(id)
			if m.Defect == nil {
				tooLarge := catalog.TooLargeError{Bytes: o.Bytes(), Max: checkpoint.MaxDocumentBytes}
				m = m.WithDefect(checkpoint.ReasonCorruptManifest, "manifests/"+id+".json "+tooLarge.Error())
			}
		} else {
			m = checkpoint.ParseManifest(id, o.Data)
		}
		m.CommittedAt = o.Modified.UTC()
		o.parsed = &m
	})
	return o.parsed.(*checkpoint.Manifest)
}

func idOf(key string) string {
	return strings.TrimSuffix(key[strings.LastIndexByte(key, '/')+1:], ".json")
}
