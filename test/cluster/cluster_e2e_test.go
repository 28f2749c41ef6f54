//go:build e2e

package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"rtj.dev/rtj/test/cluster/internal/proc"
)

// ownerEnv makes the test binary start a cluster and wait to be killed.
const ownerEnv = "RTJ_TEST_OWNER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerEnv); dir != "" {
		c, err := Start(context.Background(), Options{Dir: dir})
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		fmt.Println("up", c.ID)
		select {}
	}
	os.Exit(m.Run())
}

func TestTwoClustersSideBySide(t *testing.T) {
	var clusters [2]*Cluster
	var wait sync.WaitGroup
	for i := range clusters {
		wait.Go(func() { clusters[i] = startCluster(t, Options{FakeNodes: 2}) })
	}
	wait.Wait()
	a, b := clusters[0], clusters[1]
	if t.Failed() {
		return
	}
	if a.PodRange == b.PodRange || a.APIServer == b.APIServer || a.S3.Endpoint == b.S3.Endpoint {
		t.Errorf("they share something: %s %s", a.PodRange, b.PodRange)
	}
	if sameNode(t, a, b) {
		t.Error("both API servers show the same nodes")
	}
	for _, c := range clusters {
		wait.Go(func() {
			if _, err := c.Smoke(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	dir, table := a.Dir, a.table()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	mustBeGone(t, dir, table)
	if _, err := b.Smoke(t.Context()); err != nil {
		t.Errorf("the other cluster after the end of one: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestEveryComponentCanBeKilledAndStartedAgain(t *testing.T) {
	c := startCluster(t, Options{FakeNodes: 1})
	for _, name := range []string{Etcd, APIServer, ControllerManager, Scheduler, Kueue, JobSet, Kwok, S3} {
		if err := c.KillComponent(name); err != nil {
			t.Fatal(err)
		}
		if s := statusOf(t, c, name); s.Alive || s.Ready {
			t.Fatalf("%s was killed: %+v", name, s)
		}
		if err := c.StartComponent(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Smoke(t.Context()); err != nil {
		t.Error(err)
	}
	// After a crash of everything, it comes up again with its data.
	before := nodeUID(t, c)
	if err := c.table().KillAll(); err != nil {
		t.Fatal(err)
	}
	again, err := Start(t.Context(), Options{Dir: c.Dir, FakeNodes: 1, Persistent: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range again.Status(t.Context()) {
		if !s.Ready {
			t.Errorf("%s is not ready: %s", s.Name, s.Message)
		}
	}
	if nodeUID(t, again) != before {
		t.Error("the data is new")
	}
	if err := c.KillComponent("kubelet"); err == nil || !strings.Contains(err.Error(), "kube-scheduler") {
		t.Errorf("an unknown component: %v", err)
	}
}

func TestAComponentThatDiesIsReportedWithItsLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	_, err := Start(t.Context(), Options{Dir: dir, KueueConfig: map[string]any{
		"waitForPodsReady": map[string]any{"timeout": "-5m"},
	}})
	if err == nil {
		t.Fatal("Kueue accepted a negative timeout")
	}
	if !strings.Contains(err.Error(), "kueue ended: exit status 1") || !strings.Contains(err.Error(), "waitForPodsReady") {
		t.Errorf("the error does not say which component died of what: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a failed start left its state behind: %v", err)
	}
}

func TestAClusterEndsWithItsOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	owner := exec.Command("/proc/self/exe")
	owner.Env = append(os.Environ(), ownerEnv+"="+dir)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "up ") {
		t.Fatalf("%q, %v", line, err)
	}
	info, err := ReadInfo(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	if err := eventually(t, "the keeper has taken the cluster down", func() (bool, string, error) {
		_, err := os.Stat(dir)
		marked, markedErr := info.table().Marked()
		return os.IsNotExist(err) && len(marked) == 0, fmt.Sprint(err, len(marked)), markedErr
	}); err != nil {
		t.Error(err)
	}
}

func TestKueueReadsRTJsOnlyThroughOurRole(t *testing.T) {
	c := startCluster(t, Options{})
	kueue, err := restConfig(c.kubeconfig("kueue"))
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(kueue)
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("what upstream's role grants: %v", err)
	}
	if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what upstream's role does not grant: %v", err)
	}
}

func TestSmokeLendsAFakeNodeWhereThereIsNone(t *testing.T) {
	c := startCluster(t, Options{})
	if _, err := c.Smoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	nodes, err := kubernetes.NewForConfigOrDie(c.RESTConfig).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 0 {
		t.Errorf("%d nodes are left, %v", len(nodes.Items), err)
	}
}

func TestTheAuditLogShowsRTJsReadsAndEveryWrite(t *testing.T) {
	c := startCluster(t, Options{})
	admin, rtj := kubernetes.NewForConfigOrDie(c.RESTConfig), kubernetes.NewForConfigOrDie(c.RTJConfig)
	name := "audited-" + randomText(6)
	_, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": "the-content"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	// Whether it is allowed does not matter: refused requests count as well.
	_, _ = rtj.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
	want := map[string]int{"admin create": 1, "rtj get": 1}
	if err := eventually(t, "the audit log has all lines", func() (bool, string, error) {
		got, err := auditedRequests(c.AuditLog, name)
		return fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprint(got), err
	}); err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(c.AuditLog)
	if err != nil || strings.Contains(string(data), "the-content") {
		t.Errorf("the audit log holds the content of objects (%v)", err)
	}
}

func TestALostNodeIsNoticedAndItsContainersRunOn(t *testing.T) {
	// With no other node left, Kubernetes would suspect itself and evict nobody.
	c := startCluster(t, Options{FakeNodes: 1, ProcessNodes: 1, NodeImages: []string{"host=" + t.TempDir()},
		NodeMonitorGracePeriod: 15 * time.Second, PodEvictionDelay: time.Second})
	client := kubernetes.NewForConfigOrDie(c.RESTConfig)
	proof, anyFolder := filepath.Join(t.TempDir(), "proof"), corev1.HostPathDirectoryOrCreate
	pods := client.CoreV1().Pods("default")
	_, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "zombie"},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{NodeKindLabel: "process"},
			Containers: []corev1.Container{{Name: "main", Image: "host",
				Command:      []string{"/bin/sh", "-c", "while :; do date +%N >/proof/beat; sleep 0.1; done"},
				VolumeMounts: []corev1.VolumeMount{{Name: "proof", MountPath: "/proof"}}}},
			Volumes: []corev1.Volume{{Name: "proof", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: proof, Type: &anyFolder}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	beats := func() (bool, string, error) { return beatsOn(filepath.Join(proof, "beat")) }
	if err := eventually(t, "the container runs", beats); err != nil {
		t.Fatal(err, "\n", c.LogTail(ProcessNodeName(0), 5))
	}
	if err := c.KillComponent(ProcessNodeName(0)); err != nil {
		t.Fatal(err)
	}
	if err := eventually(t, "the node is lost and its pod deleted", func() (bool, string, error) {
		p, err := pods.Get(t.Context(), "zombie", metav1.GetOptions{})
		return err == nil && p.DeletionTimestamp != nil, fmt.Sprint(p.Status.Phase), err
	}); err != nil {
		t.Fatal(err)
	}
	if err := eventually(t, "the container still runs", beats); err != nil {
		t.Error(err)
	}
	if err := c.StartComponent(t.Context(), ProcessNodeName(0)); err != nil {
		t.Fatal(err)
	}
	if err := eventually(t, "the node that came back has let the pod go", func() (bool, string, error) {
		_, err := pods.Get(t.Context(), "zombie", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		return false, "it is still there", err
	}); err != nil {
		t.Error(err)
	}
	dir, table := c.Dir, c.table()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	mustBeGone(t, dir, table)
}

// beatsOn says whether a file is being written.
func beatsOn(path string) (bool, string, error) {
	first, err := os.ReadFile(path)
	if err != nil {
		return false, err.Error(), nil
	}
	time.Sleep(time.Second)
	second, err := os.ReadFile(path)
	return err == nil && string(first) != string(second), "it stands still", nil
}

func TestRTJIsInstalledIntoAnExistingCluster(t *testing.T) {
	c := startCluster(t, Options{})
	t.Setenv("KUBECONFIG", c.Kubeconfig)
	var out strings.Builder
	if err := InstallExisting(t.Context(), "", &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), c.APIServer) {
		t.Errorf("the output does not say where: %s", out.String())
	}
	if err := InstallExisting(t.Context(), "no-such-context", &out); err == nil || !strings.Contains(err.Error(), "no-such-context") {
		t.Errorf("a context that does not exist: %v", err)
	}
	client := kubernetes.NewForConfigOrDie(c.RESTConfig)
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kueue-manager-config"},
		Data: map[string]string{"controller_manager_config.yaml": "integrations: {frameworks: [pod]}"}}
	if _, err := client.CoreV1().ConfigMaps(kueueNamespace).Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := InstallExisting(t.Context(), "", &out); err == nil || !strings.Contains(err.Error(), externalFramework) {
		t.Errorf("a Kueue that does not know RTJ: %v", err)
	}
	apply, err := newApplier(c.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	const jobsets = "jobsets.jobset.x-k8s.io"
	if err := apply.client.Resource(crdResource).Delete(t.Context(), jobsets, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := eventually(t, "the missing CRD is named", func() (bool, string, error) {
		err := InstallExisting(t.Context(), "", &out)
		return err != nil && strings.Contains(err.Error(), "CRD "+jobsets+" is missing: install JobSet"), fmt.Sprint(err), nil
	}); err != nil {
		t.Error(err)
	}
}

// eventually bounds what hangs; what is waited for takes a fraction of it.
func eventually(t *testing.T, what string, check func() (bool, string, error)) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return until(ctx, what, check)
}

func startCluster(t *testing.T, o Options) *Cluster {
	t.Helper()
	o.Dir = filepath.Join(t.TempDir(), "c")
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Error(err)
		t.FailNow()
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func mustBeGone(t *testing.T, dir string, table proc.Table) {
	t.Helper()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the state folder is left: %v", err)
	}
	marked, err := table.Marked()
	if err != nil || len(marked) > 0 {
		t.Errorf("processes left: %v, %v", marked, err)
	}
	if mounts, err := mountsBelow(dir); err != nil || len(mounts) > 0 {
		t.Errorf("mounts left: %v, %v", mounts, err)
	}
}

func statusOf(t *testing.T, c *Cluster, name string) ComponentStatus {
	t.Helper()
	for _, s := range c.Status(t.Context()) {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no status of %s", name)
	return ComponentStatus{}
}

func nodeUID(t *testing.T, c *Cluster) string {
	t.Helper()
	return uidOf(t, c.RESTConfig)
}

func sameNode(t *testing.T, a, b *Cluster) bool {
	t.Helper()
	return uidOf(t, a.RESTConfig) == uidOf(t, b.RESTConfig)
}

func uidOf(t *testing.T, config *rest.Config) string {
	t.Helper()
	node, err := kubernetes.NewForConfigOrDie(config).CoreV1().Nodes().Get(t.Context(), FakeNodeName(0), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(node.UID)
}

// auditedRequests counts requests about one object by user and verb.
func auditedRequests(path, name string) (map[string]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	count := map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Name, Resource string }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			continue // the last line may be half written
		}
		if event.ObjectRef.Name == name {
			count[event.User.Username+" "+event.Verb]++
		}
	}
	return count, lines.Err()
}
