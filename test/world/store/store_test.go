package store

import (
	"errors"
	"slices"
	"testing"
	"time"

	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/test/world/event"
)

func keysOf(page []*Object) (keys []string) {
	for _, o := range page {
		keys = append(keys, o.Key)
	}
	return keys
}

func put(t *testing.T, s *Store, key, data string) string {
	t.Helper()
	etag, err := s.Put(key, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return etag
}

// S3 lists in the order of the keys' bytes: '-' is before '/', and 'B' before 'a'.
func TestListingsComeInTheOrderOfBytesAndInPages(t *testing.T) {
	w := newWorld(1)
	for _, key := range []string{"b/x/1", "b/x-y/1", "b/x/B", "b/x/a", "b/y/1"} {
		put(t, w.store, key, key)
	}
	page, more, err := w.store.List("b/x", "", 2)
	if got := keysOf(page); !slices.Equal(got, []string{"b/x-y/1", "b/x/1"}) || !more || err != nil {
		t.Error(got, more, err)
	}
	page, more, _ = w.store.List("b/x", "b/x/1", 2)
	if got := keysOf(page); !slices.Equal(got, []string{"b/x/B", "b/x/a"}) || more {
		t.Error(got, more)
	}
}

// An answer that was lost is asked for again with the same bytes, which is success.
func TestALostAnswer(t *testing.T) {
	w := newWorld(1)
	if err := w.store.PutLost("b/k", []byte("v")); err == nil {
		t.Fatal("an answer came")
	}
	if o, err := w.store.Get("b/k"); err != nil || string(o.Data) != "v" {
		t.Fatal(o, err)
	}
	if etag := put(t, w.store, "b/k", "v"); etag != ETag([]byte("v")) {
		t.Error(etag)
	}
}

func TestAClonesWritesAreItsOwn(t *testing.T) {
	w := newWorld(1)
	put(t, w.store, "b/k", "before")
	clone := w.store.Clone(w.store.env)
	put(t, clone, "b/k", "clone")
	put(t, w.store, "b/l", "original")
	w.store.Down(Outage)
	if o, err := clone.Get("b/k"); err != nil || string(o.Data) != "clone" || clone.Has("b/l") {
		t.Error(o, err)
	}
	w.store.Up()
	if o, err := w.store.Get("b/k"); err != nil || string(o.Data) != "before" {
		t.Error(o, err)
	}
}

func TestAnUploadThatIsNotCompletedIsShownByNothing(t *testing.T) {
	w := newWorld(1)
	id, err := w.store.CreateMultipart("b/k")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.UploadPart(id, []byte("one ")); err != nil {
		t.Fatal(err)
	}
	if page, _, _ := w.store.List("b/", "", 0); len(page) != 0 || len(w.store.Uploads()) != 1 {
		t.Error(keysOf(page))
	}
	clone := w.store.Clone(w.store.env)
	for _, s := range []*Store{w.store, clone} {
		if err := s.UploadPart(id, []byte("two")); err != nil {
			t.Fatal(err)
		}
		etag, err := s.CompleteMultipart(id)
		if o, _ := s.Get("b/k"); err != nil || string(o.Data) != "one two" || o.ETag != etag || etag == ETag(o.Data) {
			t.Error(o, err)
		}
	}
	if err := w.store.AbortMultipart(id); err == nil {
		t.Error("it is completed")
	}
}

// What was written while listings are slow is read at once and listed when its time
// comes, or earlier; what it replaced is listed until then.
func TestSlowListings(t *testing.T) {
	w := newWorld(1)
	put(t, w.store, "b/old", "1")
	w.store.SlowListings(time.Minute)
	put(t, w.store, "b/old", "22")
	put(t, w.store, "b/new", "3")
	put(t, w.store, "b/new", "3") // again, after a lost answer
	listed := func() (sizes []int64) {
		page, _, _ := w.store.List("b/", "", 0)
		for _, o := range page {
			sizes = append(sizes, o.Bytes())
		}
		return sizes
	}
	if o, err := w.store.Get("b/new"); err != nil || o.Bytes() != 1 {
		t.Error(o, err)
	}
	if got := listed(); !slices.Equal(got, []int64{1}) {
		t.Error(got)
	}
	if next := w.store.Next(); !next.Equal(noon.Add(time.Minute)) {
		t.Error(next)
	}
	clone := w.store.Clone(w.store.env)
	clone.Show("b/new")
	if got := listed(); len(got) != 1 {
		t.Error("shown in another world:", got)
	}
	w.now = w.now.Add(time.Minute)
	if got := listed(); !slices.Equal(got, []int64{1, 2}) || !w.store.Next().IsZero() {
		t.Error(got)
	}
}

func TestAStoreThatIsDown(t *testing.T) {
	w := newWorld(1)
	put(t, w.store, "b/k", "v")
	for _, failure := range []*catalog.Error{Outage, Denied, Throttled, NoBucket} {
		w.store.Down(failure)
		_, putErr := w.store.Put("b/l", nil)
		_, getErr := w.store.Get("b/k")
		_, _, listErr := w.store.List("b/", "", 0)
		for _, err := range []error{putErr, getErr, listErr, w.store.Delete("b/k")} {
			if !errors.Is(err, failure) {
				t.Error(err)
			}
		}
		if refuses := failure == Denied || failure == NoBucket; w.store.Refuses() != refuses {
			t.Error(failure, "refuses:", !refuses)
		}
	}
	w.store.Down(Throttled)
	if w.now = w.store.Next(); w.now.IsZero() || w.store.Failure() != nil {
		t.Error("SlowDown does not pass")
	}
}

// The names of events are those of equal worlds, each is there once, and whatever
// happens to a healthy store is a fault.
func TestEvents(t *testing.T) {
	w := newWorld(2)
	w.Start(1, "")
	w.Save(1, 100)
	w.store.Offer = Faults{Outages: true, Denials: true, Damage: true, Foreign: true}
	names := func(s *Store) (names []string) {
		s.Events(func(e event.Event) {
			if !e.Fault {
				t.Error(e.Name, "is no fault")
			}
			names = append(names, e.Name)
		})
		return names
	}
	got := names(w.store)
	if again := names(w.store.Clone(w.store.env)); !slices.Equal(got, again) {
		t.Error(again)
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != len(got) || !slices.Contains(got, "store: lose "+w.key("checkpoints/1/100-000000000001/01/r1-1")) {
		t.Errorf("%q", got)
	}
	// Each can be done, and with all faults over the store answers.
	w.store.Events(func(e event.Event) {
		c := newWorld(1)
		*c.store = *w.store.Clone(w.store.env)
		c.store.Events(func(again event.Event) {
			if again.Name == e.Name {
				again.Do()
			}
		})
		c.store.Events(func(again event.Event) {
			if !again.Fault {
				again.Do()
			}
		})
		if err := c.store.Failure(); err != nil || c.store.unreadable != nil {
			t.Error(e.Name, err)
		}
	})
}

func BenchmarkReadAfterProgress(b *testing.B) {
	w := newWorld(2)
	for n := range int32(4) {
		w.Start(n+1, "")
		w.Save(n+1, int64(n)*100)
	}
	reader := &Reader{}
	data := []byte(`{"schemaVersion":"1.0","kind":"AttemptProgress","attempt":4,"activity":"training","step":7,"totalSteps":5000,"stepsPerSecond":2.5,"firstStepAt":"2026-03-01T09:40:09Z","restoreSeconds":null,"lastSave":null,"yield":null,"updatedAt":"2026-03-01T10:00:02Z"}`)
	for b.Loop() {
		if _, err := w.store.Put(w.key("attempts/4/progress.json"), data); err != nil {
			b.Fatal(err)
		}
		if s := reader.Read(w.store, w.run(), catalog.Ask{}); len(s.Manifests) != 4 {
			b.Fatal(s)
		}
	}
}

func BenchmarkEvents(b *testing.B) {
	w := newWorld(2)
	for n := range int32(4) {
		w.Start(n+1, "")
		w.Save(n+1, int64(n)*100)
	}
	w.store.Offer = Faults{Outages: true, Denials: true, Damage: true, Foreign: true}
	for b.Loop() {
		w.store.Events(func(event.Event) {})
	}
}
