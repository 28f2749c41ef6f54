//go:build e2e

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"

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

func TestPhaseAndExitCodes(t *testing.T) {
	w := newWorld(t)
	w.pod("good", "echo fine; echo last words > /dev/termination-log")
	w.pod("bad", "exit 75")
	good := w.waitPhase("good", corev1.PodSucceeded)
	if s := terminated(good); s.ExitCode != 0 || s.Reason != "Completed" || s.Message != "last words\n" {
		t.Errorf("%+v", s)
	}
	if c := condition(good, corev1.PodReady); c.Status != corev1.ConditionFalse || c.Reason != "PodCompleted" {
		t.Errorf("%+v", c)
	}
	if got := w.log("good"); got != "fine\n" {
		t.Errorf("log: %q", got)
	}
	if s := terminated(w.waitPhase("bad", corev1.PodFailed)); s.ExitCode != 75 || s.Reason != "Error" {
		t.Errorf("%+v", s)
	}
	w.delete("good")
	w.waitGone("good")
}

func TestDeletionIsGracefulAndLeavesAFinalStatus(t *testing.T) {
	w := newWorld(t)
	w.pod("listens", untilTerm, hold)
	w.pod("deaf", deaf, hold, func(p *corev1.Pod) { *p.Spec.TerminationGracePeriodSeconds = 1 })
	for _, name := range []string{"listens", "deaf"} {
		w.waitLog(name, "up")
		w.delete(name)
	}
	w.waitPhase("listens", corev1.PodSucceeded)
	if got := w.log("listens"); !strings.HasSuffix(got, "caught\n") {
		t.Errorf("log of a terminated pod: %q", got)
	}
	if s := terminated(w.waitPhase("deaf", corev1.PodFailed)); s.ExitCode != 137 {
		t.Errorf("after SIGKILL: %+v", s)
	}
	for _, name := range []string{"listens", "deaf"} {
		w.waitPod(name, "consented to", func(p *corev1.Pod) bool { return *p.DeletionGracePeriodSeconds == 0 })
		w.release(name)
		w.waitGone(name)
	}
}

func TestEvictionIsADeletionThatSaysWhy(t *testing.T) {
	w := newWorld(t)
	w.pod("a", untilTerm, hold)
	w.waitLog("a", "up")
	err := w.client.PolicyV1().Evictions(w.ns).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: w.ns}})
	if err != nil {
		t.Fatal(err)
	}
	p := w.waitPhase("a", corev1.PodSucceeded)
	if c := condition(p, corev1.DisruptionTarget); c.Status != corev1.ConditionTrue || c.Reason != "EvictionByEvictionAPI" {
		t.Errorf("the condition that the eviction wrote: %+v", c)
	}
	w.release("a")
	w.waitGone("a")
}

func TestPreStopHookRunsFirst(t *testing.T) {
	w := newWorld(t)
	w.pod("a", "trap 'test -e /tmp/hook && echo after hook; exit 0' TERM; echo up; while :; do sleep 0.05; done", hold, func(p *corev1.Pod) {
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "sleep 0.3; touch /tmp/hook"}}}}
	})
	w.waitLog("a", "up")
	w.delete("a")
	w.waitPhase("a", corev1.PodSucceeded)
	if got := w.log("a"); !strings.Contains(got, "after hook") {
		t.Errorf("log: %q", got)
	}
	w.release("a")
}

