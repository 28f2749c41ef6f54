package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rtj.dev/rtj/test/node/sandbox"
)

// The test binary is its own shim and init.
func TestMain(m *testing.M) {
	sandbox.Main(os.Args[1:])
	os.Exit(m.Run())
}

// modes are the ways in which containers can run here: with the caller's
// privileges, and in a user namespace.
func modes(t *testing.T) map[string]sandbox.Host {
	t.Helper()
	found := map[string]sandbox.Host{}
	for name, userNamespace := range map[string]bool{"privileged": false, "user namespace": true} {
		if !userNamespace && os.Getuid() != 0 {
			continue
		}
		host, err := sandbox.Probe(stateDir(t), userNamespace)
		if err != nil {
			t.Logf("not tested: %s: %v", name, err)
			continue
		}
		found[name] = host
	}
	if len(found) == 0 {
		t.Skip("containers can run here neither as root nor in a user namespace")
	}
	return found
}

// eachMode runs a test in every mode.
func eachMode(t *testing.T, test func(t *testing.T, host sandbox.Host)) {
	for name, host := range modes(t) {
		t.Run(name, func(t *testing.T) { test(t, host) })
	}
}

// stateDir is a temporary directory that also removes what RemoveAll cannot.
func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandbox-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sandbox.RemoveTree(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func shell(host sandbox.Host, script string) sandbox.Spec {
	return host.Apply(sandbox.Spec{
		Args: []string{"sh", "-c", script}, Hostname: "box",
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "GREETING=hello"},
	})
}

func create(t *testing.T, spec sandbox.Spec) *sandbox.Container {
	t.Helper()
	c, err := sandbox.Create(filepath.Join(stateDir(t), "c"), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(c.Dir()); err == nil {
			wait(t, c)
		}
	})
	return c
}

func wait(t *testing.T, c *sandbox.Container) *sandbox.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	end, err := c.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func logOf(t *testing.T, c *sandbox.Container) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(c.Dir(), sandbox.LogFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// output runs a script to its end and returns what it wrote.
func output(t *testing.T, spec sandbox.Spec) string {
	t.Helper()
	c := create(t, spec)
	if end := wait(t, c); end.Code != 0 {
		t.Fatalf("exit %+v, log:\n%s", end, logOf(t, c))
	}
	return logOf(t, c)
}

// waitForLog returns once the log holds text.
func waitForLog(t *testing.T, c *sandbox.Container, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(logOf(t, c), text) {
			return
		}
	}
	t.Fatalf("%q never appeared in the log:\n%s", text, logOf(t, c))
}

func TestCommandIsPID1WithItsOwnNamesAndEnvironment(t *testing.T) {
	eachMode(t, func(t *testing.T, host sandbox.Host) {
		spec := shell(host, `echo pid $$; hostname; echo $GREETING $0; pwd; id -u; env | wc -l; test -c /dev/null && echo null > /dev/null; echo shm > /dev/shm/x && cat /dev/shm/x; ls /proc | grep -c '^[0-9]'; ls /proc/self/fd | wc -l`)
		spec.WorkingDir = "/made/for/this"
		got := output(t, spec)
		// PATH and GREETING, and PWD, which the shell sets itself. At the end
		// /proc shows the shell, ls and grep, and nothing of the host; ls has
		// stdin, stdout, stderr and the directory open.
		want := "pid 1\nbox\nhello sh\n/made/for/this\n0\n3\nshm\n3\n4\n"
		if got != want {
			t.Errorf("got:\n%swant:\n%s", got, want)
		}
	})
}

func TestWritesStayInTheContainer(t *testing.T) {
	eachMode(t, func(t *testing.T, host sandbox.Host) {
		name := filepath.Base(stateDir(t)) + ".marker"
		got := output(t, shell(host, "echo x > /tmp/"+name+" && cat /tmp/"+name))
		if got != "x\n" {
			t.Errorf("a container cannot read what it wrote: %q", got)
		}
		if _, err := os.Stat("/tmp/" + name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the container's /tmp/%s is seen on the host: %v", name, err)
		}
	})
}

