package store

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

// Env is what a store needs of its world.
type Env struct {
	Now func() time.Time
}

// PageSize is the most objects that one page of a listing has.
const PageSize = 1000

// Store is all buckets. Keys begin with the bucket. It may be read by several
// goroutines; whoever writes must be alone.
type Store struct {
	env Env
	// Offer says what may happen to the store by itself.
	Offer Faults

	// objects in the order of their keys. Shared with clones until the next write.
	objects []*Object
	shared  bool
	// revision counts changes of objects, shape those of which keys there are.
	revision, shape int64
	// possible are the faults of objects as of a shape. Never changed in place.
	possible      []fault
	possibleShape int64

	// failure is why nothing can be read or written; nil when it can.
	failure *catalog.Error
	// failureEnds is when it passes by itself; zero: never.
	failureEnds time.Time
	// unreadable are keys that are listed and said not to exist. Never changed in
	// place.
	unreadable []string
	// late are the objects that a listing does not show yet. Never changed in place.
	late []lateObject
	// lateness is how late listings may be; 0: never.
	lateness time.Duration
	// uploads that are not completed. Never changed in place.
	uploads []upload
	made    int
}

// New returns a store without objects.
func New(env Env) *Store { return &Store{env: env} }

// Clone returns a store with the same objects in another world.
func (s *Store) Clone(env Env) *Store {
	s.shared = true
	c := *s
	c.env = env
	return &c
}

// Revision counts the changes of objects.
func (s *Store) Revision() int64 { return s.revision }

// Root is where the keys below a storage URI begin: its bucket and prefix.
func Root(uri string) string {
	root := strings.Trim(strings.TrimPrefix(uri, "s3://"), "/")
	if root == "" {
		return ""
	}
	return root + "/"
}

// RunPrefix is where a run is: what is below it are the keys of docs/formats.md.
func RunPrefix(uri, namespace, name, runID string) string {
	return Root(uri) + namespace + "/" + name + "/" + runID + "/"
}

// Put stores an object and returns its ETag. The data is the store's from then on.
// Errors are of type [*catalog.Error]; of kind Unreachable when trying again may help.
func (s *Store) Put(key string, data []byte) (etag string, err error) {
	return s.put(&Object{Key: key, Data: data})
}

// PutProgress is Put of a progress record, encoded, by somebody who has what is made of
// it when it is read. Neither may be changed from then on.
func (s *Store) PutProgress(key string, data []byte, says *checkpoint.Progress) (etag string, err error) {
	o := &Object{Key: key, Data: data}
	o.parse.Do(func() { o.parsed = document[checkpoint.Progress]{value: says} })
	return s.put(o)
}

func (s *Store) put(o *Object) (etag string, err error) {
	if err := s.Failure(); err != nil {
		return "", err
	}
	o.ETag, o.Modified = ETag(o.Data), s.modified()
	s.set(o)
	return o.ETag, nil
}

// PutLost stores an object, and the answer is lost.
func (s *Store) PutLost(key string, data []byte) error {
	if _, err := s.Put(key, data); err != nil {
		return err
	}
	return errLost
}

var errLost = &catalog.Error{Kind: "StoreUnreachable", Message: "the connection broke before the answer came"}

// modified is the time that a listing shows: whole seconds.
func (s *Store) modified() time.Time { return s.env.Now().UTC().Truncate(time.Second) }

// Get reads an object. The error is [catalog.ErrNotExist] or a [*catalog.Error].
func (s *Store) Get(key string) (*Object, error) {
	if err := s.Failure(); err != nil {
		return nil, err
	}
	if o := s.get(key); o != nil {
		return o, nil
	}
	return nil, catalog.ErrNotExist
}

// get is Get of a store that answers; nil when there is no object.
func (s *Store) get(key string) *Object {
	at, found := s.find(key)
	if !found || len(s.unreadable) > 0 && slices.Contains(s.unreadable, key) {
		return nil
	}
	return s.objects[at]
}

// Has reports whether there is an object, whatever the store would answer.
func (s *Store) Has(key string) bool {
	_, found := s.find(key)
	return found
}

// List returns a page of at most limit objects whose keys begin with the prefix and
// come after a key, and whether there are more. A limit of 0 means PageSize.
func (s *Store) List(prefix, after string, limit int) (page []*Object, more bool, err error) {
	if err := s.Failure(); err != nil {
		return nil, false, err
	}
	if limit <= 0 || limit > PageSize {
		limit = PageSize
	}
	s.each(prefix, after, func(o *Object) bool {
		if more = len(page) == limit; !more {
			page = append(page, o)
		}
		return !more
	})
	return page, more, nil
}

