package catalog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog/catalogtest"
)

// folder is a run in a folder, and a Reader of it.
func folder(t *testing.T) (string, *catalogtest.Run, func() *checkpoint.Snapshot) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	run := &catalogtest.Run{Namespace: "team-a", Name: "llama", RunID: "run-1", Ranks: 2,
		Put: catalogtest.Directory(dir, func(err error) { t.Fatal(err) })}
	return dir, run, func() *checkpoint.Snapshot {
		return Offline(dir, noon).Read(t.Context(), Run{Namespace: "team-a", Name: "llama", RunID: "run-1"}, Ask{})
	}
}

func TestAFolderIsReadLikeAStore(t *testing.T) {
	dir, run, read := folder(t)
	run.Start(1, "")
	first := run.Save(1, 100)
	torn := run.Save(1, 200)
	run.Quarantine(first)
	// A file that is being written has a name with a dot until it is renamed.
	run.Put(run.Key("manifests/.new.json"), []byte("{"))
	run.Put(run.Key("checkpoints/1/100-000000000001/.tmp/x"), []byte("{"))
	if err := os.Truncate(filepath.Join(dir, run.Key("checkpoints/1/200-000000000002/01/r1-0")), 10); err != nil {
		t.Fatal(err)
	}

	s := read()
	if !s.Readable() || !s.ListedAt.Equal(noon) || len(s.Manifests) != 2 || s.Problems != nil {
		t.Fatalf("%+v %+v", s, s.Failure)
	}
	if m := find(t, s, first); m.Incomplete != "" || m.CommittedAt.IsZero() {
		t.Errorf("%+v", m)
	}
	if got := find(t, s, torn).Incomplete; got != "checkpoints/1/200-000000000002/01/r1-0 has 10 bytes, the index says 26" {
		t.Error(got)
	}
	if len(s.Quarantined) != 1 || s.Attempts[1].Start == nil {
		t.Errorf("%+v", s)
	}
}

// Offline there is no newest few: every object of every checkpoint is compared.
func TestAFolderIsReadThoroughly(t *testing.T) {
	dir, run, read := folder(t)
	run.Start(1, "")
	oldest := run.Save(1, 1)
	for step := range int64(thoroughManifests) {
		run.Save(1, 100+step)
	}
	path := filepath.Join(dir, run.Key("checkpoints/1/1-000000000001/00/r0-0"))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[0] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := find(t, read(), oldest).Incomplete; !strings.Contains(got, "00/r0-0 has ETag") {
		t.Error(got)
	}
}

func TestAFolderThatDoesNotExistIsAnEmptyStore(t *testing.T) {
	dir, run, read := folder(t)
	empty := func(when string) {
		t.Helper()
		if s := read(); !s.Readable() || !checkpoint.Select(s, checkpoint.Query{RunID: "run-1"}).Empty {
			t.Errorf("%s: %+v", when, s.Failure)
		}
	}
	empty("no folder")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	empty("an empty folder")
	run.Start(1, "")
	empty("a run without checkpoints")
}

func TestAFolderThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, dir string, run *catalogtest.Run) error
		kind   checkpoint.FailureKind
		want   string
	}{
		{"the root is a file", func(_ *testing.T, dir string, _ *catalogtest.Run) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o644))
		}, checkpoint.Unreachable, "not a directory"},
		{"the run is a file", func(_ *testing.T, dir string, run *catalogtest.Run) error {
			path := filepath.Join(dir, "team-a", "llama")
			return errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o644))
		}, checkpoint.Unreachable, "not a directory"},
		{"the manifests are a file", func(_ *testing.T, dir string, run *catalogtest.Run) error {
			path := filepath.Join(dir, run.Key("manifests"))
			return errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o644))
		}, checkpoint.Unreachable, "not a directory"},
		{"an object is a link to nowhere", func(_ *testing.T, dir string, run *catalogtest.Run) error {
			path := filepath.Join(dir, run.Key("checkpoints/1/100-000000000001/01/r1-0"))
			return errors.Join(os.Remove(path), os.Symlink("nowhere", path))
		}, checkpoint.Unreachable, "r1-0"},
		{"a record is a link to itself", func(_ *testing.T, dir string, run *catalogtest.Run) error {
			path := filepath.Join(dir, run.Key("attempts/1/start.json"))
			return errors.Join(os.Remove(path), os.Symlink("start.json", path))
		}, checkpoint.Unreachable, "start.json"},
		{"a folder is not permitted", func(t *testing.T, dir string, run *catalogtest.Run) error {
			if os.Geteuid() == 0 {
				t.Skip("root may read everything")
			}
			path := filepath.Join(dir, run.Key("manifests"))
			t.Cleanup(func() { _ = os.Chmod(path, 0o755) }) // so that it can be removed
			return os.Chmod(path, 0)
		}, checkpoint.AccessDenied, "permission denied"},
		{"a file is not permitted", func(t *testing.T, dir string, run *catalogtest.Run) error {
			if os.Geteuid() == 0 {
				t.Skip("root may read everything")
			}
			return os.Chmod(filepath.Join(dir, run.Key("checkpoints/1/100-000000000001/00/r0-0")), 0)
		}, checkpoint.AccessDenied, "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, run, read := folder(t)
			run.Start(1, "")
			run.Save(1, 100)
			if err := c.damage(t, dir, run); err != nil {
				t.Fatal(err)
			}
			s := read()
			if s.Failure == nil || s.Failure.Kind != c.kind || !strings.Contains(s.Failure.Message, c.want) {
				t.Fatalf("%+v, want %s with %q", s.Failure, c.kind, c.want)
			}
		})
	}
}

func TestAKeyCannotLeaveTheFolder(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "secret"), []byte("hush"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := OpenDirectory(filepath.Join(root, "store"))
	if data, _, err := d.Get(t.Context(), "../secret", 100); err == nil || errors.Is(err, ErrNotExist) {
		t.Errorf("%q, %v", data, err)
	}
	for _, err := range d.List(t.Context(), "../") {
		if err == nil {
			t.Error("listed a folder outside")
		}
	}
}

func TestDirectoryGivesWhatListingsOfAStoreGive(t *testing.T) {
	dir := t.TempDir()
	put := catalogtest.Directory(dir, func(err error) { t.Fatal(err) })
	put("run/b/2", []byte("b"))
	put("run/b/1", []byte("a"))
	put("run/a", []byte("hello"))
	put("other", nil)
	when := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(dir, "run/a"), when, when); err != nil {
		t.Fatal(err)
	}
	var got []Object
	for o, err := range OpenDirectory(dir).List(t.Context(), "run/") {
		if err != nil {
			t.Fatal(err)
		}
		if o.Key != "run/a" {
			o.Modified = time.Time{}
		}
		o.Modified = o.Modified.UTC()
		got = append(got, o)
	}
	want := []Object{
		{"run/a", 5, "5d41402abc4b2a76b9719d911017c592", when},
		{"run/b/1", 1, "0cc175b9c0f1b6a831c399e269772661", time.Time{}},
		{"run/b/2", 1, "92eb5ffee6ae2fec3ad71c777531578f", time.Time{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, _, err := OpenDirectory(dir).Get(t.Context(), "run/a", 4); err == nil || err.Error() != "has 5 bytes, at most 4 are read" {
		t.Error(err)
	}
	if _, _, err := OpenDirectory(dir).Get(t.Context(), "run/c", 4); !errors.Is(err, ErrNotExist) {
		t.Error(err)
	}
}
