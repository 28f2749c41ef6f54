package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rtj.dev/rtj/test/kubeletnode/namespaces"
)

// asProgram makes the test binary the program itself.
const asProgram = "KUBELET_NODE_TEST"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asProgram) == "":
		os.Exit(m.Run())
	case os.Getenv("CNI_COMMAND") != "":
		main()
	case os.Args[1] == "get":
		get(os.Args[2])
	case os.Args[1] == "serve":
		_ = http.ListenAndServe(os.Args[2], answer("node"))
	default:
		main()
	}
}

// answer says who it is.
func answer(who string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, who) })
}

// get prints what an URL answers.
func get(url string) {
	response, err := http.Get(url)
	if err != nil {
		fmt.Println("no answer:", err)
		os.Exit(1)
	}
	body, _ := io.ReadAll(response.Body)
	fmt.Printf("%d %s", response.StatusCode, body)
}

// node is a pair of namespaces with somebody who holds them.
type node struct {
	t      *testing.T
	holder int
}

func (n *node) program(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// within runs a program in the namespaces and returns what it prints.
func (n *node) within(input, program string, args ...string) (string, error) {
	cmd := n.program(append([]string{"enter", fmt.Sprint(n.holder), program}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (n *node) must(program string, args ...string) string {
	n.t.Helper()
	out, err := n.within("", program, args...)
	if err != nil {
		n.t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return out
}

// start runs one of our commands until the test ends.
func (n *node) start(sys *syscall.SysProcAttr, args ...string) *exec.Cmd {
	n.t.Helper()
	cmd := n.program(args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &said, &said, sys
	if err := cmd.Start(); err != nil {
		n.t.Skipf("namespaces cannot be made here: %v", err)
	}
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if n.t.Failed() {
			n.t.Logf("%s said: %s", args[0], said.String())
		}
	})
	return cmd
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func newNode(t *testing.T) (*node, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	n, dir := &node{t: t}, t.TempDir()
	hold := n.start(&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}, "hold", "--dir="+dir, "--addresses=10.96.0.1,10.96.0.10")
	n.holder = hold.Process.Pid
	eventually(t, "the namespaces are set up", func() bool { return namespaces.Ready(n.holder) })
	return n, dir
}

func TestWhatANodeWritesStaysInIt(t *testing.T) {
	n, dir := newNode(t)
	sh := func(script string) string { return n.must("/bin/sh", "-c", script) }
	if got := sh("ls /run"); got != "kubelet-node\n" {
		t.Errorf("/run holds %q", got)
	}
	sh("echo data >/var/lib/kubelet/proof; echo log >/var/log/proof; mkdir /var/lib/kubelet-node-test")
	for _, path := range []string{"/var/lib/kubelet/proof", "/var/log/proof", "/var/lib/kubelet-node-test"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is on the machine", path)
		}
	}
	for _, path := range []string{"kubelet/proof", "log/proof"} {
		if _, err := os.Lstat(filepath.Join(dir, path)); err != nil {
			t.Errorf("what is to be kept is not in the node's folder: %v", err)
		}
	}
	before, err := os.ReadFile("/proc/sys/kernel/panic")
	if err != nil {
		t.Fatal(err)
	}
	if got := sh("cat /proc/sys/kernel/panic; echo 77 >/proc/sys/kernel/panic"); got != "10\n" {
		t.Errorf("the node reads kernel.panic %q", got)
	}
	if after, err := os.ReadFile("/proc/sys/kernel/panic"); err != nil || !bytes.Equal(before, after) {
		t.Errorf("kernel.panic was %s and is %s, %v", before, after, err)
	}
}

// says is the port of a server of this machine that says who it is.
func says(t *testing.T, who string) int {
	t.Helper()
	server := httptest.NewServer(answer(who))
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}

func local(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

func TestTheGatewayJoinsNodeAndPodsToTheMachine(t *testing.T) {
	n, _ := newNode(t)
	ip, err := exec.LookPath("ip")
	if err != nil {
		t.Skip("needs ip, of iproute2")
	}
	api, store, kubelet := says(t, "API server"), says(t, "store"), freePort(t)
	start := func() *exec.Cmd {
		cmd := n.start(nil, "gateway", fmt.Sprintf("--holder=%d", n.holder), fmt.Sprintf("--api-server=%d", api), "--api-service=10.96.0.1:443",
			fmt.Sprintf("--node-port=%d", kubelet), fmt.Sprintf("--machine-port=%d", store))
		eventually(t, "the gateway listens", func() bool {
			conn, err := net.Dial("unix", namespaces.Path(n.holder, namespaces.RunDir+"/gateway.sock"))
			if err == nil {
				conn.Close()
			}
			return err == nil
		})
		return cmd
	}
	first := start()
	for url, want := range map[string]string{
		local(api): "200 API server", "http://10.96.0.1:443": "200 API server", local(store): "200 store", "http://127.0.0.1:5000/v2/": "200 ",
	} {
		if got := n.must("/proc/self/exe", "get", url); got != want {
			t.Errorf("%s answers the node %q, want %q", url, got, want)
		}
	}
	// And the other way.
	n.start(nil, "enter", fmt.Sprint(n.holder), "/proc/self/exe", "serve", strings.TrimPrefix(local(kubelet), "http://"))
	eventually(t, "a server of the node answers the machine", func() bool {
		response, err := http.Get(local(kubelet))
		if err != nil {
			return false
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return err == nil && string(body) == "node"
	})

	n.must(ip, "netns", "add", "pod")
	n.must(ip, "-n", "pod", "link", "set", "lo", "up")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fromPod := func() string {
		out, _ := n.within("", ip, "netns", "exec", "pod", self, "get", local(store))
		return out
	}
	plugin := func(command string) string {
		t.Helper()
		out, err := n.within(`{"cniVersion":"0.4.0","prevResult":{"ips":[]}}`,
			"/usr/bin/env", "CNI_COMMAND="+command, "CNI_CONTAINERID=sandbox", "CNI_NETNS=/var/run/netns/pod", self)
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		return out
	}
	if got := fromPod(); !strings.Contains(got, "refused") {
		t.Errorf("before it was asked for, the store answers a pod %q", got)
	}
	if got := plugin("ADD"); got != `{"ips":[]}` {
		t.Errorf("the plugin's result is %s, not that of the one before", got)
	}
	if got := fromPod(); got != "200 store" {
		t.Errorf("the store answers a pod %q", got)
	}
	// Another gateway takes over.
	_ = first.Process.Kill()
	_ = first.Wait()
	start()
	if got := fromPod(); got != "200 store" {
		t.Errorf("after a restart the store answers a pod %q", got)
	}
	plugin("DEL")
	plugin("DEL")
	if got := fromPod(); !strings.Contains(got, "refused") {
		t.Errorf("after the pod's end the store answers %q", got)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