func TestEnvironmentAndVolumes(t *testing.T) {
	w := newWorld(t, "--config-refresh=1h")
	cms, secrets := w.client.CoreV1().ConfigMaps(w.ns), w.client.CoreV1().Secrets(w.ns)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}, Data: map[string]string{"k": "v1"}}
	if _, err := cms.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"password": "x"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	optional := true
	w.pod("a", `echo "$IP $NODE $SEC $PRE_k $GREET"; cat /sec/password; echo; cat /run/secrets/kubernetes.io/serviceaccount/namespace; echo
		echo TOKEN=$(cat /var/run/secrets/kubernetes.io/serviceaccount/token); test -s /var/run/secrets/kubernetes.io/serviceaccount/ca.crt && echo ca
		ls /none; echo $KUBERNETES_SERVICE_HOST; echo end
		while :; do now="$(cat /all/cm)/$(cat /all/note)"; test "$now" = "$last" || echo "is $now"; last=$now; sleep 0.05; done`,
		func(p *corev1.Pod) {
			p.Annotations = map[string]string{"note": "n1"}
			c := &p.Spec.Containers[0]
			field := func(path string) *corev1.EnvVarSource {
				return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
			}
			c.Env = []corev1.EnvVar{
				{Name: "IP", ValueFrom: field("status.podIP")}, {Name: "NODE", ValueFrom: field("spec.nodeName")},
				{Name: "SEC", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "password"}}},
				{Name: "GREET", Value: "to-$(NODE)"},
			}
			c.EnvFrom = []corev1.EnvFromSource{{Prefix: "PRE_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "all", MountPath: "/all"}, {Name: "sec", MountPath: "/sec"}, {Name: "none", MountPath: "/none"}}
			p.Spec.Volumes = []corev1.Volume{
				{Name: "sec", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
				{Name: "none", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Optional: &optional}}},
				{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}, Items: []corev1.KeyToPath{{Key: "k", Path: "cm"}}}},
					{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "note", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['note']"}}}}},
				}}}},
			}
		})
	w.waitLog("a", "is v1/n1")
	log := w.log("a")
	ip := w.get("a").Status.PodIP
	head, rest, _ := strings.Cut(log, "TOKEN=")
	if want := fmt.Sprintf("%s %s x v1 to-%s\nx\n%s\n", ip, w.node.name, w.node.name, w.ns); head != want {
		t.Errorf("got %q, want %q", head, want)
	}
	token, rest, _ := strings.Cut(rest, "\n")
	if !strings.HasPrefix(rest, "ca\n127.0.0.1\nend\n") {
		t.Errorf("rest of the log: %q", rest)
	}
	review, err := w.client.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := review.Status; !s.Authenticated || s.User.Username != "system:serviceaccount:"+w.ns+":default" ||
		!slices.Equal(s.User.Extra["authentication.kubernetes.io/pod-name"], []string{"a"}) {
		t.Errorf("the token is not the pod's: %+v", s)
	}
	// The refresh period is an hour: only the change of the pod brings news.
	cm.Data["k"] = "v2"
	if _, err := cms.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if got := w.log("a"); strings.Contains(got, "is v2") {
		t.Errorf("the volume followed before its time: %q", got)
	}
	_, err = w.client.CoreV1().Pods(w.ns).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"annotations":{"note":"n2"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.waitLog("a", "is v2/n2")
}

func TestConfigMapVolumeRefreshes(t *testing.T) {
	w := newWorld(t, "--config-refresh=1s")
	cms := w.client.CoreV1().ConfigMaps(w.ns)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}, Data: map[string]string{"k": "v1"}}
	if _, err := cms.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.pod("a", "echo up; until grep -q v2 /cm/k; do sleep 0.05; done", func(p *corev1.Pod) {
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "cm", MountPath: "/cm"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "cm", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}}}
	})
	w.waitLog("a", "up")
	cm.Data["k"] = "v2"
	if _, err := cms.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.waitPhase("a", corev1.PodSucceeded)
}

