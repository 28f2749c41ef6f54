package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tree is the repository with a fix taken out: the files that the patch changes are
// copies in a folder of their own, which the compiler gets in place of the files.
type tree struct {
	root, folder string
	// overlay is the file that tells the compiler, sdk the folder of the Python package,
	// sim the binary, once it is built.
	overlay, sdk, sim string
}

// sdkSource is where the Python package is.
const sdkSource = "sdk/python/src"

// without returns the tree without a fix; an empty patch takes nothing out. folder is
// the caller's, and empty.
func without(ctx context.Context, root, patch, folder string) (*tree, error) {
	t := &tree{root: root, folder: folder, overlay: filepath.Join(folder, "overlay.json"), sdk: filepath.Join(root, sdkSource)}
	changed, err := t.apply(ctx, patch)
	if err != nil {
		return nil, err
	}
	replace := map[string]string{}
	for _, name := range changed {
		if strings.HasSuffix(name, ".go") {
			replace[filepath.Join(root, name)] = filepath.Join(folder, name)
		}
		if strings.HasPrefix(name, sdkSource) {
			t.sdk = filepath.Join(folder, sdkSource)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	return t, os.WriteFile(t.overlay, text, 0o600)
}

// apply copies the files that a patch changes, applies it to the copies, and returns
// their names.
func (t *tree) apply(ctx context.Context, patch string) (changed []string, err error) {
	if patch == "" {
		return nil, nil
	}
	text, err := os.ReadFile(patch)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "+++ b/"); ok {
			changed = append(changed, name)
		}
	}
	if len(changed) == 0 {
		return nil, fmt.Errorf("%s changes no file", patch)
	}
	for _, name := range changed {
		if strings.HasPrefix(name, sdkSource) {
			// Python takes a package as a whole.
			if err := t.copyPackage(); err != nil {
				return nil, err
			}
			continue
		}
		if err := t.copy(name); err != nil {
			return nil, err
		}
	}
	c := exec.CommandContext(ctx, "git", "apply", "-p1", patch)
	c.Dir = t.folder
	c.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(t.folder))
	if output, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s does not apply any more, so take the fix out anew: %s", filepath.Base(patch), bytes.TrimSpace(output))
	}
	return changed, nil
}

func (t *tree) copy(name string) error {
	text, err := os.ReadFile(filepath.Join(t.root, name))
	if err != nil {
		return err
	}
	to := filepath.Join(t.folder, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

func (t *tree) copyPackage() error {
	return filepath.WalkDir(filepath.Join(t.root, sdkSource), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".py") && entry.Name() != "py.typed" {
			return err
		}
		name, err := filepath.Rel(t.root, path)
		if err != nil {
			return err
		}
		return t.copy(name)
	})
}

// buildSim builds the simulation, once.
func (t *tree) buildSim(ctx context.Context) error {
	if t.sim != "" {
		return nil
	}
	binary := filepath.Join(t.folder, "sim")
	c := exec.CommandContext(ctx, "go", "build", "-overlay", t.overlay, "-o", binary, "./test/world/sim")
	c.Dir = t.root
	if output, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("the simulation does not build: %s", bytes.TrimSpace(output))
	}
	t.sim = binary
	return nil
}