// each calls do for what a listing shows, until do returns false.
func (s *Store) each(prefix, after string, do func(*Object) bool) {
	at, _ := s.find(max(prefix, after))
	for ; at < len(s.objects) && strings.HasPrefix(s.objects[at].Key, prefix); at++ {
		o := s.objects[at]
		if after != "" && o.Key <= after {
			continue
		}
		if len(s.late) > 0 {
			if o = s.listed(o); o == nil {
				continue
			}
		}
		if !do(o) {
			return
		}
	}
}

// Delete removes an object; one that is not there is no error.
func (s *Store) Delete(key string) error {
	if err := s.Failure(); err != nil {
		return err
	}
	s.remove(key)
	return nil
}

// remove is Delete whether the store answers or not.
func (s *Store) remove(key string) {
	at, found := s.find(key)
	if !found {
		return
	}
	s.own()
	s.objects = slices.Delete(s.objects, at, at+1)
	s.forgetLate(key)
	s.revision++
	s.shape++
}

// set stores an object whether the store answers or not.
func (s *Store) set(o *Object) {
	s.own()
	at, found := s.find(o.Key)
	var before *Object
	if found {
		before = s.objects[at]
		s.objects[at] = o
	} else {
		s.objects = slices.Insert(s.objects, at, o)
		s.shape++
	}
	if s.lateness > 0 {
		s.hide(o.Key, before)
	} else {
		s.forgetLate(o.Key)
	}
	s.revision++
}

// own makes the objects this store's alone.
func (s *Store) own() {
	if s.shared {
		s.objects, s.shared = slices.Clone(s.objects), false
	}
}

func (s *Store) find(key string) (at int, found bool) {
	// The standard library's search with a function costs twice as much.
	low, high := 0, len(s.objects)
	for low < high {
		if middle := int(uint(low+high) >> 1); s.objects[middle].Key < key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < len(s.objects) && s.objects[low].Key == key
}

// upload is a multipart upload that is not completed.
type upload struct {
	id, key string
	parts   [][]byte
}

// CreateMultipart begins an upload in parts and returns its id. Nothing shows it.
func (s *Store) CreateMultipart(key string) (id string, err error) {
	if err := s.Failure(); err != nil {
		return "", err
	}
	s.made++
	id = "upload-" + strconv.Itoa(s.made)
	s.uploads = append(slices.Clip(s.uploads), upload{id: id, key: key})
	return id, nil
}

// UploadPart adds the next part.
func (s *Store) UploadPart(id string, data []byte) error {
	return s.changeUpload(id, func(u upload) (upload, bool) {
		u.parts = append(slices.Clip(u.parts), bytes.Clone(data))
		return u, true
	})
}

// CompleteMultipart makes the object of its parts.
func (s *Store) CompleteMultipart(id string) (etag string, err error) {
	err = s.changeUpload(id, func(u upload) (upload, bool) {
		var digests []byte
		for _, part := range u.parts {
			digests = append(digests, ETag(part)...)
		}
		etag = ETag(digests) + "-" + strconv.Itoa(len(u.parts))
		s.set(&Object{Key: u.key, Data: bytes.Join(u.parts, nil), ETag: etag, Modified: s.modified()})
		return u, false
	})
	return etag, err
}

// AbortMultipart throws the parts away.
func (s *Store) AbortMultipart(id string) error {
	return s.changeUpload(id, func(u upload) (upload, bool) { return u, false })
}

// Uploads are the keys of the uploads that were begun and not completed.
func (s *Store) Uploads() (keys []string) {
	for _, u := range s.uploads {
		keys = append(keys, u.key)
	}
	return keys
}

var errNoUpload = errors.New("NoSuchUpload: the upload does not exist")

func (s *Store) changeUpload(id string, change func(upload) (changed upload, keep bool)) error {
	if err := s.Failure(); err != nil {
		return err
	}
	at := slices.IndexFunc(s.uploads, func(u upload) bool { return u.id == id })
	if at < 0 {
		return errNoUpload
	}
	changed, keep := change(s.uploads[at])
	s.uploads = slices.Clone(s.uploads)
	if keep {
		s.uploads[at] = changed
	} else {
		s.uploads = slices.Delete(s.uploads, at, at+1)
	}
	return nil
}
