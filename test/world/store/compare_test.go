package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/hooks/catalog/catalogtest"
)

const uri = "s3://checkpoints/here"

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a store that one run is written into, and its clock.
type world struct {
	*catalogtest.Run
	store *Store
	now   time.Time
}

func newWorld(ranks int) *world {
	w := &world{now: noon}
	w.store = New(Env{Now: func() time.Time { return w.now }})
	w.Run = &catalogtest.Run{Namespace: "team", Name: "llama", RunID: "run-1", Ranks: ranks, Put: func(key string, data []byte) {
		if _, err := w.store.Put(Root(uri)+key, data); err != nil {
			panic(err)
		}
	}}
	return w
}

func (w *world) run() catalog.Run {
	return catalog.Run{Namespace: "team", Name: "llama", RunID: "run-1", Location: catalog.Location{URI: uri}}
}

// key is that of an object of the run.
func (w *world) key(below string) string { return Root(uri) + w.Key(below) }

// keys are all of the store.
func (w *world) keys() (keys []string) {
	for _, o := range w.store.objects {
		keys = append(keys, o.Key)
	}
	return keys
}

// ids are those of the manifests that are there.
func (w *world) ids() (ids []string) {
	for _, o := range w.store.objects {
		if below, found := strings.CutPrefix(o.Key, w.key("manifests/")); found && strings.HasSuffix(below, ".json") {
			ids = append(ids, strings.TrimSuffix(below, ".json"))
		}
	}
	return ids
}

// mutations are what may happen to a store between two readings.
var mutations = []func(*world, *rand.Rand){
	func(w *world, r *rand.Rand) { w.now = w.now.Add(time.Duration(r.IntN(40)) * time.Second) },
	func(w *world, r *rand.Rand) {
		restore := ""
		if ids := w.ids(); len(ids) > 0 && r.IntN(3) > 0 {
			if id := pick(r, ids); wellFormed(id) {
				restore = id
			}
		}
		w.Start(attempt(r), restore)
	},
	func(w *world, r *rand.Rand) { w.Progress(attempt(r), r.Int64N(50)) },
	func(w *world, r *rand.Rand) { w.Result(attempt(r), pick(r, outcomes), r.Int64N(50), "") },
	func(w *world, r *rand.Rand) { w.Save(attempt(r), r.Int64N(50)) },
	func(w *world, r *rand.Rand) { w.Save(attempt(r), r.Int64N(50)) },
	func(w *world, r *rand.Rand) {
		w.Save(attempt(r), r.Int64N(50), pick(r, []func(catalogtest.Document){
			func(d catalogtest.Document) { d["schemaVersion"] = "2.0" },
			func(d catalogtest.Document) { d["run"] = catalogtest.Document{"runID": "run-0"} },
			func(d catalogtest.Document) { d["worldSize"] = 3 },
			func(d catalogtest.Document) { d["objects"] = 1 },
			func(d catalogtest.Document) { d["padding"] = strings.Repeat("x", 70_000) },
			func(d catalogtest.Document) {
				indexes := slices.Clone(d["indexes"].([]catalogtest.Document))
				indexes[0] = catalogtest.Document{"key": indexes[0]["key"], "bytes": 10, "etag": "x", "sha256": indexes[0]["sha256"]}
				d["indexes"] = indexes
			},
		}))
	},
	func(w *world, r *rand.Rand) {
		if ids := w.ids(); len(ids) > 0 {
			w.Quarantine(pick(r, ids))
		}
	},
	damage((*Store).Lose), damage((*Store).Cut), damage((*Store).Rot),
	func(w *world, r *rand.Rand) {
		if ids := w.ids(); len(ids) > 0 {
			w.store.Lose(w.key("manifests/" + pick(r, ids) + ".json"))
		}
	},
	func(w *world, r *rand.Rand) {
		f := pick(r, foreign)
		w.Put(w.Key(f.key), []byte(f.data))
	},
	func(w *world, r *rand.Rand) {
		w.store.SlowListings(time.Duration(r.IntN(3)) * 20 * time.Second)
	},
	func(w *world, r *rand.Rand) {
		if len(w.store.late) > 0 {
			w.store.Show(pick(r, w.store.late).key)
		}
	},
	func(w *world, r *rand.Rand) {
		if r.IntN(2) == 0 {
			w.store.Agree()
			return
		}
		// One at a time: of two the product names either.
		if keys := w.keys(); len(keys) > 0 && len(w.store.unreadable) == 0 {
			w.store.Contradict(pick(r, keys))
		}
	},
}

var outcomes = []string{"finished", "yielded", "yieldNotServiced", "failed", "restoreFailed", "unheard of"}

func damage(how func(*Store, string)) func(*world, *rand.Rand) {
	return func(w *world, r *rand.Rand) {
		if keys := w.keys(); len(keys) > 0 {
			how(w.store, pick(r, keys))
		}
	}
}

func attempt(r *rand.Rand) int32 { return 1 + r.Int32N(11) }

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func wellFormed(id string) bool {
	_, _, _, _, err := checkpoint.ParseID(id)
	return err == nil
}

// ask is what a reading is asked for.
func (w *world) ask(r *rand.Rand) (a catalog.Ask) {
	if r.IntN(3) == 0 {
		a.NotBefore = w.now.Add(-time.Duration(r.IntN(30)) * time.Second)
	}
	if ids := w.ids(); len(ids) > 0 {
		if r.IntN(3) == 0 {
			a.Recheck = []string{pick(r, ids)}
		}
		if r.IntN(5) == 0 {
			a.Include = []string{pick(r, ids)}
		}
	}
	return a
}