func TestWhatIsMissingIsNamedAndWaitedFor(t *testing.T) {
	w := newWorld(t)
	waiting := func(p *corev1.Pod) *corev1.ContainerStateWaiting {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
			return &corev1.ContainerStateWaiting{}
		}
		return p.Status.ContainerStatuses[0].State.Waiting
	}
	expect := func(name, reason, message string) {
		t.Helper()
		w.waitPod(name, reason+" "+message, func(p *corev1.Pod) bool {
			s := waiting(p)
			return s.Reason == reason && strings.Contains(s.Message, message)
		})
	}
	w.pod("env", "true", func(p *corev1.Pod) {
		p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "later"}}}}
	})
	w.pod("volume", "cat /cm/k", func(p *corev1.Pod) {
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "cm", MountPath: "/cm"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "cm", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "later"}}}}}
	})
	w.pod("image", "true", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nowhere/to:find" })
	w.pod("command", "", func(p *corev1.Pod) { p.Spec.Containers[0].Command = nil })
	w.pod("program", "", func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"no-such-program"} })
	expect("env", "CreateContainerConfigError", `configmaps "later" not found`)
	expect("volume", "CreateContainerConfigError", `configmaps "later" not found`)
	expect("image", "ErrImagePull", `image "nowhere/to:find" is not known to this node; it has: host`)
	expect("command", "CreateContainerError", "no command specified")
	if s := terminated(w.waitPhase("program", corev1.PodFailed)); s.ExitCode != 128 || s.Reason != "StartError" || !strings.Contains(s.Message, `"no-such-program" not found in PATH`) {
		t.Errorf("%+v", s)
	}
	_, err := w.client.CoreV1().ConfigMaps(w.ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.waitPhase("env", corev1.PodSucceeded)
	w.waitPhase("volume", corev1.PodSucceeded)
	// What never started can be deleted, too.
	w.delete("image")
	w.waitGone("image")
}

func TestInitContainersRunInOrder(t *testing.T) {
	w := newWorld(t)
	inits := func(scripts ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			mounts := []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
			p.Spec.Containers[0].VolumeMounts = mounts
			for i, s := range scripts {
				p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{
					Name: fmt.Sprintf("init-%d", i), Image: "host", Command: []string{"sh", "-c", s}, VolumeMounts: mounts})
			}
		}
	}
	w.pod("good", "cat /v/log", inits("echo one >> /v/log", "echo two >> /v/log"))
	w.pod("bad", "echo never", inits("exit 3", "echo never"))
	w.waitPhase("good", corev1.PodSucceeded)
	if got := w.log("good"); got != "one\ntwo\n" {
		t.Errorf("log: %q", got)
	}
	bad := w.waitPhase("bad", corev1.PodFailed)
	if s := bad.Status.InitContainerStatuses; s[0].State.Terminated.ExitCode != 3 || s[1].State.Waiting == nil || bad.Status.ContainerStatuses[0].State.Waiting == nil {
		t.Errorf("%+v", bad.Status)
	}
}

func TestProbes(t *testing.T) {
	w := newWorld(t)
	check := func(script string) *corev1.Probe {
		return &corev1.Probe{InitialDelaySeconds: 1, PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}}}
	}
	w.pod("ready", "echo up; sleep 2.5; touch /tmp/ready; while :; do sleep 1; done", func(p *corev1.Pod) { p.Spec.Containers[0].ReadinessProbe = check("test -e /tmp/ready") })
	w.pod("sick", "trap 'exit 9' TERM; while :; do sleep 0.05; done", func(p *corev1.Pod) { p.Spec.Containers[0].LivenessProbe = check("false") })
	w.pod("closed", deaf, func(p *corev1.Pod) {
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}}
	})
	w.waitLog("ready", "up")
	w.waitPod("ready", "unready", func(p *corev1.Pod) bool { return condition(p, corev1.PodReady).Reason == "ContainersNotReady" })
	w.waitPod("ready", "ready", func(p *corev1.Pod) bool { return condition(p, corev1.PodReady).Status == corev1.ConditionTrue })
	if s := terminated(w.waitPhase("sick", corev1.PodFailed)); s.ExitCode != 9 {
		t.Errorf("%+v", s)
	}
	if c := condition(w.waitPhase("closed", corev1.PodRunning), corev1.PodReady); c.Status != corev1.ConditionFalse {
		t.Errorf("a port that nobody listens on: %+v", c)
	}
}