func TestVolumesAtNewAndExistingPaths(t *testing.T) {
	eachMode(t, func(t *testing.T, host sandbox.Host) {
		dir := stateDir(t)
		for path, text := range map[string]string{"config/a": "A", "config/sub/b": "B", "file": "F", "rw/kept": "K"} {
			full := filepath.Join(dir, path)
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		spec := shell(host, `cat /etc/new/config/a /var/run/secrets/x/sub/b /nowhere/at/all /etc/hosts /usr/share/nested/in/kept
			echo W > /usr/share/nested/in/written
			(echo no > /etc/new/config/a) 2>/dev/null || echo refused`)
		spec.Mounts = []sandbox.Mount{
			{Source: dir + "/config", Target: "/etc/new/config", ReadOnly: true},
			{Source: dir + "/config", Target: "/var/run/secrets/x", ReadOnly: true},
			{Source: dir + "/config", SubPath: "sub/b", Target: "/nowhere/at/all"},
			{Source: dir + "/file", Target: "/etc/hosts"},
			{Source: dir + "/rw", Target: "/usr/share/nested/in"},
		}
		if got, want := output(t, spec), "A\nB\nB\nF\nK\nrefused\n"; got != want {
			t.Errorf("got:\n%swant:\n%s", got, want)
		}
		if b, err := os.ReadFile(dir + "/rw/written"); err != nil || string(b) != "W\n" {
			t.Errorf("what was written to a volume: %q, %v", b, err)
		}
		if _, err := os.Stat("/etc/new"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a mount point appeared on the host: %v", err)
		}
	})
}

func TestSubPathCannotLeaveItsVolume(t *testing.T) {
	eachMode(t, func(t *testing.T, host sandbox.Host) {
		dir := stateDir(t)
		if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
			t.Fatal(err)
		}
		spec := shell(host, "ls /v")
		spec.Mounts = []sandbox.Mount{{Source: dir, SubPath: "out", Target: "/v"}}
		if got := output(t, spec); got != "" {
			t.Errorf("the volume shows files of the host: %q", got)
		}
	})
}

func TestExitCodes(t *testing.T) {
	eachMode(t, func(t *testing.T, host sandbox.Host) {
		for script, want := range map[string]int{"exit 0": 0, "exit 75": 75, "sh -c 'kill -9 $$'; exit $?": 137} {
			if end := wait(t, create(t, shell(host, script))); end.Code != want || end.Signal != 0 {
				t.Errorf("%s: %+v", script, end)
			}
		}
		c := create(t, shell(host, "sleep 1000"))
		if err := c.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if end := wait(t, c); end.Code != 137 || end.Signal != 9 || end.Lost {
			t.Errorf("killed: %+v", end)
		}
	})
}

func TestStartErrorsArePrecise(t *testing.T) {
	eachMode(t, func(t *testing.T, host sandbox.Host) {
		missing := shell(host, "")
		missing.Args = []string{"no-such-program"}
		volume := shell(host, "true")
		volume.Mounts = []sandbox.Mount{{Source: "/no/such/volume", Target: "/v"}}
		onFile := shell(host, "true")
		onFile.Mounts = []sandbox.Mount{{Source: stateDir(t), Target: "/etc/passwd"}}
		for want, spec := range map[string]sandbox.Spec{
			`executable "no-such-program" not found in PATH`: missing,
			"volume for /v: stat /no/such/volume":            volume,
			"the volume is a directory and the path a file":  onFile,
		} {
			c := create(t, spec)
			end := wait(t, c)
			if end.Code != sandbox.CodeStartError || !strings.Contains(end.StartError, want) {
				t.Errorf("want %q: %+v", want, end)
			}
			if got := logOf(t, c); got != "" {
				t.Errorf("the container's log holds %q", got)
			}
		}
	})
}

