//go:build e2e

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"rtj.dev/rtj/test/node/sandbox"
)

// kubeconfigVar names the kubeconfig of a cluster whose administrator these
// tests are. They use a namespace and nodes of their own.
const kubeconfigVar = "PROCESS_NODE_E2E_KUBECONFIG"

// asNode makes the test binary be process-node.
const asNode = "PROCESS_NODE_E2E_BE_NODE"

func TestMain(m *testing.M) {
	sandbox.Main(os.Args[1:])
	if os.Getenv(asNode) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// node is a running process-node.
type node struct {
	t    *testing.T
	name string
	dir  string
	args []string
	cmd  *exec.Cmd
}

// world is a namespace with a node for its pods.
type world struct {
	t      *testing.T
	client kubernetes.Interface
	config *rest.Config
	ns     string
	node   *node
}

var ranges atomic.Int32

func newWorld(t *testing.T, args ...string) *world {
	t.Helper()
	path := os.Getenv(kubeconfigVar)
	if path == "" {
		t.Fatalf("set %s to the kubeconfig of a cluster's administrator", kubeconfigVar)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, client: client, config: config, ns: "node-test-" + rand.String(6)}
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.CoreV1().Namespaces().Delete(context.Background(), w.ns, metav1.DeleteOptions{})
	})
	w.eventually("the default service account", func() bool {
		_, err := client.CoreV1().ServiceAccounts(w.ns).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	w.node = w.newNode(args...)
	return w
}

// newNode starts a node that ends with the test and leaves nothing behind.
func (w *world) newNode(args ...string) *node {
	t := w.t
	t.Helper()
	image := t.TempDir()
	n := &node{t: t, name: "node-test-" + rand.String(6)}
	dir, err := os.MkdirTemp("", n.name+"-")
	if err != nil {
		t.Fatal(err)
	}
	n.dir = dir
	cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(100 + rand.Intn(100)), byte(ranges.Add(1)), 0}), 24)
	n.args = append([]string{
		"--kubeconfig=" + os.Getenv(kubeconfigVar), "--name=" + n.name, "--dir=" + dir, "--pod-cidr=" + cidr.String(),
		"--images=host=" + image, "--taints=node-test=only:NoSchedule", "--lease-duration=8s",
	}, args...)
	t.Cleanup(func() {
		n.end(syscall.SIGTERM)
		if out, err := n.command("cleanup", "--dir="+dir).CombinedOutput(); err != nil {
			t.Errorf("cleanup: %v\n%s", err, out)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("cleanup left %s", dir)
		}
		if left := processesWith(dir); len(left) > 0 {
			t.Errorf("cleanup left processes: %v", left)
		}
		_ = w.client.CoreV1().Nodes().Delete(context.Background(), n.name, metav1.DeleteOptions{})
	})
	n.start()
	return n
}

func (n *node) command(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), asNode+"=1")
	return cmd
}

func (n *node) start() {
	n.t.Helper()
	n.cmd = n.command(n.args...)
	n.cmd.Stderr = testWriter{n.t}
	n.cmd.WaitDelay = time.Second // shims do not hold its stderr
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", strings.TrimSpace(string(p)))
	return len(p), nil
}

func (n *node) end(sig syscall.Signal) {
	if n.cmd.ProcessState == nil {
		_ = n.cmd.Process.Signal(sig)
		_ = n.cmd.Wait()
	}
}

// processesWith lists processes whose command line names dir.
func processesWith(dir string) []string {
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), dir) {
			found = append(found, path+": "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return found
}

func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if is() {
			return
		}
	}
	w.t.Fatalf("never came true: %s", what)
}

// pod is a pod of one container with a script, changed by change.
func (w *world) pod(name, script string, change ...func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	grace := int64(30)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.ns},
		Spec: corev1.PodSpec{
			NodeName: w.node.name, RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "main", Image: "host", Command: []string{"sh", "-c", script}}},
		},
	}
	for _, c := range change {
		c(p)
	}
	p, err := w.client.CoreV1().Pods(w.ns).Create(w.t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) get(name string) *corev1.Pod {
	w.t.Helper()
	p, err := w.client.CoreV1().Pods(w.ns).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) waitPod(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	var last *corev1.Pod
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if last = w.get(name); is(last) {
			return last
		}
	}
	w.t.Fatalf("pod %s: never %s; status: %+v", name, what, last.Status)
	return nil
}

func (w *world) waitPhase(name string, phase corev1.PodPhase) *corev1.Pod {
	w.t.Helper()
	return w.waitPod(name, string(phase), func(p *corev1.Pod) bool { return p.Status.Phase == phase })
}

func (w *world) waitGone(name string) {
	w.t.Helper()
	w.eventually("pod "+name+" gone", func() bool {
		_, err := w.client.CoreV1().Pods(w.ns).Get(w.t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func (w *world) log(name string) string {
	w.t.Helper()
	b, err := w.client.CoreV1().Pods(w.ns).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *world) waitLog(name, text string) {
	w.t.Helper()
	w.waitPhase(name, corev1.PodRunning)
	w.eventually(fmt.Sprintf("log of %s holds %q", name, text), func() bool { return strings.Contains(w.log(name), text) })
}

func (w *world) delete(name string) {
	w.t.Helper()
	if err := w.client.CoreV1().Pods(w.ns).Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func terminated(p *corev1.Pod) corev1.ContainerStateTerminated {
	if len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Terminated != nil {
		return *p.Status.ContainerStatuses[0].State.Terminated
	}
	return corev1.ContainerStateTerminated{}
}

func condition(p *corev1.Pod, t corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return corev1.PodCondition{}
}

// The finalizer lets a test see how a pod ended before its object went.
const held = "node.test/held"

func hold(p *corev1.Pod) { p.Finalizers = []string{held} }

func (w *world) release(name string) {
	w.t.Helper()
	_, err := w.client.CoreV1().Pods(w.ns).Patch(w.t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

const (
	untilTerm = "trap 'echo caught; exit 0' TERM; echo up; while :; do sleep 0.05; done"
	deaf      = "echo up; while :; do sleep 0.05; done"
)
