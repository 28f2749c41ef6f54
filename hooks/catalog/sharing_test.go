package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog/catalogtest"
)

func TestReadersThatWaitShareAReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, Options{})
		w.Start(1, "")
		gate := make(chan struct{})
		w.store.before = func(_ context.Context, op, key string) error {
			if op == "LIST" && strings.HasSuffix(key, "attempts/") {
				<-gate
			}
			return nil
		}
		var group sync.WaitGroup
		read := func() { w.reader.Read(t.Context(), w.run(), Ask{}) }
		group.Go(read)
		synctest.Wait() // the first one lists
		for range 20 {
			group.Go(read)
		}
		synctest.Wait() // the others came after its listing began, so it is none of theirs
		close(gate)
		group.Wait()
		if lists, _ := w.store.requests(); lists != 6 {
			t.Errorf("%d listings, want those of two readings", lists)
		}
	})
}

// Three callers come while the first one reads: the second begins the reading
// that the third could share, and gives up.
func TestACallerThatGivesUpLeavesTheOthersAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, Options{})
		w.Start(1, "")
		impatient, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		gate := make(chan struct{})
		listings := 0
		w.store.before = func(ctx context.Context, op, key string) error {
			if op != "LIST" || !strings.HasSuffix(key, "attempts/") {
				return nil
			}
			switch listings++; listings {
			case 1:
				<-gate
			case 2:
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		var first, second, third *checkpoint.Snapshot
		var group sync.WaitGroup
		group.Go(func() { first = w.reader.Read(t.Context(), w.run(), Ask{}) })
		synctest.Wait()
		group.Go(func() { second = w.reader.Read(impatient, w.run(), Ask{}) })
		synctest.Wait()
		group.Go(func() { third = w.reader.Read(t.Context(), w.run(), Ask{}) })
		synctest.Wait()
		close(gate)
		synctest.Wait() // the second one hangs
		giveUp()
		group.Wait()
		if first.Failure != nil || second.Failure == nil || third.Failure != nil {
			t.Errorf("%+v, %+v, %+v", first.Failure, second.Failure, third.Failure)
		}
	})
}

func TestAFinishedReadingIsEnoughForThoseWhoAccept(t *testing.T) {
	w := newWorld(1, Options{})
	w.Start(1, "")
	id := w.Save(1, 100)
	first := w.read(t, Ask{})
	w.store.requests()
	w.clock.advance(time.Minute)

	if again := w.read(t, Ask{NotBefore: noon}); again != first {
		t.Error("it began when it was asked to, and was not enough")
	}
	if lists, _ := w.store.requests(); lists != 0 {
		t.Errorf("%d listings", lists)
	}
	if later := w.read(t, Ask{NotBefore: noon.Add(time.Second)}); later == first {
		t.Error("it began too early")
	}
	if checked := w.read(t, Ask{NotBefore: noon, Recheck: []string{id}}); !find(t, checked, id).CheckedAt.Equal(noon.Add(time.Minute)) {
		t.Error("an answer without the check that was asked for")
	}

	w.store.before = func(context.Context, string, string) error { return errors.New("down") }
	w.reader.Read(t.Context(), w.run(), Ask{})
	w.store.before = nil
	if s := w.reader.Read(t.Context(), w.run(), Ask{NotBefore: noon.Add(time.Minute)}); s.Failure != nil {
		t.Error("a failure was kept:", s.Failure.Message)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	w := newWorld(1, Options{CachedRuns: 3})
	for i := range 10 {
		run := catalogtest.Run{Namespace: "n", Name: fmt.Sprintf("job-%d", i), RunID: "r", Ranks: 1, Put: w.store.put}
		run.Save(1, 100)
		w.reader.Read(t.Context(), Run{Namespace: "n", Name: run.Name, RunID: "r"}, Ask{})
	}
	if n := w.reader.runs.order.Len(); n != 3 || len(w.reader.runs.byKey) != 3 {
		t.Errorf("%d runs are kept", n)
	}
	w.store.requests()
	w.reader.Read(t.Context(), Run{Namespace: "n", Name: "job-9", RunID: "r"}, Ask{})
	if _, gets := w.store.requests(); len(gets) != 1 || !strings.HasSuffix(gets[0], "start.json") {
		// Only the start record that never was is asked for again.
		t.Errorf("the newest run was forgotten: read %q", gets)
	}

	small := newWorld(1, Options{CachedBytes: 1})
	small.Save(1, 100)
	small.read(t, Ask{})
	if n := small.reader.runs.order.Len(); n != 0 || small.reader.runs.bytes != 0 {
		t.Errorf("%d runs of %d bytes are kept", n, small.reader.runs.bytes)
	}
}
