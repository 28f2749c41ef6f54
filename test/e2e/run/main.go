// Command run runs the end-to-end suites: it shows each test as it ends, all
// that a failed one said, and ends with one line of figures. See ../README.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// timeout is for one package.
	timeout = "40m"
	// parallel is how many tests of a package run at once: they mostly wait.
	parallel = "6"
)

// suite is a package with end-to-end tests.
type suite struct{ name, pkg string }

// suites are those of this module.
var suites = []suite{
	{"e2e", jobs},
	{"api", "./test/e2e/api"},
	{"cluster", "./test/cluster"},
	{"applier", "./metacontroller/applier"},
	{"election", "./metacontroller/election"},
	{"manager", "./metacontroller/manager"},
	{"model", "./test/world/differential"},
}

// jobs is the package with the lives of jobs, which either runner must pass.
const jobs = "./test/e2e"

// choose returns the packages of a suite and which of their tests are run: all of
// a package that is named, else those whose names match, wherever they are.
func choose(chosen string, among []suite) (packages []string, tests string, err error) {
	var all []string
	for _, s := range among {
		if chosen == s.name {
			return []string{s.pkg}, "", nil
		}
		all = append(all, s.pkg)
	}
	if chosen == "" {
		return all, "", nil
	}
	// What follows a slash is about subtests.
	top, _, _ := strings.Cut(chosen, "/")
	name, err := regexp.Compile(top)
	if err != nil {
		return nil, "", fmt.Errorf("SUITE=%s: %w", chosen, err)
	}
	for _, pkg := range all {
		has, err := hasTest(pkg, name)
		if err != nil {
			return nil, "", err
		}
		if has {
			packages = append(packages, pkg)
		}
	}
	if len(packages) == 0 {
		return nil, "", fmt.Errorf("SUITE=%s: no test has a name like this, and no suite is called so", chosen)
	}
	return packages, chosen, nil
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// hasTest looks for a test in the source of a package: to build all of them, in
// order to ask, would take minutes.
func hasTest(pkg string, name *regexp.Regexp) (bool, error) {
	files, err := filepath.Glob(filepath.Join(pkg, "*_test.go"))
	if err != nil {
		return false, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		if !bytes.HasPrefix(text, []byte("//go:build e2e")) {
			continue
		}
		for _, found := range testFunction.FindAllSubmatch(text, -1) {
			if name.Match(found[1]) {
				return true, nil
			}
		}
	}
	return false, nil
}

// kubeletSuites are those that run on a kubelet node.
var kubeletSuites = []suite{{"e2e", jobs}, {"kubelet", "./test/e2e/kubelet"}}

func main() {
	suite := flag.String("suite", "", "e2e, api, cluster, applier, election, manager or model, or a regular expression of test names; empty: all")
	runner := flag.String("runner", "embedded", "who runs the hooks: embedded or metacontroller")
	metacontroller := flag.String("metacontroller", "", "path of the metacontroller binary")
	node := flag.String("node", "process", "kind of node: process or kubelet")
	again := flag.Bool("again", false, "run what failed once more: what then passes counts as passed, and is named")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := e2e(ctx, *suite, *runner, *metacontroller, *node, *again)
	stop()
	if err != nil {
		fmt.Println("e2e: failed:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func e2e(ctx context.Context, suite, runner, metacontroller, node string, again bool) (int, error) {
	env, among := os.Environ(), suites
	switch node {
	case "process":
	case "kubelet":
		env, among = append(env, "E2E_NODE=kubelet"), kubeletSuites
	default:
		return 0, fmt.Errorf("NODE=%s: must be process or kubelet", node)
	}
	chosen, tests, err := choose(suite, among)
	if err != nil {
		return 0, err
	}
	switch runner {
	case "embedded":
	case "metacontroller":
		if !slices.Contains(chosen, jobs) {
			return 0, fmt.Errorf("SUITE=%s is not about the runner: RUNNER=metacontroller has nothing to change there", suite)
		}
		if metacontroller == "" {
			fmt.Println("e2e: skipped: RUNNER=metacontroller needs METACONTROLLER=PATH, a metacontroller 4.17 binary " +
				"(`go build ./pkg/cmd/metacontroller` in a checkout of it)")
			return 0, nil
		}
		chosen = []string{jobs}
	default:
		return 0, fmt.Errorf("RUNNER=%s: must be embedded or metacontroller", runner)
	}
	env = append(env, "E2E_RUNNER="+runner)
	// With the embedded runner, too: some tests need both.
	if metacontroller != "" {
		path, err := filepath.Abs(metacontroller)
		if err != nil {
			return 0, err
		}
		if _, err := exec.LookPath(path); err != nil {
			return 0, fmt.Errorf("METACONTROLLER: %w", err)
		}
		env = append(env, "E2E_METACONTROLLER="+path)
	}

	begun := time.Now()
	r, err := goTest(ctx, env, tests, chosen...)
	if err != nil {
		return 0, err
	}
	if r.passed == 0 && len(r.failures) == 0 {
		return 0, fmt.Errorf("SUITE=%s: no test was run", suite)
	}
	if again && len(r.failures) > 0 {
		if err := r.tryAgain(func(pkg, tests string) (*report, error) { return goTest(ctx, env, tests, pkg) }); err != nil {
			return 0, err
		}
	}
	verdict, code := "ok", 0
	if len(r.failures) > 0 {
		verdict, code = "failed", 1
		fmt.Println("failed:", r.names(r.failures))
	}
	unsteady := ""
	if len(r.unsteady) > 0 {
		fmt.Println("passed only when run again:", r.names(r.unsteady))
		unsteady = fmt.Sprintf(" (%d of them only when run again)", len(r.unsteady))
	}
	fmt.Printf("e2e: %s %d passed%s, %d failed, %d skipped, %.0f s\n", verdict, r.passed, unsteady, len(r.failures), r.skipped, time.Since(begun).Seconds())
	return code, nil
}

// goTest runs the tests of packages, all or those whose names match.
func goTest(ctx context.Context, env []string, tests string, packages ...string) (*report, error) {
	args := []string{"test", "-json", "-tags", "e2e", "-count", "1", "-p", "1", "-timeout", timeout, "-parallel", parallel}
	if tests != "" {
		args = append(args, "-run", tests)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Env, cmd.Stderr = env, os.Stderr
	// The tests take their clusters down before they end.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := newReport(os.Stdout)
	readErr := r.read(out)
	waitErr := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, errors.New("interrupted")
	case readErr != nil:
		return nil, readErr
	case waitErr != nil && len(r.failures) == 0:
		return nil, waitErr
	}
	return r, nil
}
