package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// root assembles a container's root in the mount namespace of the init.
//
// It is the host's root seen through overlays, so that the container writes
// only to its own upper layer and every path may be a mount point. One overlay
// of "/" would hide what is mounted below it, and the kernel refuses it in a
// user namespace (mounts inherited from the host may not be uncovered). So each
// directory without mounts below it is an overlay of its own, and the
// directories above them are plain ones.
type root struct {
	spec   *Spec
	layers string   // where root, upper and work live
	path   string   // the new root, below layers
	mounts []string // mount points of the host
	skip   map[string]bool
	// targets are the paths that must exist as mount points or working
	// directory; the value says whether a file is wanted.
	targets map[string]bool
	// overlays counts what succeeded; refused is why one did not.
	overlays int
	refused  error
}

// ownDirs are directories that every container has of its own.
var ownDirs = []string{"/proc", "/sys", "/dev", "/run"}

func assembleRoot(dir string, spec *Spec) (string, error) {
	r := &root{spec: spec, layers: filepath.Join(dir, layersDir), skip: map[string]bool{}, targets: map[string]bool{}}
	r.path = filepath.Join(r.layers, "root")
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return "", fmt.Errorf("read mounts: %w", err)
	}
	for _, m := range infos {
		r.mounts = append(r.mounts, m.Mountpoint)
		// Looking into an automount point would mount it.
		r.skip[m.Mountpoint] = m.FSType == "autofs"
	}
	// Nothing that is mounted here may reach the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", fmt.Errorf("make mounts private: %w", err)
	}
	if spec.UpperOnTmpfs {
		if err := unix.Mount("tmpfs", r.layers, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
			return "", fmt.Errorf("mount tmpfs for the upper layer: %w", err)
		}
	}
	if err := os.Mkdir(r.path, 0o755); err != nil {
		return "", err
	}
	// pivot_root wants a mount point.
	if err := unix.Mount(r.path, r.path, "", unix.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("bind the root: %w", err)
	}
	mounts, err := r.resolve()
	if err != nil {
		return "", err
	}
	if err := r.graftChildren("/"); err != nil {
		return "", err
	}
	if r.overlays == 0 {
		return "", r.refused
	}
	if err := r.own(); err != nil {
		return "", err
	}
	return r.path, r.bind(mounts)
}

// resolve follows symbolic links in all targets, as the host has them.
func (r *root) resolve() ([]Mount, error) {
	mounts := append([]Mount(nil), r.spec.Mounts...)
	for i := range mounts {
		m := &mounts[i]
		target, err := securejoin.SecureJoin("/", m.Target)
		if err != nil {
			return nil, fmt.Errorf("mount path %s: %w", m.Target, err)
		}
		if target == "/" {
			return nil, errors.New("a volume cannot be mounted at /")
		}
		m.Target = target
		if m.SubPath != "" {
			source, err := securejoin.SecureJoin(m.Source, m.SubPath)
			if err != nil {
				return nil, fmt.Errorf("subPath %s: %w", m.SubPath, err)
			}
			if _, err := os.Stat(source); errors.Is(err, fs.ErrNotExist) {
				if err := os.MkdirAll(source, 0o755); err != nil {
					return nil, fmt.Errorf("create subPath %s: %w", m.SubPath, err)
				}
			}
			m.Source = source
		}
		info, err := os.Stat(m.Source)
		if err != nil {
			return nil, fmt.Errorf("volume for %s: %w", m.Target, err)
		}
		r.targets[m.Target] = !info.IsDir()
	}
	if r.spec.WorkingDir != "" {
		dir, err := securejoin.SecureJoin("/", r.spec.WorkingDir)
		if err != nil {
			return nil, fmt.Errorf("working directory %s: %w", r.spec.WorkingDir, err)
		}
		if _, ok := r.targets[dir]; !ok {
			r.targets[dir] = false
		}
	}
	sort.SliceStable(mounts, func(i, j int) bool { return len(mounts[i].Target) < len(mounts[j].Target) })
	return mounts, nil
}

// graftChildren makes the entries of the host's directory p appear in the new
// root, in which p exists.
func (r *root) graftChildren(p string) error {
	entries, err := os.ReadDir(p)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	}
	for _, e := range entries {
		child := filepath.Join(p, e.Name())
		if r.skip[child] || isOwn(child) || child == r.layers {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // gone, or not to be seen by this user
		}
		dest := r.path + child
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(child)
			if err == nil {
				err = os.Symlink(link, dest)
			}
			if err != nil {
				return err
			}
		case info.IsDir():
			if err := os.Mkdir(dest, 0o755); err != nil {
				return err
			}
			if err := r.graft(child); err != nil {
				return err
			}
		case info.Mode().IsRegular():
			if err := os.WriteFile(dest, nil, 0o600); err != nil {
				return err
			}
			if err := bindReadOnly(child, dest); err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
		}
	}
	return nil
}

// graft makes the host's directory p appear in the new root.
func (r *root) graft(p string) error {
	descend := r.mountBelow(p)
	if !descend {
		err := r.overlay(p)
		if err == nil {
			r.overlays++
			return nil
		}
		if _, precise := err.(*fs.PathError); precise {
			return err
		}
		if r.refused == nil {
			r.refused = fmt.Errorf("mount an overlay of %s: %w", p, err)
		}
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		// A file system that cannot be a lower layer is shown read-only.
		if err := bindReadOnly(p, r.path+p); err != nil {
			return fmt.Errorf("show %s of the host: %w", p, err)
		}
		return nil
	}
	if info, err := os.Stat(p); err == nil {
		if err := os.Chmod(r.path+p, permissions(info)); err != nil {
			return err
		}
	}
	return r.graftChildren(p)
}

