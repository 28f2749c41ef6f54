//go:build e2e

// Package kubelet tests the local cluster's node with a real kubelet and
// containerd: what pods are given there, and that nothing of it stays behind.
package kubelet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"rtj.dev/rtj/test/cluster"
	"rtj.dev/rtj/test/figures"
	"rtj.dev/rtj/test/harness"
)

const patience = 2 * time.Minute

func start(t *testing.T) *harness.Cluster {
	t.Helper()
	if os.Getenv("E2E_NODE") != "kubelet" {
		t.Skip("runs with NODE=kubelet")
	}
	c, err := harness.Start(t.Context(), cluster.Options{KubeletNode: true, Progress: os.Stdout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// podSpec says what a pod of these tests differs in.
type podSpec struct {
	name, image, script string
	edit                func(*corev1.PodSpec)
}

// create makes a pod that runs a shell script.
func create(t *testing.T, c *harness.Cluster, p podSpec) {
	t.Helper()
	spec := corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64),
		Containers:                    []corev1.Container{{Name: "main", Image: p.image, Command: []string{"sh", "-c", p.script}}},
	}
	if p.edit != nil {
		p.edit(&spec)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: map[string]string{"app": "peers"}}, Spec: spec}
	if _, err := c.Kube.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// until waits for something to be so of a pod.
func until(t *testing.T, c *harness.Cluster, name, what string, so func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	if err := harness.Until(t.Context(), patience, name+" "+what, func(ctx context.Context) (bool, string, error) {
		p, err := c.Kube.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		pod = p
		return so(p), fmt.Sprintf("%s %+v", p.Status.Phase, p.Status.ContainerStatuses), nil
	}); err != nil {
		t.Fatal(err)
	}
	return pod
}

func running(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }

func untilLog(t *testing.T, c *harness.Cluster, pod, want string) {
	t.Helper()
	if err := harness.Until(t.Context(), patience, pod+" says "+want, func(ctx context.Context) (bool, string, error) {
		out, err := c.Kube.CoreV1().Pods("default").GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
		return strings.Contains(string(out), want), string(out), err
	}); err != nil {
		t.Fatal(err)
	}
}

// execute is kubectl exec. A kubelet that has just been started does not know its
// pods for a moment.
func execute(t *testing.T, c *harness.Cluster, pod string, command ...string) string {
	t.Helper()
	args := append([]string{"--kubeconfig=" + c.Kubeconfig, "exec", pod, "--"}, command...)
	var said string
	if err := harness.Until(t.Context(), patience, fmt.Sprintf("kubectl exec %s %q", pod, command), func(ctx context.Context) (bool, string, error) {
		out, err := exec.CommandContext(ctx, c.Programs.Path("kubectl"), args...).CombinedOutput()
		said = strings.TrimSpace(string(out))
		if err != nil && !strings.Contains(said, "pod does not exist") {
			t.Fatalf("kubectl exec %s %q: %v\n%s", pod, command, err, said)
		}
		return err == nil, said, nil
	}); err != nil {
		t.Fatal(err)
	}
	return said
}

// peersService gives the pods of these tests names, also before they are ready,
// as JobSet's own Service does.
func peersService(t *testing.T, c *harness.Cluster) {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "peers"}, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: map[string]string{"app": "peers"},
		Ports: []corev1.ServicePort{{Port: 1, TargetPort: intstr.FromInt32(1)}},
	}}
	if _, err := c.Kube.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func named(hostname string) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) { spec.Hostname, spec.Subdomain = hostname, "peers" }
}

const stay = "; exec sleep 3600"

// kernelSettings are those that a kubelet changes on a machine of its own.
func kernelSettings(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "net/ipv4/ip_forward"} {
		value, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %s", name, value)
	}
	return all.String()
}

