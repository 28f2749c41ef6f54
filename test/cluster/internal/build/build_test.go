package build

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestKeyChangesWithEverythingThatTheProgramsDependOn(t *testing.T) {
	root := t.TempDir()
	base := set{name: "s", module: "m", ldflags: "-s", programs: []program{{name: "p", pkg: "example.com/p"}}}
	write(t, filepath.Join(root, "m", "go.mod"), "module m\n")
	write(t, filepath.Join(root, "m", "go.sum"), "")
	key := func(s set, goVersion string) string {
		t.Helper()
		k, err := s.key(root, goVersion)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := key(base, "go1.26.8")
	if again := key(base, "go1.26.8"); again != first {
		t.Errorf("the key of the same is %s and %s", first, again)
	}
	seen := map[string]string{first: "the base"}
	differs := func(what, k string) {
		t.Helper()
		if other, taken := seen[k]; taken {
			t.Errorf("%s has the key of %s", what, other)
		}
		seen[k] = what
	}
	differs("another Go", key(base, "go1.26.9"))
	flags := base
	flags.ldflags = "-s -w"
	differs("other flags", key(flags, "go1.26.8"))
	more := base
	more.programs = append([]program{{name: "q", pkg: "example.com/q"}}, base.programs...)
	differs("another program", key(more, "go1.26.8"))
	copies := base
	copies.copies = []manifestCopy{{"a", "b", "c"}}
	differs("other manifests", key(copies, "go1.26.8"))
	write(t, filepath.Join(root, "m", "go.sum"), "x v1 h1:\n")
	differs("another go.sum", key(base, "go1.26.8"))
	write(t, filepath.Join(root, "m", "go.mod"), "module m\nrequire x v1\n")
	differs("another go.mod", key(base, "go1.26.8"))
	own := base
	own.programs = []program{{name: "p", pkg: "."}}
	write(t, filepath.Join(root, "m", "main.go"), "package main\n")
	differs("a program of ours", key(own, "go1.26.8"))
	write(t, filepath.Join(root, "m", "main.go"), "package main // changed\n")
	differs("other source of it", key(own, "go1.26.8"))
}

func TestReadVersionsKnowsBothFormsOfRequire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "go.mod")
	write(t, path, `module m

require k8s.io/kubernetes v1.36.3

require (
	sigs.k8s.io/kueue v0.19.2
	sigs.k8s.io/jobset v0.12.0 // indirect
	example.com/other v1.0.0
)

replace sigs.k8s.io/kwok => ../kwok
`)
	got := map[string]string{}
	if err := readVersions(path, got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"kubernetes": "v1.36.3", "kueue": "v0.19.2", "jobset": "v0.12.0"}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, version := range want {
		if got[name] != version {
			t.Errorf("%s: got %q, want %q", name, got[name], version)
		}
	}
}

func TestRemainingScalesWithWhatTookLongerSoFar(t *testing.T) {
	est := estimate{}
	running := task{expected: time.Minute}
	ahead := []task{{expected: time.Minute}, {expected: time.Minute}}
	if got := est.remaining(running, 0, ahead); got != "about 3 min to go" {
		t.Errorf("at first: %s", got)
	}
	est.learn(time.Minute, 2*time.Minute)
	if got := est.remaining(running, time.Minute, ahead); got != "about 5 min to go" {
		t.Errorf("twice as slow, one minute in: %s", got)
	}
	if got := est.remaining(running, time.Hour, nil); got != "a few seconds to go" {
		t.Errorf("overdue: %s", got)
	}
}

func TestRunAllStopsAtTheFirstFailure(t *testing.T) {
	var ran []string
	does := func(name string, err error) task {
		return task{name: name, run: func(context.Context) error {
			ran = append(ran, name)
			return err
		}}
	}
	broken := errors.New("does not compile")
	var out bytes.Buffer
	err := runAll(t.Context(), []task{does("one", nil), does("two", broken), does("three", nil)}, &out)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "two") {
		t.Errorf("error: %v", err)
	}
	if strings.Join(ran, " ") != "one two" {
		t.Errorf("ran: %v", ran)
	}
	if !strings.Contains(out.String(), "build 1/3 one: done") || !strings.Contains(out.String(), "build 2/3 two (") {
		t.Errorf("progress:\n%s", out.String())
	}
}

func TestAFailedBuildLeavesTheProgramAlone(t *testing.T) {
	module := t.TempDir()
	write(t, filepath.Join(module, "go.mod"), "module example.com/m\n\ngo 1.24\n")
	write(t, filepath.Join(module, "main.go"), "package main\n\nfunc main() { println(1) }\n")
	path := filepath.Join(t.TempDir(), "bin", "m")
	if err := Local(t.Context(), module, ".", path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Local(t.Context(), module, ".", path); err != nil {
		t.Fatal(err)
	}
	if again, err := os.Stat(path); err != nil || !os.SameFile(info, again) {
		t.Errorf("a program that is up to date was linked anew (%v)", err)
	}
	write(t, filepath.Join(module, "main.go"), "package main\n\nfunc main() { broken }\n")
	if err := Local(t.Context(), module, ".", path); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("the compiler's message is missing: %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("a failed build changed the program (%v)", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("a failed build left files behind: %v", left)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