func TestRestartPolicyAlways(t *testing.T) {
	w := newWorld(t)
	w.pod("a", "test -e /v/again && exec sleep 1000; touch /v/again; echo first; exit 4", func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	})
	p := w.waitPod("a", "restarted", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].RestartCount == 1 && s[0].State.Running != nil
	})
	if last := p.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 4 {
		t.Errorf("%+v", p.Status.ContainerStatuses[0])
	}
	b, err := w.client.CoreV1().Pods(w.ns).GetLogs("a", &corev1.PodLogOptions{Previous: true}).DoRaw(t.Context())
	if err != nil || string(b) != "first\n" {
		t.Errorf("log of the first run: %q, %v", b, err)
	}
}

func TestLogsFollowAndTail(t *testing.T) {
	w := newWorld(t)
	w.pod("a", "seq 1 1000; sleep 0.5; echo more; until test -e /tmp/stop; do sleep 0.05; done", func(p *corev1.Pod) {
		p.Spec.Containers[0].Command[2] = "seq 1 1000; sleep 0.5; echo more; sleep 0.5; echo end"
	})
	w.waitPod("a", "started", func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodPending })
	tail := int64(2)
	stream, err := w.client.CoreV1().Pods(w.ns).GetLogs("a", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	all, err := io.ReadAll(stream)
	if err != nil || !strings.HasPrefix(string(all), "1\n2\n") || !strings.HasSuffix(string(all), "1000\nmore\nend\n") {
		t.Errorf("followed to the end: %d bytes, %v", len(all), err)
	}
	b, err := w.client.CoreV1().Pods(w.ns).GetLogs("a", &corev1.PodLogOptions{TailLines: &tail}).DoRaw(t.Context())
	if err != nil || string(b) != "more\nend\n" {
		t.Errorf("tail: %q, %v", b, err)
	}
}

func TestExec(t *testing.T) {
	w := newWorld(t)
	w.pod("a", "echo in-here > /tmp/f; echo up; exec sleep 1000")
	w.waitLog("a", "up")
	run := func(stdin string, command ...string) (string, error) {
		request := w.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(w.ns).Name("a").SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Command: command, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec)
		executor, err := remotecommand.NewSPDYExecutor(w.config, "POST", request.URL())
		if err != nil {
			t.Fatal(err)
		}
		var out, errOut bytes.Buffer // written at the same time
		err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errOut})
		return out.String() + errOut.String(), err
	}
	if out, err := run("from outside\n", "sh", "-c", "cat /tmp/f -; echo complaint >&2"); err != nil || out != "in-here\nfrom outside\ncomplaint\n" {
		t.Errorf("%q, %v", out, err)
	}
	_, err := run("", "sh", "-c", "exit 6")
	if exit := (utilexec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitStatus() != 6 {
		t.Errorf("exit code: %v", err)
	}
}

func TestUsersOfContainers(t *testing.T) {
	w := newWorld(t)
	uid, gid := int64(4711), int64(4712)
	w.pod("a", "id -u; id -g; touch /tmp/mine && echo writes", func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &uid, RunAsGroup: &gid}
	})
	if os.Getuid() != 0 {
		w.waitPod("a", "refused", func(p *corev1.Pod) bool {
			s := p.Status.ContainerStatuses
			return len(s) == 1 && s[0].State.Waiting != nil && strings.Contains(s[0].State.Waiting.Message, "runAsUser 4711")
		})
		return
	}
	w.waitPhase("a", corev1.PodSucceeded)
	if got := w.log("a"); got != "4711\n4712\nwrites\n" {
		t.Errorf("log: %q", got)
	}
}

func TestNamesResolveAcrossNodes(t *testing.T) {
	w := newWorld(t)
	other := w.newNode()
	in := func(node *node) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.Hostname, p.Spec.Subdomain = node.name, p.Name+"-host", "job"
		}
	}
	find := func(names ...string) string {
		script := ""
		for _, n := range names {
			script += "until getent hosts " + n + "; do sleep 0.05; done; "
		}
		return script + "echo done; exec sleep 1000"
	}
	full := "second-host.job." + w.ns + ".svc.cluster.local"
	w.pod("first", find("first-host.job", "second-host.job", full), in(w.node))
	w.waitPhase("first", corev1.PodRunning)
	second := w.pod("second", find("first-host.job"), in(other))
	w.waitLog("first", "done")
	w.waitLog("second", "done")
	second = w.get("second")
	for _, line := range strings.Split(strings.TrimSpace(w.log("first")), "\n")[1:3] {
		if !strings.HasPrefix(line, second.Status.PodIP+" ") {
			t.Errorf("%q does not name the address %s", line, second.Status.PodIP)
		}
	}
}