// The world's Reader finds what the product's finds, reading after reading, whatever
// happened to the store in between.
func TestReadingsAreThoseOfTheProduct(t *testing.T) {
	lives := 100
	if testing.Short() {
		lives = 50
	}
	for seed := range uint64(lives) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(1 + r.IntN(2))
		options := catalog.Options{Now: w.store.env.Now, Timeout: time.Hour, Requests: 1}
		real, ours := catalog.NewReader(w.store.Opener(), options), &Reader{}
		for reading := range 25 {
			for range r.IntN(6) {
				pick(r, mutations)(w, r)
			}
			if r.IntN(12) == 0 {
				w.store.Down(pick(r, []*catalog.Error{Outage, Denied, Throttled, NoBucket}))
			}
			ask := w.ask(r)
			if err := difference(real.Read(t.Context(), w.run(), ask), ours.Read(w.store, w.run(), ask)); err != nil {
				t.Fatalf("seed %d, reading %d, %+v: %v", seed, reading, ask, err)
			}
			if err := w.store.Compare(w.run(), ask); err != nil {
				t.Fatalf("seed %d, reading %d without memory, %+v: %v", seed, reading, ask, err)
			}
			w.store.Up()
		}
	}
}

// Of more manifests than are read, and of more than are compared thoroughly.
func TestReadingsOfManyManifestsAreThoseOfTheProduct(t *testing.T) {
	w := newWorld(2)
	w.Start(1, "")
	var ids []string
	for step := range int64(readManifests + 20) {
		ids = append(ids, w.Save(1, 100+step))
		if step%50 == 0 {
			w.Save(1, 100+step, func(d catalogtest.Document) { d["run"] = catalogtest.Document{"runID": "run-0"} })
		}
	}
	w.store.Lose(w.key("checkpoints/1/350-0000000000fc/01/r1-0"))
	for i := range 40 {
		w.Put(w.Key(fmt.Sprintf("manifests/file-%d", i)), nil)
	}
	for _, ask := range []catalog.Ask{{}, {Include: ids[2:3]}, {Recheck: ids[:1]}, {Recheck: ids[200:201]}} {
		if err := w.store.Compare(w.run(), ask); err != nil {
			t.Error(err)
		}
	}
}

// More attempts than live records, and more than start records, are read of.
func TestReadingsOfManyAttemptsAreThoseOfTheProduct(t *testing.T) {
	w := newWorld(1)
	for n := range int32(maxStarts + 20) {
		w.Start(n+1, "")
		w.Progress(n+1, 1)
		w.Result(n+1, "failed", 1, "")
	}
	w.Save(5, 100)
	if err := w.store.Compare(w.run(), catalog.Ask{}); err != nil {
		t.Error(err)
	}
}

// Between two stages of a reading anything may be written: the product's reading, in
// which the same happens at the same stage, finds the same.
func TestWritesBetweenTheStagesOfAReading(t *testing.T) {
	// What begins a stage, by its first request in the product.
	begins := []string{"LIST attempts/", "GET attempts/", "LIST manifests/", "GET manifests/", "GET attempts/*start.json", "GET quarantine/"}
	for stage := 1; stage < len(begins); stage++ {
		for seed := range uint64(40) {
			build := func() (*world, func()) {
				r := rand.New(rand.NewPCG(seed, 1))
				w := newWorld(2)
				for range 12 {
					pick(r, mutations[1:6])(w, r)
				}
				w.Save(9, 60) // without a start record yet
				w.Quarantine(w.Save(10, 70))
				w.Progress(10, 70)
				return w, func() {
					for range 4 {
						pick(r, mutations[1:13])(w, r)
					}
					if r.IntN(4) == 0 {
						w.store.Down(Outage)
					}
				}
			}
			theirs, meanwhile := build()
			done := false
			open := func(l catalog.Location, _ *catalog.Credentials) (catalog.Store, error) {
				return &opened{store: theirs.store, root: Root(uri), before: func(op, key string) {
					below := strings.TrimPrefix(key, theirs.Key(""))
					if head, tail, _ := strings.Cut(begins[stage], "*"); !done && strings.HasPrefix(op+" "+below, head) && strings.HasSuffix(below, tail) {
						done = true
						meanwhile()
					}
				}}, nil
			}
			// One request at a time, but for the listings of manifests and quarantine.
			real := catalog.NewReader(open, catalog.Options{Now: theirs.store.env.Now, Timeout: time.Hour, Requests: 1})
			want := real.Read(t.Context(), theirs.run(), catalog.Ask{})

			w, meanwhile := build()
			reader := &Reader{}
			ours := reader.Begin(w.store, w.run(), catalog.Ask{})
			for range stage {
				ours.Step(w.store)
			}
			meanwhile()
			for !ours.Step(w.store) {
			}
			got := ours.Snapshot()
			if !done {
				t.Fatalf("seed %d: nothing began stage %d", seed, stage)
			}
			if err := difference(want, got); err != nil {
				t.Fatalf("seed %d, stage %d: %v", seed, stage, err)
			}
			// And with what that left in their memories.
			theirs.store.Up()
			w.store.Up()
			if err := difference(real.Read(t.Context(), w.run(), catalog.Ask{}), reader.Read(w.store, w.run(), catalog.Ask{})); err != nil {
				t.Fatalf("seed %d, after stage %d: %v", seed, stage, err)
			}
		}
	}
}
