// Command run runs the end-to-end suites: it shows each test as it ends, all
// that a failed one said, and ends with one line of figures. See ../README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// timeout is for one package.
	timeout = "40m"
	// parallel is how many tests of a package run at once: they mostly wait.
	parallel = "6"
)

// suites are the packages of this module that have end-to-end tests.
var suites = []struct{ name, pkg string }{
	{"e2e", jobs},
	{"api", "./test/e2e/api"},
	{"cluster", "./test/cluster"},
	{"applier", "./metacontroller/applier"},
	{"election", "./metacontroller/election"},
	{"manager", "./metacontroller/manager"},
}

// jobs is the package with the lives of jobs, which either runner must pass.
const jobs = "./test/e2e"

// choose returns the packages of a suite and which of their tests are run: all of
// a package that is named, else those of jobs whose names match.
func choose(suite string) (packages []string, tests string) {
	for _, s := range suites {
		if suite == s.name {
			return []string{s.pkg}, ""
		}
		packages = append(packages, s.pkg)
	}
	if suite == "" {
		return packages, ""
	}
	return []string{jobs}, suite
}

// kubeletPackages are those that run on a kubelet node.
var kubeletPackages = []string{"./test/e2e", "./test/e2e/kubelet"}

func main() {
	suite := flag.String("suite", "", "e2e, api, cluster, applier, election or manager, or a regular expression of test names of e2e; empty: all")
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
	env := os.Environ()
	chosen, tests := choose(suite)
	switch node {
	case "process":
	case "kubelet":
		env = append(env, "E2E_NODE=kubelet")
		chosen = kubeletPackages
	default:
		return 0, fmt.Errorf("NODE=%s: must be process or kubelet", node)
	}
	switch runner {
	case "embedded":
	case "metacontroller":
		if len(chosen) == 1 && chosen[0] != jobs {
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
		return 0, fmt.Errorf("no test has a name like %q, and no suite is called so", suite)
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
