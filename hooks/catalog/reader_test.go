package catalog

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog/catalogtest"
)

func TestAReadingHoldsWhatTheRunLeft(t *testing.T) {
	w := newWorld(2, Options{})
	w.Start(1, "")
	first := w.Save(1, 100)
	second := w.Save(1, 200)
	w.Result(1, "yielded", 200, second)
	w.Start(2, second)
	w.Progress(2, 250)
	w.Quarantine(first)

	s := w.read(t, Ask{})
	if !s.Readable() || !s.ListedAt.Equal(noon) || s.Unread != 0 || s.Problems != nil {
		t.Errorf("%+v", s)
	}
	if got := []string{s.Manifests[0].ID, s.Manifests[1].ID}; !cmp.Equal(got, []string{second, first}) {
		t.Error(got)
	}
	m := s.Manifests[0]
	if m.Incomplete != "" || m.Defect != nil || m.Indexes != nil || !m.CommittedAt.Equal(noon) || !m.CheckedAt.Equal(noon) {
		t.Errorf("%+v", m)
	}
	if m.RunID != "run-1" || m.WorldSize != 2 || m.Objects != 4 || m.Identity["codeVersion"] != "v7" {
		t.Errorf("%+v", m)
	}
	if _, ok := s.Quarantined[first]; !ok || len(s.Quarantined) != 1 {
		t.Error(s.Quarantined)
	}
	one, two := s.Attempts[1], s.Attempts[2]
	if one.Start == nil || one.Start.Restore != nil || one.Result == nil || one.Result.Checkpoint != second || one.Progress != nil {
		t.Errorf("%+v", one)
	}
	if two.Start == nil || two.Start.Restore.Checkpoint != second || two.Progress == nil || two.Progress.Step != 250 || two.Result != nil {
		t.Errorf("%+v", two)
	}
	if !s.HasRecords(2) || s.HasRecords(3) || s.HighestAttempt() != 2 {
		t.Error("records of attempts")
	}
	if c := checkpoint.Select(s, checkpoint.Query{RunID: "run-1", WorldSize: 2}); c.Selected == nil || c.Selected.ID != second {
		t.Errorf("%+v", c)
	}
}

func TestAnEmptyStoreIsReadable(t *testing.T) {
	w := newWorld(1, Options{})
	s := w.read(t, Ask{})
	if !s.Readable() || !checkpoint.Select(s, checkpoint.Query{RunID: "run-1"}).Empty {
		t.Errorf("%+v", s)
	}
}

// Objects of other runs, of other jobs whose name begins the same, and of torn
// saves without a manifest are not looked at.
func TestAReadingStaysInItsRun(t *testing.T) {
	w := newWorld(1, Options{})
	w.Start(1, "")
	own := w.Save(1, 200)
	w.Save(1, 300)
	w.store.remove("manifests/000001-000000000300")
	for _, other := range []catalogtest.Run{
		{Namespace: "team-a", Name: "llama", RunID: "run-11", Ranks: 1, Put: w.store.put},
		{Namespace: "team-a", Name: "llama-2", RunID: "run-1", Ranks: 1, Put: w.store.put},
		{Namespace: "team-b", Name: "llama", RunID: "run-1", Ranks: 1, Put: w.store.put},
	} {
		other.Start(7, "")
		other.Save(7, 700)
	}
	s := w.read(t, Ask{})
	if len(s.Manifests) != 1 || s.Manifests[0].ID != own || s.HighestAttempt() != 1 {
		t.Errorf("%+v", s)
	}
}

