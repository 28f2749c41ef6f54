package image

import (
	"fmt"
	"os"
	"path/filepath"
)

// Pause is the image of pod sandboxes: one static program.
func Pause(program string) (Image, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return Image{}, err
	}
	return New(Config{Entrypoint: []string{"/pause"}}, []Entry{{Path: "pause", Mode: 0o755, Content: string(content)}})
}

// Host is the image of an environment of this machine, a folder with programs in
// bin, for example a Python virtual environment. It holds hardly a file: the
// node's containers see the machine's programs and the environment at their
// paths, read-only, by mounts of the node. What the image gives is PATH, and
// VIRTUAL_ENV where the environment is one, as images of a process node do.
func Host(env string) (Image, error) {
	if info, err := os.Stat(env); err != nil {
		return Image{}, err
	} else if !info.IsDir() {
		return Image{}, fmt.Errorf("%s is not a folder", env)
	}
	config := Config{Env: []string{"PATH=" + filepath.Join(env, "bin") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
	if _, err := os.Stat(filepath.Join(env, "pyvenv.cfg")); err == nil {
		config.Env = append(config.Env, "VIRTUAL_ENV="+env)
	}
	links, err := rootLinks("/")
	if err != nil {
		return Image{}, err
	}
	return New(config, append(links,
		Entry{Path: "usr", Mode: os.ModeDir | 0o755},
		Entry{Path: "root", Mode: os.ModeDir | 0o700},
		Entry{Path: "run", Mode: os.ModeDir | 0o755},
		Entry{Path: "tmp", Mode: os.ModeDir | os.ModeSticky | 0o777},
		Entry{Path: "var/tmp", Mode: os.ModeDir | os.ModeSticky | 0o777},
		Entry{Path: "etc/passwd", Mode: 0o644, Content: "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
		Entry{Path: "etc/group", Mode: 0o644, Content: "root:x:0:\nnogroup:x:65534:\n"},
		Entry{Path: "etc/nsswitch.conf", Mode: 0o644, Content: "hosts: files dns\n"},
	))
}

// rootLinks are /bin, /lib and the like where they are links into /usr.
func rootLinks(root string) ([]Entry, error) {
	var links []Entry
	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil || info.Mode()&os.ModeSymlink == 0 {
			continue
		}
		target, err := os.Readlink(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		links = append(links, Entry{Path: name, Mode: os.ModeSymlink | 0o777, Content: target})
	}
	return links, nil
}
