package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"rtj.dev/rtj/test/mutation/mutant"
)

// bench holds the test binaries with all mutants compiled in.
type bench struct {
	folder string
	suites []*built
}

// built is a suite that can be run.
type built struct {
	suite
	binary string
	parts  []string
	// reach are the parts that reach a mutant, in order.
	reach map[int][]string
	// limit is how much time of a CPU the whole suite may take.
	limit   time.Duration
	killers killers
	// early are the mutants that are reached before a test can switch them on.
	early map[int]bool
}

// build compiles the suites with the instrumented copies in place of the sources.
func build(ctx context.Context, packages []*code, suites []suite) (*bench, error) {
	folder, err := os.MkdirTemp("", "mutation-")
	if err != nil {
		return nil, err
	}
	b := &bench{folder: folder}
	overlay, err := b.write(packages)
	if err == nil {
		err = b.compile(ctx, overlay, suites)
	}
	if err != nil {
		return nil, errors.Join(err, b.remove())
	}
	return b, nil
}

func (b *bench) remove() error { return os.RemoveAll(b.folder) }

// write writes the copies, and the list that tells the compiler of them.
func (b *bench) write(packages []*code) (overlay string, err error) {
	replace := map[string]string{}
	for _, p := range packages {
		for _, s := range p.sources {
			path, err := filepath.Abs(s.name)
			if err != nil {
				return "", err
			}
			replace[path] = filepath.Join(b.folder, strings.ReplaceAll(s.name, "/", "_"))
			if err := os.WriteFile(replace[path], []byte(s.instrumented()), 0o644); err != nil {
				return "", err
			}
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(b.folder, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}

func (b *bench) compile(ctx context.Context, overlay string, suites []suite) error {
	for _, s := range suites {
		t := &built{suite: s, binary: filepath.Join(b.folder, s.name+".test"), reach: map[int][]string{}}
		fmt.Fprintf(os.Stderr, "compiling %s\n", s.name)
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", t.binary, "./"+s.folder)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compiling %s: %w\n%s", s.name, err, out)
		}
		var err error
		if t.parts, err = s.parts(); err != nil {
			return err
		}
		b.suites = append(b.suites, t)
	}
	return nil
}

// outcome of one run of a suite.
type outcome struct {
	failed  bool
	timeout bool
	test    string // that failed first
	output  []byte
	took    time.Duration // of a CPU
}

const (
	// maxMemory of a test in KiB; a mutant that loops may allocate without end.
	maxMemory = 6 << 20
	// maxWait bounds a test that waits for what never comes.
	maxWait = 10 * time.Minute
)

// run runs parts of the suite until the first failure, for so much time of a CPU,
// which does not depend on what else the machine does.
func (t *built) run(ctx context.Context, parts []string, limit time.Duration, environment ...string) (outcome, error) {
	return t.runTests(ctx, t.pattern(parts), limit, environment...)
}

func (t *built) runTests(ctx context.Context, pattern string, limit time.Duration, environment ...string) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	limits := fmt.Sprintf(`ulimit -v %d 2>/dev/null; ulimit -t %d; exec "$0" "$@"`, maxMemory, int(limit.Seconds())+1)
	argv := []string{"-c", limits, t.binary, "-test.failfast", "-test.timeout=0", "-test.run", pattern}
	cmd := exec.CommandContext(ctx, "sh", append(argv, t.args...)...)
	cmd.Dir = t.folder
	// Tests run side by side as processes; each by itself has one thread, and
	// little to collect.
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=1", "GOGC=400"), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	var took time.Duration
	if cmd.ProcessState != nil {
		took = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &exit) && took > limit:
		return outcome{failed: true, timeout: true, output: out}, nil
	case errors.As(err, &exit):
		return outcome{failed: true, test: firstFailure(out), output: out}, nil
	case err != nil:
		return outcome{}, err
	case bytes.Contains(out, []byte("no tests to run")):
		return outcome{}, fmt.Errorf("%s: no test matches %s", t.name, pattern)
	}
	return outcome{output: out, took: took}, nil
}

var failure = regexp.MustCompile(`(?m)^ +--- FAIL: (\S+)|^--- FAIL: (\S+)`)

// firstFailure is the subtest that failed, or the test.
func firstFailure(out []byte) string {
	test := ""
	for _, m := range failure.FindAllSubmatch(out, -1) {
		if len(m[1]) > 0 {
			return string(m[1])
		}
		test = string(m[2])
	}
	if test == "" && bytes.Contains(out, []byte("panic: ")) {
		return "panic"
	}
	return test
}

// unmutated is how much time of a CPU a test may take without a mutant.
const unmutated = 5 * time.Minute

// survey runs every part without a mutant, and notes what code it reaches and
// how long the suite takes.
func (b *bench) survey(ctx context.Context, parallel int) error {
	type job struct {
		t    *built
		part string
		took time.Duration
		ids  []int
	}
	var jobs []*job
	for _, t := range b.suites {
		if t.each != "" {
			jobs = append(jobs, &job{t: t})
			continue
		}
		for _, part := range t.parts {
			jobs = append(jobs, &job{t: t, part: part})
		}
	}
	fmt.Fprintf(os.Stderr, "running %d tests without a mutant\n", len(jobs))
	err := sideBySide(ctx, parallel, len(jobs), func(i int) error {
		j := jobs[i]
		trace := filepath.Join(b.folder, fmt.Sprintf("trace-%d", i))
		parts := []string{j.part}
		if j.part == "" {
			parts = j.t.parts
		}
		result, err := j.t.run(ctx, parts, unmutated, mutant.TraceVariable+"="+trace)
		if err == nil && !result.failed && j.t.each != "" {
			err = j.t.findEarly(ctx, trace)
		}
		if err != nil {
			return err
		}
		if result.failed {
			return fmt.Errorf("%s %s fails without a mutant:\n%s", j.t.name, j.part, result.output)
		}
		j.took = result.took
		j.ids, err = readTrace(trace)
		return err
	})
	for _, j := range jobs {
		for _, id := range j.ids {
			if j.part == "" {
				j.t.reach[id] = j.t.parts
				continue
			}
			j.t.reach[id] = append(j.t.reach[id], j.part)
		}
		j.t.limit += 4 * j.took
	}
	for _, t := range b.suites {
		t.limit = max(t.limit, 4*time.Second)
	}
	return err
}

func readTrace(file string) (ids []int, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(text)) {
		id, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, errors.Join(err, os.Remove(file))
}

// sideBySide does n jobs, so many at once, and stops at the first error.
func sideBySide(ctx context.Context, parallel, n int, do func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range max(parallel, 1) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}
