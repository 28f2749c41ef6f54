package harness

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"rtj.dev/rtj/metacontroller/manifests"
	"rtj.dev/rtj/test/cluster"
)

//go:embed metacontroller-crds.yaml
var metacontrollerCRDs []byte

const (
	rtjNamespace = "rtj-system"
	tokenSecret  = "rtj-runner-token"
	startLimit   = time.Minute
)

var (
	definitions          = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	compositeControllers = schema.GroupVersionResource{Group: "metacontroller.k8s.io", Version: "v1alpha1", Resource: "compositecontrollers"}
)

// Metacontroller runs RTJ as `rtj hooks` under an installed Metacontroller,
// instead of as `rtj run`.
type Metacontroller struct{ processes []*process }

// StartMetacontroller starts both, as processes of the cluster: they end with it,
// however it ends. Hooks run as user "rtj", Metacontroller as administrator.
func (c *Cluster) StartMetacontroller(ctx context.Context, binary string) (*Metacontroller, error) {
	m := &Metacontroller{}
	if err := m.start(ctx, c, binary); err != nil {
		m.Stop()
		return nil, err
	}
	return m, nil
}

func (m *Metacontroller) start(ctx context.Context, c *Cluster, binary string) error {
	hooks, health := c.Ports["operator-hooks"], c.Ports["operator-health"]
	token := rand.Text()
	tokenFile := filepath.Join(c.Dir, "secrets", "runner-token")
	if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
		return err
	}
	if err := c.installMetacontroller(ctx, hooks, token); err != nil {
		return err
	}
	rtj := filepath.Join(c.Dir, "bin", "rtj")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", rtj, ".")
	build.Dir, build.Env = c.Options.Root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build rtj: %w\n%s", err, out)
	}
	// The hooks' log is where the operator's is looked for.
	if err := m.run(c, cluster.Operator, nil, rtj, "hooks", "--kubeconfig="+c.RTJKubeconfig,
		fmt.Sprintf("--http-address=127.0.0.1:%d", hooks), "--runner-token-file="+tokenFile); err != nil {
		return err
	}
	if err := m.run(c, "metacontroller", []string{"KUBECONFIG=" + c.Kubeconfig}, binary,
		"--metrics-address=0", fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", health),
		"--client-go-qps=500", "--client-go-burst=1000", "--workers=8", "--discovery-interval=10s"); err != nil {
		return err
	}
	for _, port := range []int{hooks, health} {
		if err := Until(ctx, startLimit, "hooks and Metacontroller are ready", func(ctx context.Context) (bool, string, error) {
			return answers(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", port))
		}); err != nil {
			return fmt.Errorf("%w\n%s\n%s", err, c.LogTail(cluster.Operator, 10), c.LogTail("metacontroller", 10))
		}
	}
	return nil
}

// installMetacontroller makes its kinds, the token, and RTJ's CompositeController
// with the hooks' address.
func (c *Cluster) installMetacontroller(ctx context.Context, port int, token string) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(metacontrollerCRDs), 4096)
	for {
		crd := &unstructured.Unstructured{}
		if err := decoder.Decode(crd); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if _, err := c.Dynamic.Resource(definitions).Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	_ = c.Kube.CoreV1().Secrets(rtjNamespace).Delete(ctx, tokenSecret, metav1.DeleteOptions{})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: tokenSecret}, StringData: map[string]string{"token": token}}
	if _, err := c.Kube.CoreV1().Secrets(rtjNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	controller := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifests.CompositeController, controller); err != nil {
		return err
	}
	for _, hook := range []string{"sync", "finalize", "customize"} {
		webhook, _, _ := unstructured.NestedMap(controller.Object, "spec", "hooks", hook, "webhook")
		delete(webhook, "service")
		delete(webhook, "path")
		webhook["url"] = fmt.Sprintf("http://127.0.0.1:%d/%s", port, hook)
		webhook["authorization"] = map[string]any{
			"type": "Bearer", "secretRef": map[string]any{"name": tokenSecret, "namespace": rtjNamespace, "key": "token"},
		}
		if err := unstructured.SetNestedMap(controller.Object, webhook, "spec", "hooks", hook, "webhook"); err != nil {
			return err
		}
	}
	return Until(ctx, startLimit, "the CompositeController is made", func(ctx context.Context) (bool, string, error) {
		_, err := c.Dynamic.Resource(compositeControllers).Create(ctx, controller, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err), "", err
	})
}

// PIDs are those of both processes.
func (m *Metacontroller) PIDs() []int {
	var pids []int
	for _, p := range m.processes {
		pids = append(pids, p.cmd.Process.Pid)
	}
	return pids
}

// Stop ends both.
func (m *Metacontroller) Stop() {
	for _, p := range m.processes {
		p.stop()
	}
}

// process is a child that ends with the cluster.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// clusterEnv marks processes as the cluster's, which ends them all when it goes.
const clusterEnv = "RTJ_CLUSTER_ID"

func (m *Metacontroller) run(c *Cluster, name string, env []string, path string, args ...string) error {
	log, err := os.OpenFile(filepath.Join(c.Dir, "logs", name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir, log, log
	cmd.Env = append(append(os.Environ(), clusterEnv+"="+c.ID), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	m.processes = append(m.processes, p)
	return nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func answers(ctx context.Context, url string) (bool, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, "", err
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK, response.Status, nil
}
