package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"
)

// MarkerEnv is the environment variable that every process of a cluster
// carries, with the cluster's random id as value. It finds processes that no
// record names: started in the moment before a crash, or children of one that
// was killed.
const MarkerEnv = "RTJ_CLUSTER_ID"

// Spec says how to start one process.
type Spec struct {
	Name string
	Path string
	// Args are the arguments after the program's name; Arg0, where not empty,
	// replaces that name.
	Args []string
	Arg0 string
	// Env is added to a small base environment (PATH, HOME, LANG, TMPDIR, TZ).
	Env []string
	Dir string
	// Sys may carry clone flags and id mappings; the session is always new.
	Sys *syscall.SysProcAttr
	// Files are inherited as descriptors 3, 4, ...
	Files []*os.File
}

// Record is what is kept on disk of a started process. Arguments are kept for
// people who look; secrets are passed in the environment, which is not.
type Record struct {
	Identity
	Name    string    `json:"name"`
	Started time.Time `json:"started"`
	Args    []string  `json:"args"`
	Log     string    `json:"log"`
}

// Process is a child of the calling process.
type Process struct {
	Record
	done  chan struct{}
	state *os.ProcessState
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitText says how the process ended, after Done.
func (p *Process) ExitText() string {
	if p.state == nil {
		return "ended"
	}
	return p.state.String()
}

// Table is a folder with the records of one cluster's processes and the folder
// of their logs.
type Table struct {
	RunDir string
	LogDir string
	// Marker is the value of MarkerEnv.
	Marker string
}

// LogPath is the file that a component's output goes to.
func (t Table) LogPath(name string) string { return filepath.Join(t.LogDir, name+".log") }

// Start starts the process in a session of its own with its output appended to
// its log, and records it. The process outlives the caller.
func (t Table) Start(s Spec) (*Process, error) {
	if old, err := t.Get(s.Name); err == nil && old.Alive() {
		return nil, fmt.Errorf("%s already runs with pid %d", s.Name, old.PID)
	}
	for _, dir := range []string{t.RunDir, t.LogDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	// O_APPEND lets the keeper truncate the file under the writer.
	log, err := os.OpenFile(t.LogPath(s.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()

	cmd := exec.Command(s.Path, s.Args...)
	if s.Arg0 != "" {
		cmd.Args[0] = s.Arg0
	}
	cmd.Env = append(baseEnv(), s.Env...)
	cmd.Env = append(cmd.Env, MarkerEnv+"="+t.Marker)
	cmd.Dir = s.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = s.Files
	sys := syscall.SysProcAttr{}
	if s.Sys != nil {
		sys = *s.Sys
	}
	sys.Setsid = true
	cmd.SysProcAttr = &sys
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	id, err := Identify(cmd.Process.Pid)
	if err == nil {
		p := &Process{
			Record: Record{Identity: id, Name: s.Name, Started: time.Now().UTC().Truncate(time.Second),
				Args: append([]string{s.Path}, s.Args...), Log: log.Name()},
			done: make(chan struct{}),
		}
		if err = t.put(p.Record); err == nil {
			go func() {
				_ = cmd.Wait()
				p.state = cmd.ProcessState
				close(p.done)
			}()
			return p, nil
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return nil, fmt.Errorf("record %s: %w", s.Name, err)
}

// baseEnv keeps what programs need to find their way and leaves out the rest
// of the caller's environment, which may hold secrets or proxies.
func baseEnv() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR", "TZ", "USER"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func (t Table) recordPath(name string) string { return filepath.Join(t.RunDir, name+".json") }

func (t Table) put(r Record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	tmp := t.recordPath(r.Name) + ".tmp"
	if err := os.WriteFile(tmp, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, t.recordPath(r.Name))
}

// Get reads the record of a component; fs.ErrNotExist if it was never started.
func (t Table) Get(name string) (Record, error) {
	data, err := os.ReadFile(t.recordPath(name))
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("%s: %w", t.recordPath(name), err)
	}
	return r, nil
}

// All reads every record, in order of start.
func (t Table) All() ([]Record, error) {
	names, err := filepath.Glob(filepath.Join(t.RunDir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Record
	for _, path := range names {
		r, err := t.Get(strings.TrimSuffix(filepath.Base(path), ".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].StartTicks < all[j].StartTicks })
	return all, nil
}

// Tail returns the last lines of a component's log, at most n, and at most the
// last 512 n bytes or 64 KiB, whatever is more.
func (t Table) Tail(name string, n int) string {
	f, err := os.Open(t.LogPath(name))
	if err != nil {
		return ""
	}
	defer f.Close()
	window := max(64<<10, 512*int64(n))
	if info, err := f.Stat(); err == nil && info.Size() > window {
		if _, err := f.Seek(-window, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, window))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}

// TrimLogs keeps the newest part of every log that has outgrown limit bytes
// beside it as NAME.log.1 and empties the log.
func (t Table) TrimLogs(limit int64) error {
	paths, err := filepath.Glob(filepath.Join(t.LogDir, "*.log"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range paths {
		errs = append(errs, trimLog(path, limit))
	}
	return errors.Join(errs...)
}

func trimLog(path string, limit int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= limit {
		return err
	}
	if _, err := f.Seek(-limit/2, io.SeekEnd); err != nil {
		return err
	}
	old, err := os.OpenFile(path+".1", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(old, f)
	if closeErr := old.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return f.Truncate(0)
}
