// Package image maps the image names of pods to environments of the host.
package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// ConfigFile, in an environment's directory, may hold a Config as JSON.
const ConfigFile = "image.json"

// Config is what an image may set beside its directory; the keys are those of
// the OCI image configuration.
type Config struct {
	Entrypoint []string
	Cmd        []string
	// Env holds KEY=VALUE; PATH replaces the one that the directory gives.
	Env        []string
	WorkingDir string
}

// Image is an environment of the host: programs in Dir/bin come first in PATH.
type Image struct {
	Name string
	Dir  string
	Config
}

// Set holds the known images by name.
type Set map[string]string

// Parse reads "name=directory,name=directory"; directories must exist.
func Parse(list []string) (Set, error) {
	set := Set{}
	for _, item := range list {
		name, dir, ok := strings.Cut(item, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("image %q: want name=directory", item)
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(abs); err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("image %s: %s is not a directory", name, abs)
		}
		set[name] = abs
	}
	return set, nil
}

// Find returns the image of a reference. A tag or digest is not looked at, and
// the default registry and its library may be spelled out.
func (s Set) Find(ref string) (*Image, error) {
	name := repository(ref)
	dir, ok := s[ref]
	if !ok {
		dir, ok = s[name]
	}
	if !ok {
		return nil, fmt.Errorf("image %q is not known to this node; it has: %s", ref, strings.Join(s.names(), ", "))
	}
	img := &Image{Name: name, Dir: dir}
	b, err := os.ReadFile(filepath.Join(dir, ConfigFile))
	if errors.Is(err, fs.ErrNotExist) {
		return img, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &img.Config)
	}
	if err != nil {
		return nil, fmt.Errorf("image %q: %s: %w", ref, ConfigFile, err)
	}
	return img, nil
}

func (s Set) names() []string {
	names := make([]string, 0, len(s))
	for n := range s {
		names = append(names, n)
	}
	sort.Strings(names)
	if len(names) == 0 {
		return []string{"none"}
	}
	return names
}

// repository strips what Find does not look at.
func repository(ref string) string {
	name, _, _ := strings.Cut(ref, "@")
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		name = name[:colon]
	}
	name = strings.TrimPrefix(name, "docker.io/")
	return strings.TrimPrefix(name, "library/")
}

// Environ returns what every container of the image has in its environment, as
// KEY=VALUE; of two values for a key the later one counts.
func (i *Image) Environ() []string {
	env := []string{"PATH=" + filepath.Join(i.Dir, "bin") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if _, err := os.Stat(filepath.Join(i.Dir, "pyvenv.cfg")); err == nil {
		env = append(env, "VIRTUAL_ENV="+i.Dir)
	}
	return append(env, i.Env...)
}
