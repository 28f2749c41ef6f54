package image

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFindIgnoresTagDigestAndDefaultRegistry(t *testing.T) {
	dir := t.TempDir()
	set, err := Parse([]string{"python=" + dir, "registry.example:5000/team/trainer=" + dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"python", "python:3.11", "docker.io/library/python:3.11", "library/python", "python@sha256:0123",
		"registry.example:5000/team/trainer", "registry.example:5000/team/trainer:v1@sha256:0123"} {
		if _, err := set.Find(ref); err != nil {
			t.Error(err)
		}
	}
	for _, ref := range []string{"pythons", "team/python", "registry.example/team/trainer"} {
		_, err := set.Find(ref)
		if err == nil {
			t.Errorf("%s was found", ref)
		} else if !strings.Contains(err.Error(), ref) || !strings.Contains(err.Error(), "it has: python, registry.example:5000/team/trainer") {
			t.Errorf("the message does not help: %v", err)
		}
	}
}

func TestVirtualEnvironmentAndConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set := Set{"x": dir}
	img, err := set.Find("x")
	if err != nil {
		t.Fatal(err)
	}
	if env := img.Environ(); len(env) != 1 || !strings.HasPrefix(env[0], "PATH="+dir+"/bin:/usr/local/sbin:") {
		t.Errorf("a plain directory: %q", env)
	}
	write("pyvenv.cfg", "")
	write(ConfigFile, `{"Entrypoint": ["python"], "Env": ["A=1"]}`)
	if img, err = set.Find("x"); err != nil {
		t.Fatal(err)
	}
	if env := img.Environ(); !slices.Equal(env[1:], []string{"VIRTUAL_ENV=" + dir, "A=1"}) || !slices.Equal(img.Entrypoint, []string{"python"}) {
		t.Errorf("%q, %q", env, img.Entrypoint)
	}
	write(ConfigFile, `{"Entrypoint": "python"}`)
	if _, err = set.Find("x"); err == nil || !strings.Contains(err.Error(), ConfigFile) {
		t.Errorf("a broken %s: %v", ConfigFile, err)
	}
}

func TestParseRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for item, want := range map[string]string{"python": "want name=directory", "=x": "want name=directory",
		"python=/no/such/dir": "no such file", "python=" + file: "is not a directory"} {
		if _, err := Parse([]string{item}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", item, err)
		}
	}
}