func (r *root) mountBelow(p string) bool {
	for _, m := range r.mounts {
		if strings.HasPrefix(m, p+"/") {
			return true
		}
	}
	return false
}

// overlay mounts the overlay of p. The mount points below p are made in the
// upper layer before: in a user namespace root may not create them later in
// directories that belong to users outside of it.
func (r *root) overlay(p string) error {
	upper, work := filepath.Join(r.layers, "upper")+p, filepath.Join(r.layers, "work")+p
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(upper), 0o755); err != nil {
		return err
	}
	if err := r.mkdirLike(upper, p); err != nil {
		return err
	}
	for target, file := range r.targets {
		if err := r.prepare(p, upper, target, file); err != nil {
			return err
		}
	}
	options := "lowerdir=" + escape(p) + ",upperdir=" + escape(upper) + ",workdir=" + escape(work)
	if r.spec.UserNamespace {
		options += ",userxattr"
	}
	// volatile: what a container wrote to its root ends with it, so nothing
	// needs to be synced.
	err := unix.Mount("overlay", r.path+p, "overlay", 0, options+",volatile")
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("overlay", r.path+p, "overlay", 0, options)
	}
	return err
}

// prepare makes target, if it lies below p and the host does not have it.
func (r *root) prepare(p, upper, target string, file bool) error {
	rel, below := strings.CutPrefix(target, p+"/")
	if !below {
		return nil
	}
	if info, err := os.Stat(target); err == nil {
		if info.IsDir() == file {
			return &fs.PathError{Op: "mount", Path: target, Err: errKind(file)}
		}
		return nil
	}
	parts := strings.Split(rel, "/")
	for i := range parts {
		below := strings.Join(parts[:i+1], "/")
		made := filepath.Join(upper, below)
		if file && i == len(parts)-1 {
			f, err := os.OpenFile(made, os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			return f.Close()
		}
		if err := r.mkdirLike(made, filepath.Join(p, below)); err != nil {
			return err
		}
	}
	return nil
}

func errKind(wantFile bool) error {
	if wantFile {
		return errors.New("the volume is a file and the path a directory")
	}
	return errors.New("the volume is a directory and the path a file")
}

// mkdirLike makes the directory dest with mode and, where possible, owner of
// the host's directory like, if that exists.
func (r *root) mkdirLike(dest, like string) error {
	if err := os.Mkdir(dest, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	info, err := os.Stat(like)
	if err != nil {
		return nil
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: like, Err: syscall.ENOTDIR}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && !r.spec.UserNamespace {
		if err := os.Lchown(dest, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return os.Chmod(dest, permissions(info))
}

func permissions(info fs.FileInfo) fs.FileMode {
	return info.Mode() & (fs.ModePerm | fs.ModeSticky)
}

// own makes the directories that belong to the container alone.
func (r *root) own() error {
	for _, d := range append([]string{"/tmp"}, ownDirs...) {
		if err := os.Mkdir(r.path+d, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := unix.Mount("proc", r.path+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := bindReadOnly("/sys", r.path+"/sys"); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	// The usual target of /etc/resolv.conf.
	if resolve := "/run/systemd/resolve"; isDir(resolve) {
		if err := os.MkdirAll(r.path+resolve, 0o755); err != nil {
			return err
		}
		if err := bindReadOnly(resolve, r.path+resolve); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return r.devices()
}

func (r *root) devices() error {
	dev := r.path + "/dev"
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if _, err := os.Stat("/dev/" + name); err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dev, name), nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount("/dev/"+name, filepath.Join(dev, name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind /dev/%s: %w", name, err)
		}
	}
	for _, d := range []string{"pts", "shm"} {
		if err := os.Mkdir(filepath.Join(dev, d), 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("tmpfs", dev+"/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	if err := unix.Mount("devpts", dev+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return fmt.Errorf("mount /dev/pts: %w", err)
	}
	for name, link := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(link, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	return nil
}

// bind mounts the volumes, outer ones first, and makes them read-only last, so
// that mount points inside of a volume can still be made.
func (r *root) bind(mounts []Mount) error {
	for target, file := range r.targets {
		if !file && !within(target, mounts) {
			if err := os.MkdirAll(r.path+target, 0o755); err != nil {
				return fmt.Errorf("create %s: %w", target, err)
			}
		}
	}
	for _, m := range mounts {
		dest := r.path + m.Target
		err := os.MkdirAll(filepath.Dir(dest), 0o755)
		if err == nil && r.targets[m.Target] {
			var f *os.File
			if f, err = os.OpenFile(dest, os.O_CREATE|os.O_RDONLY, 0o644); err == nil {
				err = f.Close()
			}
		} else if err == nil {
			err = os.MkdirAll(dest, 0o755)
		}
		if err != nil {
			return fmt.Errorf("create mount point %s: %w", m.Target, err)
		}
		if err := unix.Mount(m.Source, dest, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	for _, m := range mounts {
		if m.ReadOnly {
			if err := setReadOnly(r.path + m.Target); err != nil {
				return fmt.Errorf("make %s read-only: %w", m.Target, err)
			}
		}
	}
	return nil
}

func within(target string, mounts []Mount) bool {
	for _, m := range mounts {
		if strings.HasPrefix(target, m.Target+"/") {
			return true
		}
	}
	return false
}

func bindReadOnly(source, dest string) error {
	if err := unix.Mount(source, dest, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return setReadOnly(dest)
}

func setReadOnly(path string) error {
	return unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

func isOwn(p string) bool {
	for _, d := range ownDirs {
		if p == d {
			return true
		}
	}
	return false
}

func isDir(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}

// escape quotes what separates overlay options and layers.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}