func TestARestartedNodeAdopts(t *testing.T) {
	w := newWorld(t)
	w.pod("runs", untilTerm)
	w.pod("ends", "trap 'exit 5' USR1; echo up; while :; do sleep 0.05; done")
	w.pod("deleted", untilTerm, hold)
	w.pod("gone", deaf)
	ids := map[string]string{}
	for _, name := range []string{"runs", "ends", "deleted", "gone"} {
		w.waitLog(name, "up")
		ids[name] = w.get(name).Status.ContainerStatuses[0].ContainerID
	}
	goneUID := string(w.get("gone").UID)
	w.node.end(syscall.SIGKILL)
	box := func(name string) *sandbox.Container {
		t.Helper()
		c, err := sandbox.Open(filepath.Join(w.node.dir, "pods", strings.Split(ids[name], "/")[2], "containers", "main", "0"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if err := box("ends").Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if _, err := box("ends").Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.delete("deleted")
	zero := int64(0)
	if err := w.client.CoreV1().Pods(w.ns).Delete(t.Context(), "gone", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	w.node.start()
	if s := terminated(w.waitPhase("ends", corev1.PodFailed)); s.ExitCode != 5 {
		t.Errorf("ended while no node ran: %+v", s)
	}
	w.waitPhase("deleted", corev1.PodSucceeded)
	w.release("deleted")
	w.waitGone("deleted")
	w.eventually("the container of a pod that is gone has ended", func() bool { return len(processesWith(goneUID)) == 0 })
	runs := w.get("runs")
	if s := runs.Status.ContainerStatuses[0]; s.State.Running == nil || s.ContainerID != ids["runs"] || s.RestartCount != 0 {
		t.Errorf("not adopted: %+v", s)
	}
	w.delete("runs")
	w.waitGone("runs")
}

func TestALostContainerDoesNotRunTwice(t *testing.T) {
	w := newWorld(t)
	p := w.pod("a", deaf)
	w.waitLog("a", "up")
	w.node.end(syscall.SIGKILL)
	if out, err := w.node.command("cleanup", "--dir="+w.node.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if left := processesWith(string(p.UID)); len(left) > 0 {
		t.Errorf("cleanup left %v", left)
	}
	w.node.start()
	if s := terminated(w.waitPhase("a", corev1.PodFailed)); s.ExitCode != 137 || s.Reason != "ContainerStatusUnknown" {
		t.Errorf("%+v", s)
	}
}

func TestAStoppedNodeIsLostAndComesBack(t *testing.T) {
	w := newWorld(t)
	w.pod("a", untilTerm, hold)
	w.waitLog("a", "up")
	ready := func() corev1.ConditionStatus {
		n, err := w.client.CoreV1().Nodes().Get(t.Context(), w.node.name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status
			}
		}
		return ""
	}
	w.eventually("node ready", func() bool { return ready() == corev1.ConditionTrue })
	if err := w.node.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.delete("a")
	w.eventually("node lost", func() bool { return ready() == corev1.ConditionUnknown })
	if p := w.get("a"); len(processesWith(string(p.UID))) == 0 || p.Status.Phase != corev1.PodRunning {
		t.Error("the container did not outlive its node")
	}
	if err := w.node.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.waitPhase("a", corev1.PodSucceeded)
	w.eventually("node ready again", func() bool { return ready() == corev1.ConditionTrue })
	w.release("a")
	w.waitGone("a")
}

func TestStopContainersOnExit(t *testing.T) {
	w := newWorld(t, "--stop-containers-on-exit")
	p := w.pod("a", deaf)
	w.waitLog("a", "up")
	w.node.end(syscall.SIGTERM)
	if left := processesWith(string(p.UID)); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
}
