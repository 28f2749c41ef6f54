package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"rtj.dev/rtj/test/cluster/internal/slot"
)

// buildEnv makes static programs that do not carry the state of the checkout.
var buildEnv = []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off"}

// Result says where the programs are.
type Result struct {
	// BinDir holds the control plane's programs, kubectl among them.
	BinDir string `json:"binDir"`
	// S3Dir holds the S3 server's.
	S3Dir string `json:"s3Dir"`
	// KubeletDir and CoreDNSDir hold what a kubelet node needs; empty if it was
	// not asked for.
	KubeletDir string `json:"kubeletDir,omitempty"`
	CoreDNSDir string `json:"coreDNSDir,omitempty"`
	// Manifests holds CRDs, RBAC, webhooks and stages, one folder a project.
	Manifests string `json:"manifests"`
	// Versions are those of the modules, by project name.
	Versions map[string]string `json:"versions"`
}

// Path is the path of a program by its name.
func (r Result) Path(name string) string {
	switch name {
	case "versitygw":
		return filepath.Join(r.S3Dir, name)
	case "kubelet":
		return filepath.Join(r.KubeletDir, name)
	case "coredns":
		return filepath.Join(r.CoreDNSDir, name)
	default:
		return filepath.Join(r.BinDir, name)
	}
}

// Wanted says which programs beside those that every cluster needs are built.
type Wanted struct {
	// KubeletNode is for the programs of a kubelet node.
	KubeletNode bool
}

// All builds what is missing in cache from the checkout at root, and reports
// progress. Two calls at once, in whatever processes, build once.
func All(ctx context.Context, root, cache string, wanted Wanted, progress io.Writer) (Result, error) {
	goVersion, err := goTool(ctx, root, "env", "GOVERSION")
	if err != nil {
		return Result{}, err
	}
	sets := []set{controlPlane(), s3Server()}
	if wanted.KubeletNode {
		sets = append(sets, kubelet(), coreDNS())
	}
	dirs := make([]string, len(sets))
	result := Result{Versions: map[string]string{}}
	var missing []task
	for i, s := range sets {
		key, err := s.key(root, strings.TrimSpace(goVersion))
		if err != nil {
			return Result{}, err
		}
		dirs[i] = filepath.Join(cache, "bin", s.name+"-"+key)
		if err := readVersions(filepath.Join(root, s.module, "go.mod"), result.Versions); err != nil {
			return Result{}, err
		}
		todo, err := s.missing(root, dirs[i])
		if err != nil {
			return Result{}, err
		}
		missing = append(missing, todo...)
	}
	result.BinDir, result.S3Dir = dirs[0], dirs[1]
	if wanted.KubeletNode {
		result.KubeletDir, result.CoreDNSDir = dirs[2], dirs[3]
	}
	result.Manifests = filepath.Join(dirs[0], "manifests")
	if len(missing) == 0 {
		return result, nil
	}

	lock, err := slot.Acquire(ctx, filepath.Join(cache, "bin", "lock"), func(pid int) {
		fmt.Fprintf(progress, "waiting for another build of the same programs (pid %d)\n", pid)
	})
	if err != nil {
		return Result{}, err
	}
	defer lock.Release()
	missing = missing[:0]
	for i, s := range sets { // whoever held the lock may have built them
		todo, err := s.missing(root, dirs[i])
		if err != nil {
			return Result{}, err
		}
		missing = append(missing, todo...)
	}
	if err := runAll(ctx, missing, progress); err != nil {
		return Result{}, err
	}
	return result, nil
}

// key names everything that the programs depend on.
func (s set) key(root, goVersion string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, goVersion, runtime.GOOS, runtime.GOARCH, s.ldflags, buildEnv)
	for _, p := range s.programs {
		fmt.Fprintln(h, p.name, p.pkg)
	}
	for _, c := range s.copies {
		fmt.Fprintln(h, c)
	}
	files := []string{"go.mod", "go.sum"}
	if slices.ContainsFunc(s.programs, func(p program) bool { return p.pkg == "." }) {
		files = append(files, "main.go")
	}
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(root, s.module, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, name, len(data))
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

func (s set) missing(root, dir string) ([]task, error) {
	module := filepath.Join(root, s.module)
	var tasks []task
	for _, p := range s.programs {
		path := filepath.Join(dir, p.name)
		if _, err := os.Stat(path); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		tasks = append(tasks, task{name: p.name, expected: p.cold, run: func(ctx context.Context) error {
			return s.build(ctx, module, p.pkg, path)
		}})
	}
	manifests := filepath.Join(dir, "manifests")
	if _, err := os.Stat(manifests); len(s.copies) > 0 && errors.Is(err, fs.ErrNotExist) {
		tasks = append(tasks, task{name: "manifests", run: func(ctx context.Context) error {
			return s.copyManifests(ctx, module, manifests)
		}})
	}
	return tasks, nil
}

func (s set) build(ctx context.Context, module, pkg, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := fmt.Sprintf("%s.tmp-%d", path, os.Getpid())
	defer os.Remove(tmp)
	if _, err := goTool(ctx, module, "build", "-trimpath", "-ldflags", s.ldflags, "-o", tmp, pkg); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func (s set) copyManifests(ctx context.Context, module, to string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(to), "manifests.tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	for _, c := range s.copies {
		dir, err := moduleDir(ctx, module, c.module)
		if err != nil {
			return err
		}
		if err := copyTree(filepath.Join(dir, c.from), filepath.Join(tmp, c.to)); err != nil {
			return err
		}
	}
	return os.Rename(tmp, to)
}

// moduleDir is the folder of a module in the module cache, fetched if it has
// been cleaned away since the programs were built.
func moduleDir(ctx context.Context, module, path string) (string, error) {
	out, err := goTool(ctx, module, "mod", "download", "-json", path)
	if err != nil {
		return "", err
	}
	var info struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &info); err != nil {
		return "", fmt.Errorf("go mod download -json %s: %w", path, err)
	}
	return info.Dir, nil
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644)
	})
}

// Local builds a program of the checkout itself to path. The go tool leaves a
// program that is up to date alone, and replaces one that runs.
func Local(ctx context.Context, moduleDir, pkg, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	_, err := goTool(ctx, moduleDir, "build", "-trimpath", "-ldflags", stripped, "-o", path, pkg)
	return err
}

func goTool(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), buildEnv...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("go %s (in %s): %w\n%s", strings.Join(args, " "), dir, err, lastLines(errOut.String(), 20))
	}
	return out.String(), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > n {
		lines = append([]string{"..."}, lines[len(lines)-n:]...)
	}
	return strings.Join(lines, "\n")
}

// readVersions reads the versions of the known modules out of a go.mod.
func readVersions(path string, into map[string]string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 {
			if name, ok := moduleVersions[fields[0]]; ok && strings.HasPrefix(fields[1], "v") {
				into[name] = fields[1]
			}
		}
	}
	return nil
}