func TestOnlyWhatIsNewIsRead(t *testing.T) {
	w := newWorld(2, Options{})
	w.Start(1, "")
	w.Save(1, 100)
	w.Progress(1, 120)

	w.read(t, Ask{})
	lists, gets := w.store.requests()
	// Attempts, manifests, quarantine, and the objects of one checkpoint.
	if lists != 4 {
		t.Errorf("%d listings at first", lists)
	}
	// Start, progress, manifest, two index objects.
	if len(gets) != 5 {
		t.Errorf("read at first: %q", gets)
	}

	w.read(t, Ask{})
	if lists, gets = w.store.requests(); lists != 3 || gets != nil {
		t.Errorf("nothing changed: %d listings, read %q", lists, gets)
	}

	w.Progress(1, 130)
	if s := w.read(t, Ask{}); s.Attempts[1].Progress.Step != 130 {
		t.Error(s.Attempts[1].Progress.Step)
	}
	if lists, gets = w.store.requests(); lists != 3 || len(gets) != 1 || !strings.HasSuffix(gets[0], "attempts/1/progress.json") {
		t.Errorf("progress changed: %d listings, read %q", lists, gets)
	}

	id := w.Save(1, 200)
	if s := w.read(t, Ask{}); find(t, s, id).Incomplete != "" {
		t.Error(find(t, s, id).Incomplete)
	}
	if lists, gets = w.store.requests(); lists != 4 || len(gets) != 3 {
		t.Errorf("a new checkpoint: %d listings, read %q", lists, gets)
	}
}

// A worker writes its manifest before its result, and its start record before
// its manifest. Whatever happens between two listings, no snapshot shows the
// later without the earlier.
func TestAReadingNeverShowsTheLaterWithoutTheEarlier(t *testing.T) {
	for _, at := range []string{"attempts/", "manifests/", "quarantine/"} {
		t.Run("the attempt happens before LIST "+at, func(t *testing.T) {
			w := newWorld(1, Options{Requests: 1})
			var once sync.Once
			w.store.before = func(_ context.Context, op, key string) error {
				if op == "LIST" && strings.HasSuffix(key, at) {
					once.Do(func() {
						w.Start(1, "")
						id := w.Save(1, 100)
						w.Result(1, "yielded", 100, id)
					})
				}
				return nil
			}
			s := w.read(t, Ask{})
			records := s.Attempts[1]
			if records.Result != nil && len(s.Manifests) == 0 {
				t.Error("the result without its manifest")
			}
			if len(s.Manifests) > 0 && records.Start == nil {
				t.Error("the manifest without its start record")
			}
		})
	}
}

func TestWhatIsTornIsReportedWithItsObject(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(*testing.T, *world)
		want   string
	}{
		{"an object is missing", func(_ *testing.T, w *world) { w.store.remove("200-000000000002/01/r1-1") },
			"checkpoints/1/200-000000000002/01/r1-1 is missing (52 bytes)"},
		{"an object is short", func(t *testing.T, w *world) {
			w.store.change(t, "200-000000000002/01/r1-1", func(b []byte) []byte { return b[:49] })
		}, "checkpoints/1/200-000000000002/01/r1-1 has 49 bytes, the index says 52"},
		{"an object was replaced", func(t *testing.T, w *world) {
			w.store.change(t, "200-000000000002/01/r1-1", func(b []byte) []byte { b[0] ^= 1; return b })
		}, "01/r1-1 has ETag "},
		{"an index is missing", func(_ *testing.T, w *world) { w.store.remove("200-000000000002/01/r1-index.json") },
			"01/r1-index.json is missing"},
		{"an index is longer than promised", func(t *testing.T, w *world) {
			w.store.change(t, "200-000000000002/01/r1-index.json", func(b []byte) []byte { return append(b, ' ') })
		}, " bytes, the manifest says "},
		{"an index was replaced", func(t *testing.T, w *world) {
			w.store.change(t, "200-000000000002/01/r1-index.json", func(b []byte) []byte { b[0] = ' '; return b })
		}, "01/r1-index.json has SHA-256 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(2, Options{})
			w.Start(1, "")
			older := w.Save(1, 100)
			torn := w.Save(1, 200)
			c.damage(t, w)
			s := w.read(t, Ask{})
			if got := find(t, s, torn).Incomplete; !strings.Contains(got, c.want) {
				t.Errorf("%q, want it with %q", got, c.want)
			}
			choice := checkpoint.Select(s, checkpoint.Query{RunID: "run-1", WorldSize: 2})
			if choice.Selected == nil || choice.Selected.ID != older {
				t.Errorf("%+v", choice)
			}
		})
	}
}

