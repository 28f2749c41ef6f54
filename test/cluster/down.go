package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Down ends every process of the cluster in a state folder, unmounts what is
// mounted there, removes the folder and gives its ports and addresses back. It
// works whatever state the cluster is in: half started, crashed, rebooted.
// With keepLogs the logs and the audit log stay. It returns [ErrNoCluster]
// where there is none.
func Down(ctx context.Context, dir string, keepLogs bool) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	lock, err := lockDir(ctx, dir, nil)
	if err != nil {
		return err
	}
	defer lock.Remove()
	info, err := ReadInfo(dir)
	if err != nil {
		return err
	}
	stopErr := stopGently(ctx, info)
	if err := info.table().KillAll(); err != nil {
		return errors.Join(stopErr, err)
	}
	if err := cleanKubeletNode(info); err != nil {
		return errors.Join(stopErr, err)
	}
	if err := unmountBelow(dir); err != nil {
		return err
	}
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	if err := removeState(dir, keepLogs); err != nil {
		return err
	}
	return errors.Join(stopErr, registry(cache).Release(ctx, info.ID))
}

// stopGently lets those end by themselves that have something to clean up on
// the machine or in the cluster: the operator, and the process nodes, whose
// containers outlive them. Everything else is thrown away, so it is killed.
// What fails here is reported, and then killed as well.
func stopGently(ctx context.Context, info Info) error {
	table := info.table()
	stop := func(name string, grace time.Duration) error {
		if err := table.Stop(name, grace); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	var wait sync.WaitGroup
	errs := make([]error, info.Options.ProcessNodes+1)
	for i := range info.Options.ProcessNodes {
		wait.Go(func() {
			name := ProcessNodeName(i)
			if errs[i] = stop(name, processNodeGrace); errs[i] == nil {
				errs[i] = cleanProcessNode(ctx, info, name)
			}
		})
	}
	wait.Go(func() { errs[info.Options.ProcessNodes] = stop(Operator, defaultGrace) })
	wait.Wait()
	return errors.Join(errs...)
}

// unmountBelow detaches the mounts in this mount namespace below a folder,
// innermost first.
func unmountBelow(dir string) error {
	points, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	for _, p := range points {
		if err := syscall.Unmount(p, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("unmount %s: %w", p, err)
		}
	}
	return nil
}

func mountsBelow(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var points []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if p := mountPoint(lines.Text()); strings.HasPrefix(p, dir+"/") {
			points = append(points, p)
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(points)))
	return points, lines.Err()
}

// mountPoint is field 5 of a line of mountinfo, in which blanks and
// backslashes are written in octal (proc_pid_mountinfo(5)).
func mountPoint(line string) string {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return ""
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
}

// removeState removes a state folder. cluster.json goes last, so that a
// removal that was interrupted can be done again.
func removeState(dir string, keepLogs bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == stateFile || keepLogs && leftovers[e.Name()] {
			continue
		}
		if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(dir, stateFile)); err != nil {
		return err
	}
	if keepLogs {
		return nil
	}
	return os.Remove(dir)
}

// removeTree removes a tree even where folders in it were made unwritable, as
// the work folder of an overlay is.
func removeTree(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(path)
}

// sweep takes down clusters whose owner has ended without doing so.
func sweep(ctx context.Context, cache string) error {
	claims, err := registry(cache).Claims(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, claim := range claims {
		info, err := ReadInfo(claim.Dir)
		if err != nil || info.ID != claim.ID || info.Owner == nil || info.Owner.Alive() {
			continue
		}
		if err := Down(ctx, claim.Dir, false); err != nil && !errors.Is(err, ErrNoCluster) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