func TestSIGTERMReachesOnlyAHandler(t *testing.T) {
	eachMode(t, func(t *testing.T, host sandbox.Host) {
		deaf := create(t, shell(host, "echo up; while :; do sleep 0.05; done"))
		handler := create(t, shell(host, "trap 'echo caught; exit 3' TERM; echo up; while :; do sleep 0.05; done"))
		for _, c := range []*sandbox.Container{deaf, handler} {
			waitForLog(t, c, "up")
			if err := c.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		if end := wait(t, handler); end.Code != 3 || !strings.Contains(logOf(t, handler), "caught") {
			t.Errorf("with a handler: %+v", end)
		}
		if end, err := deaf.Ended(); end != nil || err != nil {
			t.Errorf("PID 1 without a handler was ended by SIGTERM: %+v, %v", end, err)
		}
	})
}

func TestEndOfTheCommandEndsItsDescendants(t *testing.T) {
	eachMode(t, func(t *testing.T, host sandbox.Host) {
		dir := stateDir(t)
		spec := shell(host, "(while :; do date +%N > /v/beat; sleep 0.02; done) & until test -s /v/beat; do sleep 0.02; done")
		spec.Mounts = []sandbox.Mount{{Source: dir, Target: "/v"}}
		wait(t, create(t, spec))
		before, err := os.ReadFile(dir + "/beat")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
		if after, _ := os.ReadFile(dir + "/beat"); !bytes.Equal(before, after) {
			t.Error("a background process outlived PID 1 of its container")
		}
	})
}

func TestOpenSeesTheSameTruth(t *testing.T) {
	eachMode(t, func(t *testing.T, host sandbox.Host) {
		c := create(t, shell(host, "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done"))
		waitForLog(t, c, "up")
		again, err := sandbox.Open(c.Dir())
		if err != nil {
			t.Fatal(err)
		}
		if again.Run() != c.Run() {
			t.Errorf("opened %+v, created %+v", again.Run(), c.Run())
		}
		if err := again.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if end := wait(t, again); end.Code != 7 {
			t.Errorf("seen through a second handle: %+v", end)
		}
		ended, err := sandbox.Open(c.Dir())
		if err != nil {
			t.Fatal(err)
		}
		if end := wait(t, ended); end.Code != 7 {
			t.Errorf("opened after the end: %+v", end)
		}
		if _, err := sandbox.Open(filepath.Join(stateDir(t), "none")); !errors.Is(err, sandbox.ErrNotStarted) {
			t.Errorf("opening nothing: %v", err)
		}
	})
}

func TestAKilledShimTakesItsContainerAlong(t *testing.T) {
	eachMode(t, func(t *testing.T, host sandbox.Host) {
		c := create(t, shell(host, "echo up; while :; do sleep 0.05; done"))
		waitForLog(t, c, "up")
		if err := syscall.Kill(c.Run().ShimPID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if end := wait(t, c); !end.Lost || end.Code != sandbox.CodeLost {
			t.Errorf("after the shim was killed: %+v", end)
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if syscall.Kill(c.Run().InitPID, 0) == syscall.ESRCH {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the container outlives its shim")
			}
		}
	})
}

func TestExecRunsInside(t *testing.T) {
	if _, err := exec.LookPath("nsenter"); err != nil {
		t.Skip("nsenter is not installed")
	}
	eachMode(t, func(t *testing.T, host sandbox.Host) {
		c := create(t, shell(host, "echo inside > /tmp/only-here; echo up; while :; do sleep 0.05; done"))
		waitForLog(t, c, "up")
		var out bytes.Buffer
		code, err := c.Exec(context.Background(), []string{"sh", "-c", "cat /tmp/only-here; hostname; echo $GREETING; exit 4"}, nil, &out, &out)
		if err != nil || code != 4 || out.String() != "inside\nbox\nhello\n" {
			t.Errorf("code %d, error %v, output %q", code, err, out.String())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if code, err := c.Exec(ctx, []string{"sleep", "1000"}, nil, nil, nil); code == 0 && err == nil {
			t.Error("a command that was cut off counts as a success")
		}
	})
}

func TestRemoveLeavesNothing(t *testing.T) {
	eachMode(t, func(t *testing.T, host sandbox.Host) {
		c := create(t, shell(host, "mkdir -p /tmp/a/b && touch /tmp/a/b/c && chmod 000 /tmp/a/b"))
		wait(t, c)
		if err := c.Remove(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(c.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("still there: %v", err)
		}
	})
}