func TestPodsOnAKubelet(t *testing.T) {
	settings := kernelSettings(t)
	c := start(t)
	if now := kernelSettings(t); now != settings {
		t.Errorf("the kernel's settings were\n%sand are\n%s", settings, now)
	}
	peersService(t, c)

	t.Run("names, addresses and the store", func(t *testing.T) {
		create(t, c, podSpec{name: "leader", image: "python", script: `hostname` + stay, edit: named("first")})
		create(t, c, podSpec{name: "rank", image: "python", edit: named("second"), script: `
			until getent hosts first.peers; do sleep 0.2; done
			python -c 'import rtj, numpy, socket, urllib.request, urllib.error
print("names", socket.gethostname(), socket.gethostbyname("first.peers") == socket.gethostbyname("first.peers.default.svc.cluster.local"))
try: urllib.request.urlopen("` + c.S3.Endpoint + `/")
except urllib.error.HTTPError as refused: print("store answers", refused.code)
socket.create_connection(("kubernetes.default.svc.cluster.local", 443)).close()
print("API server is there")
'` + stay})
		leader := until(t, c, "leader", "runs", running)
		untilLog(t, c, "leader", "first")
		untilLog(t, c, "rank", leader.Status.PodIP)
		untilLog(t, c, "rank", "names second True")
		untilLog(t, c, "rank", "store answers 403")
		untilLog(t, c, "rank", "API server is there")
		if got := execute(t, c, "rank", "hostname"); got != "second" {
			t.Errorf("exec: the host name is %q", got)
		}
		if strings.HasPrefix(leader.Status.PodIP, "127.") {
			t.Errorf("the leader has the loopback address %s", leader.Status.PodIP)
		}
		out, err := exec.CommandContext(t.Context(), c.Programs.Path("kubectl"), "--kubeconfig="+c.Kubeconfig, "exec", "rank", "--",
			"sh", "-c", "echo x >"+c.Options.Root+"/written").CombinedOutput()
		if err == nil {
			t.Errorf("a container has written to the machine: %s", out)
		}
	})

	t.Run("an image that is not there", func(t *testing.T) {
		create(t, c, podSpec{name: "stranger", image: "pytorch", script: "true"})
		until(t, c, "stranger", "cannot be pulled", func(p *corev1.Pod) bool {
			return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
				strings.Contains(p.Status.ContainerStatuses[0].State.Waiting.Reason, "ImagePull")
		})
	})

	t.Run("a ConfigMap arrives late", func(t *testing.T) { configMapDelay(t, c) })

	t.Run("containers outlive kubelet, containerd and gateway", func(t *testing.T) { outlive(t, c) })

	t.Run("a node that lost its namespaces comes up again", func(t *testing.T) { reboot(t, c) })

	t.Run("nothing is left after a crash", func(t *testing.T) { crash(t, c) })
}