func TestDocumentsThatAreUnusable(t *testing.T) {
	w := newWorld(1, Options{})
	w.Start(1, "")
	good := w.Save(1, 100)
	cut := w.Save(1, 200)
	w.store.change(t, cut, func(b []byte) []byte { return b[:len(b)-10] })
	large := w.Save(1, 300, func(d catalogtest.Document) { d["padding"] = strings.Repeat("x", 70_000) })
	future := w.Save(1, 400, func(d catalogtest.Document) { d["schemaVersion"] = "2.0" })
	foreign := w.Save(1, 500, func(d catalogtest.Document) { d["run"] = catalogtest.Document{"runID": "run-0"} })
	w.store.put(w.Key("manifests/latest.json"), []byte("{}"))
	w.store.put(w.Key("manifests/README"), []byte("hello"))
	w.store.put(w.Key("manifests/"), nil)
	w.Quarantine(good)
	w.store.change(t, "quarantine/", func(b []byte) []byte { return b[:5] })
	w.Progress(1, 100)
	w.store.change(t, "progress.json", func(b []byte) []byte { return b[:50] })

	s := w.read(t, Ask{})
	reasons := map[string]string{}
	for _, m := range s.Manifests {
		if m.Defect != nil {
			reasons[m.ID] = m.Defect.Reason
		}
	}
	want := map[string]string{
		cut: "CorruptManifest", large: "CorruptManifest", future: "UnknownVersion", "latest": "CorruptManifest",
	}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Error(diff)
	}
	if got := find(t, s, large).Defect.Message; !strings.Contains(got, "at most 65536") {
		t.Error(got)
	}
	if m := find(t, s, foreign); m.RunID != "run-0" || !m.CheckedAt.IsZero() {
		t.Errorf("the foreign manifest lost its run, or its objects were looked for: %+v", m)
	}
	if q, ok := s.Quarantined[good]; !ok || q.Checkpoint != good {
		t.Error("a quarantine record that cannot be read lifted the quarantine")
	}
	if s.Attempts[1].Progress != nil || !s.HasRecords(1) {
		t.Errorf("%+v", s.Attempts[1])
	}
	for i, text := range []string{"manifests/README is not a manifest", "attempts/1/progress.json is not JSON", "quarantine/" + good + ".json is not JSON"} {
		if len(s.Problems) != 3 || !strings.Contains(s.Problems[i], text) {
			t.Fatalf("problems %q", s.Problems)
		}
	}
	// What is unusable is known: it is not read again.
	w.store.requests()
	w.read(t, Ask{})
	if _, gets := w.store.requests(); gets != nil {
		t.Errorf("read again: %q", gets)
	}
}

// A failure while the objects are compared must not make a checkpoint look
// torn, nor a failure anywhere else make the run look shorter.
func TestAFailureAnywhereFailsTheReading(t *testing.T) {
	for _, part := range []string{
		"LIST attempts/", "LIST manifests/", "LIST quarantine/", "LIST checkpoints/1/100-000000000001/",
		"GET manifests/", "GET attempts/1/start.json", "GET attempts/1/progress.json", "GET quarantine/", "GET checkpoints/1/100-000000000001/01/r1-index.json",
	} {
		t.Run(part, func(t *testing.T) {
			w := newWorld(2, Options{})
			w.Start(1, "")
			w.Progress(1, 100)
			w.Quarantine(w.Save(1, 100))
			op, key, _ := strings.Cut(part, " ")
			failing := true
			w.store.before = func(_ context.Context, o, k string) error {
				if failing && o == op && strings.Contains(k, key) {
					return &Error{checkpoint.AccessDenied, "refused"}
				}
				return nil
			}
			s := w.reader.Read(t.Context(), w.run(), Ask{})
			want := &checkpoint.Snapshot{ListedAt: noon, Failure: &checkpoint.Failure{Kind: checkpoint.AccessDenied, Message: "refused"}}
			if diff := cmp.Diff(want, s); diff != "" {
				t.Fatal(diff)
			}
			if c := checkpoint.Select(s, checkpoint.Query{RunID: "run-1"}); c.Empty {
				t.Error("a run that cannot be read would start fresh")
			}
			failing = false
			if m := w.read(t, Ask{}).Manifests[0]; m.Incomplete != "" {
				t.Error(m.Incomplete)
			}
		})
	}
}

