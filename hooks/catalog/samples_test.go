package catalog

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog/catalogtest"
)

var update = flag.Bool("update", false, "write the sample stores again")

const samplesFolder = "../../testdata/manifests"

// sample is a store that is kept in testdata, for people to look at and for
// rtj hook to be tried on.
type sample struct {
	// write writes the run and returns what must be selected for 2 ranks, and
	// for whom it is passed over, as "<attempt>/<step> <reason>".
	write  func(r *catalogtest.Run, objects map[string][]byte) (selected string)
	passed []string
}

var samples = map[string]sample{
	"preempted-and-resumed": {
		write: func(r *catalogtest.Run, _ map[string][]byte) string {
			r.Start(1, "")
			r.Save(1, 100)
			yielded := r.Save(1, 137)
			r.Progress(1, 137)
			r.Result(1, "yielded", 137, yielded)
			r.Start(2, yielded)
			r.Progress(2, 260)
			return r.Save(2, 250)
		},
	},
	"torn-save": {
		write: func(r *catalogtest.Run, objects map[string][]byte) string {
			r.Start(1, "")
			whole := r.Save(1, 200)
			r.Save(1, 300)
			delete(objects, r.Key("checkpoints/1/300-000000000002/01/r1-1"))
			return whole
		},
		passed: []string{"1/300 Incomplete"},
	},
	"save-without-commit": {
		write: func(r *catalogtest.Run, objects map[string][]byte) string {
			r.Start(1, "")
			whole := r.Save(1, 200)
			delete(objects, r.Key("manifests/"+r.Save(1, 300)+".json"))
			return whole
		},
	},
	"quarantined": {
		write: func(r *catalogtest.Run, _ map[string][]byte) string {
			r.Start(1, "")
			sound := r.Save(1, 200)
			r.Quarantine(r.Save(1, 300))
			return sound
		},
		passed: []string{"1/300 Quarantined"},
	},
	"zombie-commits-late": {
		write: func(r *catalogtest.Run, _ map[string][]byte) string {
			r.Start(1, "")
			shared := r.Save(1, 100)
			r.Start(2, shared)
			r.Start(3, shared)
			newest := r.Save(3, 150)
			r.Save(2, 900)
			return newest
		},
		passed: []string{"2/900 OtherBranch"},
	},
	"later-version-and-cut-manifest": {
		write: func(r *catalogtest.Run, objects map[string][]byte) string {
			r.Start(1, "")
			readable := r.Save(1, 100)
			r.Save(1, 200, func(d catalogtest.Document) { d["schemaVersion"] = "2.0" })
			key := r.Key("manifests/" + r.Save(1, 300) + ".json")
			objects[key] = objects[key][:100]
			return readable
		},
		passed: []string{"1/300 CorruptManifest", "1/200 UnknownVersion"},
	},
}

func TestSampleStores(t *testing.T) {
	for name, sample := range samples {
		t.Run(name, func(t *testing.T) {
			objects := map[string][]byte{}
			run := &catalogtest.Run{Namespace: "team-a", Name: "llama", RunID: "6d1f1f0e-8a51-4a39-9d2c-3f3a1c1a0001", Ranks: 2,
				Put: func(key string, data []byte) { objects[key] = data }}
			want := sample.write(run, objects)
			dir := filepath.Join(samplesFolder, name)
			if *update {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				put := catalogtest.Directory(dir, func(err error) { t.Fatal(err) })
				for key, data := range objects {
					put(key, data)
				}
			}
			sameFiles(t, dir, objects)

			s := Offline(dir, noon).Read(t.Context(), Run{Namespace: run.Namespace, Name: run.Name, RunID: run.RunID}, Ask{})
			if s.Failure != nil || s.Problems != nil {
				t.Fatalf("%+v %q", s.Failure, s.Problems)
			}
			c := checkpoint.Select(s, checkpoint.Query{RunID: run.RunID, WorldSize: 2})
			if c.Selected == nil || c.Selected.ID != want {
				t.Errorf("selected %+v, want %s", c.Selected, want)
			}
			var passed []string
			for _, p := range c.PassedOver {
				passed = append(passed, fmt.Sprintf("%d/%d %s", p.Attempt, p.Step, p.Reason))
			}
			if diff := cmp.Diff(sample.passed, passed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// sameFiles fails when the folder is not what the sample writes.
func sameFiles(t *testing.T, dir string, objects map[string][]byte) {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		key, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		key = filepath.ToSlash(key)
		found = append(found, key)
		data, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(data, objects[key]) {
			t.Errorf("%s differs", key)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(objects)), found); diff != "" {
		t.Error(diff)
	}
	if t.Failed() {
		t.Fatal(strings.TrimSpace(dir + " is out of date: go test ./hooks/catalog -run TestSampleStores -update"))
	}
}