// configMapDelay measures how long after the API write a running pod reads it.
func configMapDelay(t *testing.T, c *harness.Cluster) {
	maps := c.Kube.CoreV1().ConfigMaps("default")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"word": "old"}}
	if _, err := maps.Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create(t, c, podSpec{name: "reader", image: "python", edit: func(spec *corev1.PodSpec) {
		spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}}}
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/config"}}
	}, script: "cat /config/word; echo; until grep -q new /config/word; do sleep 0.1; done; echo seen $(date +%s.%N)" + stay})
	untilLog(t, c, "reader", "old")
	// Its own start makes the kubelet look at a pod several times: what is of
	// interest is one that has run for a while.
	until(t, c, "reader", "is left alone", func(p *corev1.Pod) bool {
		return running(p) && time.Since(p.Status.ContainerStatuses[0].State.Running.StartedAt.Time) > 10*time.Second
	})
	config.Data["word"] = "new"
	written := time.Now()
	if _, err := maps.Update(t.Context(), config, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	untilLog(t, c, "reader", "seen ")
	out, err := c.Kube.CoreV1().Pods("default").GetLogs("reader", &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, stamp, _ := strings.Cut(string(out), "seen ")
	var seen float64
	if _, err := fmt.Sscan(stamp, &seen); err != nil {
		t.Fatal(err)
	}
	figures.Print("ConfigMap written until a running pod has it", "stock kubelet", seen-float64(written.UnixNano())/1e9, "s")
}

func outlive(t *testing.T, c *harness.Cluster) {
	before := until(t, c, "leader", "runs", running)
	for _, name := range []string{cluster.Kubelet, cluster.Containerd, cluster.NodeGateway, cluster.CoreDNS} {
		if err := c.KillComponent(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{cluster.NodeGateway, cluster.Containerd, cluster.CoreDNS, cluster.Kubelet} {
		if err := c.StartComponent(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	// What was there is reached again, and what is new works.
	store := `import urllib.request, urllib.error
try: urllib.request.urlopen("` + c.S3.Endpoint + `/")
except urllib.error.HTTPError as refused: print(refused.code)`
	if got := execute(t, c, "leader", "python", "-c", store); got != "403" {
		t.Errorf("the store, from a pod that was there before: %s", got)
	}
	create(t, c, podSpec{name: "late", image: "python", edit: named("third"),
		script: "until getent hosts first.peers; do sleep 0.2; done; echo found" + stay})
	untilLog(t, c, "late", "found")
	after := until(t, c, "leader", "runs", running)
	if a, b := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]; a.ContainerID != b.ContainerID || b.RestartCount != 0 {
		t.Errorf("the container was %s and is %s, restarted %d times", a.ContainerID, b.ContainerID, b.RestartCount)
	}
	node, err := c.Kube.CoreV1().Nodes().Get(t.Context(), cluster.KubeletNodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if gpus := node.Status.Allocatable[harness.GPU]; gpus.IsZero() {
		t.Error("the kubelet that was started again has no GPUs")
	}
}

// reboot ends what holds the node's namespaces: nobody can get into them any more,
// so the node begins anew, with the data that it had.
func reboot(t *testing.T, c *harness.Cluster) {
	before := until(t, c, "leader", "runs", running).Status.ContainerStatuses[0].ContainerID
	if err := c.KillComponent(cluster.NodeNamespaces); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{cluster.NodeNamespaces, cluster.NodeGateway, cluster.Containerd, cluster.CoreDNS, cluster.Kubelet} {
		if err := c.StartComponent(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	until(t, c, "leader", "runs again", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses[0]
		return s.State.Running != nil && s.ContainerID != before
	})
	if got := execute(t, c, "leader", "hostname"); got != "first" {
		t.Errorf("after that the host name is %q", got)
	}
}

// crash kills everything at once, containers excepted, and takes the cluster
// down: nothing of it may be left on the machine.
func crash(t *testing.T, c *harness.Cluster) {
	until(t, c, "leader", "runs", running)
	network := namespaceOf(t, c, "leader")
	group := "rtj-" + c.ID
	if len(withText(t, "cgroup", group)) == 0 || len(inNamespace(t, network)) == 0 {
		t.Fatal("the processes of containers are not where this test looks for them")
	}
	for _, s := range c.Status(t.Context()) {
		if s.Alive {
			if err := c.KillComponent(s.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(inNamespace(t, network)) == 0 {
		t.Error("the containers did not outlive the crash: this test shows nothing")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, c, group, network)
}

func nothingLeft(t *testing.T, c *harness.Cluster, group, network string) {
	t.Helper()
	// What was killed is a zombie until process 1 looks.
	if err := harness.Until(t.Context(), patience, "no process of the cluster is left", func(context.Context) (bool, string, error) {
		left := slices.Concat(withText(t, "cgroup", group), withText(t, "environ", "RTJ_CLUSTER_ID="+c.ID),
			inNamespace(t, network), withText(t, "mountinfo", c.Dir))
		return len(left) == 0, fmt.Sprint(left), nil
	}); err != nil {
		t.Error(err)
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/" + group)
	if more, _ := filepath.Glob("/sys/fs/cgroup/" + group); err != nil || len(groups)+len(more) > 0 {
		t.Errorf("cgroups are left: %v %v, %v", groups, more, err)
	}
	if _, err := os.Stat(c.Dir); !os.IsNotExist(err) {
		t.Errorf("the state folder is left: %v", err)
	}
	for _, path := range []string{"/sys/class/net/pods0", "/run/kubelet-node"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is on the machine", path)
		}
	}
}

// namespaceOf is the network namespace of a pod's processes.
func namespaceOf(t *testing.T, c *harness.Cluster, pod string) string {
	t.Helper()
	return execute(t, c, pod, "readlink", "/proc/self/ns/net")
}

func inNamespace(t *testing.T, namespace string) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range all {
		if target, err := os.Readlink(path); err == nil && target == namespace {
			found = append(found, path)
		}
	}
	return found
}

// withText are the processes one of whose files in /proc holds a text, the
// calling one excepted.
func withText(t *testing.T, file, text string) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range all {
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), text) && !strings.HasPrefix(path, fmt.Sprintf("/proc/%d/", os.Getpid())) {
			found = append(found, path)
		}
	}
	return found
}

func TestTwoKubeletsSideBySide(t *testing.T) {
	a, b := start(t), start(t)
	for _, c := range []*harness.Cluster{a, b} {
		peersService(t, c)
		create(t, c, podSpec{name: "leader", image: "python", script: "hostname" + stay, edit: named("first")})
	}
	first, second := until(t, a, "leader", "runs", running), until(t, b, "leader", "runs", running)
	for c, own := range map[*harness.Cluster]*corev1.Pod{a: first, b: second} {
		// Both may have the same address, each in a network of its own.
		if got := execute(t, c, "leader", "sh", "-c", "getent hosts first.peers | cut -d' ' -f1"); got != own.Status.PodIP {
			t.Errorf("the leader is at %s and finds itself at %s", own.Status.PodIP, got)
		}
	}
	network := namespaceOf(t, a, "leader")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, a, "rtj-"+a.ID, network)
	if got := execute(t, b, "leader", "hostname"); got != "first" {
		t.Errorf("the other cluster after the end of one: %s", got)
	}
}