// A proxy that answers "not found" for what the store lists makes no checkpoint
// torn and no run shorter.
func TestAStoreThatContradictsItselfFailsTheReading(t *testing.T) {
	for _, hidden := range []string{"manifests/", "01/r1-index.json"} {
		w := newWorld(2, Options{})
		w.Start(1, "")
		w.Save(1, 100)
		w.store.before = func(_ context.Context, op, key string) error {
			if op == "GET" && strings.Contains(key, hidden) {
				return ErrNotExist
			}
			return nil
		}
		s := w.reader.Read(t.Context(), w.run(), Ask{})
		if s.Failure == nil || !strings.Contains(s.Failure.Message, hidden) ||
			!strings.Contains(s.Failure.Message, "is listed and cannot be read") {
			t.Errorf("%s: %+v", hidden, s.Failure)
		}
	}
}

func TestAManifestThatIsDeletedMeanwhileIsGone(t *testing.T) {
	w := newWorld(1, Options{})
	w.Start(1, "")
	kept, deleted := w.Save(1, 100), w.Save(1, 200)
	w.store.before = func(_ context.Context, op, key string) error {
		if op == "GET" && strings.Contains(key, deleted) {
			w.store.remove(deleted)
		}
		return nil
	}
	s := w.read(t, Ask{})
	if len(s.Manifests) != 1 || s.Manifests[0].ID != kept {
		t.Errorf("%+v", s.Manifests)
	}
}

func TestACheckpointIsCheckedAgainWhenAsked(t *testing.T) {
	w := newWorld(2, Options{})
	w.Start(1, "")
	id := w.Save(1, 100)
	w.read(t, Ask{})
	w.store.requests()

	w.clock.advance(time.Minute)
	s := w.read(t, Ask{Recheck: []string{id}})
	if m := find(t, s, id); m.Incomplete != "" || !m.CheckedAt.Equal(noon.Add(time.Minute)) {
		t.Errorf("%+v", m)
	}
	if lists, gets := w.store.requests(); lists != 4 || gets != nil {
		t.Errorf("nothing changed, so one listing more is enough: %d listings, read %q", lists, gets)
	}

	w.store.remove("01/r1-0")
	if m := find(t, w.read(t, Ask{}), id); m.Incomplete != "" {
		t.Error("nobody asked, and it was checked again:", m.Incomplete)
	}
	if m := find(t, w.read(t, Ask{Recheck: []string{id}}), id); !strings.Contains(m.Incomplete, "01/r1-0 is missing") {
		t.Error(m.Incomplete)
	}
}

func TestAManifestThatIsDamagedOrDeletedAfterItWasRead(t *testing.T) {
	w := newWorld(2, Options{})
	w.Start(1, "")
	id := w.Save(1, 100)
	w.read(t, Ask{})
	w.store.remove("checkpoints/1/100-000000000001/01/r1-0")
	during := func(change func()) *checkpoint.Snapshot {
		t.Helper()
		w.store.before = func(_ context.Context, op, key string) error {
			if op == "LIST" && strings.Contains(key, "checkpoints/") {
				change()
			}
			return nil
		}
		return w.read(t, Ask{Recheck: []string{id}})
	}
	if m := find(t, during(func() { w.store.remove("manifests/") }), id); !strings.Contains(m.Incomplete, "was deleted while") {
		t.Errorf("%+v", m)
	}
	if s := w.read(t, Ask{}); len(s.Manifests) != 0 {
		t.Errorf("%+v", s.Manifests)
	}
}

// Where a cache lies before the store, objects may become visible late.
func TestAnIncompleteCheckpointMayBecomeComplete(t *testing.T) {
	w := newWorld(1, Options{})
	w.Start(1, "")
	id := w.Save(1, 100)
	key := w.Key("checkpoints/1/100-000000000001/00/r0-1")
	late := w.store.objects[key]
	w.store.remove(key)
	if find(t, w.read(t, Ask{}), id).Incomplete == "" {
		t.Fatal("complete without an object")
	}
	w.store.put(key, late)
	w.store.requests()
	if find(t, w.read(t, Ask{}), id).Incomplete == "" {
		t.Error("checked again at once")
	}
	if lists, _ := w.store.requests(); lists != 3 {
		t.Errorf("%d listings", lists)
	}
	w.clock.advance(incompleteAge)
	if got := find(t, w.read(t, Ask{}), id).Incomplete; got != "" {
		t.Error(got)
	}
}

