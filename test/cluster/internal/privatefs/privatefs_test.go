package privatefs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestEscapeProtectsOverlaySeparators(t *testing.T) {
	for in, want := range map[string]string{
		"/a/b": "/a/b", "/a:b": `/a\:b`, "/a,b": `/a\,b`, `/a\b`: `/a\\b`,
	} {
		if got := escape(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestOnlyTheProgramSeesTheOverlay(t *testing.T) {
	if err := Probe(); err != nil {
		t.Skip(err)
	}
	// A path with every character that overlay options treat specially.
	overlay := filepath.Join(t.TempDir(), `a:b,c\d`)
	if err := os.MkdirAll(filepath.Join(overlay, "rtj-test-only"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(overlay, "rtj-test-only", "file"), []byte("content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	script := `cat /etc/rtj-test-only/file; test -s /etc/passwd && echo passwd; ` +
		`echo x 2>/dev/null >/etc/rtj-test-only/new || echo read-only; echo pid $$`
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{Arg0}, Args(overlay, "/bin/sh", "-c", script)...)
	cmd.SysProcAttr = Sys()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(got) != 4 || got[0] != "content" || got[1] != "passwd" || got[2] != "read-only" {
		t.Fatalf("the program saw: %q", got)
	}
	if _, err := os.Stat("/etc/rtj-test-only"); !os.IsNotExist(err) {
		t.Errorf("the overlay is visible outside: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Join(overlay, "rtj-test-only")); err != nil || len(entries) != 1 {
		t.Errorf("the overlay was written to: %v, %v", entries, err)
	}
}

func TestAFailureNamesTheProgram(t *testing.T) {
	if err := Probe(); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{Arg0}, Args(t.TempDir(), "/nonexistent/kueue")...)
	cmd.SysProcAttr = Sys()
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "/nonexistent/kueue") {
		t.Errorf("error %v, output %q", err, out)
	}
}