// Of checkpoints that are older than the newest few, only the listing is
// compared, unless it differs or they are asked for.
func TestOlderCheckpointsAreComparedByListing(t *testing.T) {
	w := newWorld(2, Options{})
	w.Start(1, "")
	var ids []string
	for step := range int64(thoroughManifests + 4) {
		ids = append(ids, w.Save(1, 100+step))
	}
	w.store.remove("checkpoints/1/101-000000000002/01/r1-0")
	w.store.change(t, "checkpoints/1/102-000000000003/01/r1-0", func(b []byte) []byte { b[0] ^= 1; return b })
	s := w.read(t, Ask{})
	if lists, gets := w.store.requests(); lists != 3+20+1 || len(gets) != 1+20+2*thoroughManifests+2 {
		t.Errorf("%d listings, %d reads", lists, len(gets))
	}
	if got := find(t, s, ids[1]).Incomplete; !strings.Contains(got, "01/r1-0 is missing") {
		t.Error(got)
	}
	if got := find(t, s, ids[2]).Incomplete; got != "" {
		t.Error("the listing cannot show it:", got)
	}
	if got := find(t, w.read(t, Ask{Recheck: []string{ids[2]}}), ids[2]).Incomplete; !strings.Contains(got, "01/r1-0 has ETag") {
		t.Errorf("before a launch every object is compared: %q", got)
	}
}

func TestOldManifestsAreListedOnly(t *testing.T) {
	w := newWorld(1, Options{Manifests: 4})
	w.Start(1, "")
	var ids []string
	for step := range int64(21) {
		ids = append(ids, w.Save(1, 100+step))
	}
	s := w.read(t, Ask{})
	var got []string
	for _, m := range s.Manifests {
		got = append(got, m.ID)
	}
	if diff := cmp.Diff([]string{ids[20], ids[19], ids[18], ids[17]}, got); diff != "" || s.Unread != 17 {
		t.Error(s.Unread, diff)
	}
	if len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "17 manifests older than the newest 4") {
		t.Error(s.Problems)
	}
	s = w.read(t, Ask{Include: []string{ids[2]}})
	if find(t, s, ids[2]).Incomplete != "" || len(s.Manifests) != 5 || s.Unread != 16 {
		t.Error(len(s.Manifests), s.Unread)
	}
}

func TestAHangingStoreFailsInTimeAndGoesOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, Options{Timeout: 10 * time.Second, Requests: 1})
		w.Start(1, "")
		w.Save(1, 100)
		w.Save(1, 200)
		hang := true
		w.store.before = func(ctx context.Context, op, key string) error {
			if hang && op == "LIST" && strings.Contains(key, "checkpoints/1/100-") {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		s := w.reader.Read(t.Context(), w.run(), Ask{})
		if s.Failure == nil || s.Failure.Kind != checkpoint.Unreachable ||
			s.Failure.Message != "the store did not answer in time (no reading within 10s); 1 of 2 checkpoints are checked, the next reading goes on from there" {
			t.Fatalf("%+v", s.Failure)
		}
		hang = false
		w.store.requests()
		if s := w.read(t, Ask{}); len(s.Manifests) != 2 {
			t.Error(len(s.Manifests))
		}
		if lists, gets := w.store.requests(); lists != 4 || len(gets) != 2 {
			t.Errorf("%d listings, read %q", lists, gets)
		}
	})
}

func TestNamesThatWouldLeaveThePrefixAreRefused(t *testing.T) {
	w := newWorld(1, Options{})
	for _, run := range []Run{
		{Namespace: "..", Name: "n", RunID: "r"}, {Namespace: "n", Name: "a/b", RunID: "r"}, {Namespace: "n", Name: "n"},
	} {
		if s := w.reader.Read(t.Context(), run, Ask{}); s.Failure == nil {
			t.Errorf("%+v was read", run)
		}
	}
}

func TestCredentialsDoNotPrint(t *testing.T) {
	c := Credentials{AccessKeyID: "AKIA", SecretAccessKey: "hush", SessionToken: "token"}
	run := Run{Credentials: &c}
	for _, text := range []string{
		fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s", c, c, c, c), fmt.Sprintf("%+v %#v", run.Credentials, *run.Credentials),
	} {
		if strings.Contains(text, "hush") || strings.Contains(text, "AKIA") || strings.Contains(text, "token") {
			t.Error(text)
		}
	}
}
