package harness

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
	// The service accounts as which the hooks and Metacontroller run.
	hooksAccount            = "rtj-hooks"
	metacontrollerNamespace = "metacontroller"
	metacontrollerAccount   = "metacontroller"
	metacontrollerRole      = "rtj-metacontroller"
	// Secrets that the CompositeController names.
	tokenSecret = "rtj-runner-token"
	tlsSecret   = "rtj-hooks-tls"

	metacontrollerName = "metacontroller"
	controllerName     = "rtj"
	startLimit         = time.Minute
)

var (
	compositeControllers = schema.GroupVersionResource{Group: "metacontroller.k8s.io", Version: "v1alpha1", Resource: "compositecontrollers"}
)

// Metacontroller runs RTJ as `rtj hooks`, over TLS, under an installed
// Metacontroller. Both have no more rights than the manifests give them.
type Metacontroller struct {
	// Args are further arguments of Metacontroller.
	Args []string

	cluster       *Cluster
	binary        string
	hooks, caller *process
	// program is rtj, and tokenFile has the runner's token; empty until all is
	// installed.
	program, tokenFile string
}

// NewMetacontroller returns one that runs a binary, and does not run yet.
func (c *Cluster) NewMetacontroller(binary string) *Metacontroller {
	return &Metacontroller{cluster: c, binary: binary}
}

func (*Metacontroller) String() string { return metacontrollerName }

// Start implements [Runner]. The processes are the cluster's: they end with it,
// however it ends.
func (m *Metacontroller) Start(ctx context.Context, at Endpoint) error {
	err := m.start(ctx, at)
	if err != nil {
		_ = m.Stop()
	}
	return err
}

func (m *Metacontroller) start(ctx context.Context, at Endpoint) error {
	c := m.cluster
	if at.Server == "" {
		var err error
		if at, err = c.direct(); err != nil {
			return err
		}
	}
	if m.tokenFile == "" {
		var err error
		if m.program, err = c.BuildRTJ(ctx); err != nil {
			return err
		}
		if m.tokenFile, err = c.installMetacontroller(ctx); err != nil {
			return err
		}
	}
	if err := c.installController(ctx); err != nil {
		return err
	}
	kubeconfig, err := c.accountKubeconfig(ctx, rtjNamespace, hooksAccount, at)
	if err != nil {
		return err
	}
	// The hooks' log is where the operator's is looked for.
	if m.hooks, err = c.startProcess(cluster.Operator, nil, m.program, "hooks", "--kubeconfig="+kubeconfig,
		fmt.Sprintf("--http-address=127.0.0.1:%d", c.hooksPort()), "--runner-token-file="+m.tokenFile,
		"--tls-cert-file="+c.loopbackCertificate(), "--tls-key-file="+c.loopbackKey()); err != nil {
		return err
	}
	if kubeconfig, err = c.accountKubeconfig(ctx, metacontrollerNamespace, metacontrollerAccount, at); err != nil {
		return err
	}
	health := c.Ports["operator-metrics"]
	if m.caller, err = c.startProcess(metacontrollerName, []string{"KUBECONFIG=" + kubeconfig}, m.binary,
		append([]string{"--metrics-address=0", fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", health),
			"--client-go-qps=500", "--client-go-burst=1000", "--workers=8", "--discovery-interval=10s"}, m.Args...)...); err != nil {
		return err
	}
	trusting, err := c.trusting()
	if err != nil {
		return err
	}
	defer trusting.CloseIdleConnections()
	return errors.Join(
		m.hooks.untilReady(ctx, c, trusting, fmt.Sprintf("https://127.0.0.1:%d/readyz", c.hooksPort())),
		m.caller.untilReady(ctx, c, trusting, fmt.Sprintf("http://127.0.0.1:%d/readyz", health)))
}

// PIDs are those of both processes, which run.
func (m *Metacontroller) PIDs() []int {
	return []int{m.hooks.cmd.Process.Pid, m.caller.cmd.Process.Pid}
}

// Stop implements [Runner]: the CompositeController goes, since Metacontroller may
// run others, and then all of it.
func (m *Metacontroller) Stop() error {
	if m.caller == nil && m.hooks == nil {
		return nil
	}
	err := m.cluster.removeController(context.Background())
	m.each((*process).stop)
	return err
}

// Kill implements [Runner].
func (m *Metacontroller) Kill() error {
	m.each((*process).kill)
	return nil
}

func (m *Metacontroller) each(end func(*process)) {
	for _, p := range []**process{&m.caller, &m.hooks} {
		if *p != nil {
			end(*p)
			*p = nil
		}
	}
}

func (c *Cluster) hooksPort() int { return c.Ports["operator-hooks"] }

// The certificate of servers on loopback, signed by the cluster's authority.
func (c *Cluster) loopbackCertificate() string { return filepath.Join(c.Dir, "pki", "loopback.crt") }
func (c *Cluster) loopbackKey() string         { return filepath.Join(c.Dir, "pki", "loopback.key") }

// trusting is a client that trusts the cluster's authority.
func (c *Cluster) trusting() (*http.Client, error) {
	ca, err := os.ReadFile(c.ClusterCA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}, nil
}

// installMetacontroller makes what an administrator applies but for the
// CompositeController: Metacontroller's kinds and service account, and RTJ's roles
// and Secrets. It returns the file with the runner's token.
func (c *Cluster) installMetacontroller(ctx context.Context) (tokenFile string, err error) {
	if err := c.InstallMetacontrollerKinds(ctx); err != nil {
		return "", err
	}
	if _, err := c.Kubectl(ctx, "apply", "-f", filepath.Join(c.Options.Root, "metacontroller", "manifests", "hooks", "rbac.yaml")); err != nil {
		return "", err
	}
	if err := c.bindMetacontroller(ctx); err != nil {
		return "", err
	}
	token := rand.Text()
	tokenFile = filepath.Join(c.Dir, "secrets", "runner-token")
	if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
		return "", err
	}
	ca, err := os.ReadFile(c.ClusterCA)
	if err != nil {
		return "", err
	}
	if err := c.replaceSecret(ctx, tokenSecret, map[string]string{"token": token}); err != nil {
		return "", err
	}
	if err := c.replaceSecret(ctx, tlsSecret, map[string]string{"ca.crt": string(ca)}); err != nil {
		return "", err
	}
	return tokenFile, nil
}

// InstallMetacontrollerKinds makes Metacontroller's kinds, as loosely as it takes
// to run it.
func (c *Cluster) InstallMetacontrollerKinds(ctx context.Context) error {
	return c.ApplyCRDs(ctx, metacontrollerCRDs)
}

// bindMetacontroller makes its service account, with the least role.
func (c *Cluster) bindMetacontroller(ctx context.Context) error {
	_, err := c.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metacontrollerNamespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: metacontrollerAccount}}
	if _, err := c.Kube.CoreV1().ServiceAccounts(metacontrollerNamespace).Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: metacontrollerRole},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: metacontrollerRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metacontrollerNamespace, Name: metacontrollerAccount}},
	}
	_, err = c.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (c *Cluster) replaceSecret(ctx context.Context, name string, content map[string]string) error {
	secrets := c.Kube.CoreV1().Secrets(rtjNamespace)
	if err := secrets.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: content}, metav1.CreateOptions{})
	return err
}

// installController makes the CompositeController, with the hooks' address here, if
// it is not there.
func (c *Cluster) installController(ctx context.Context) error {
	controller := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifests.CompositeController, controller); err != nil {
		return err
	}
	host := fmt.Sprintf("127.0.0.1:%d", c.hooksPort())
	for _, hook := range []string{"sync", "finalize", "customize"} {
		webhook, _, _ := unstructured.NestedMap(controller.Object, "spec", "hooks", hook, "webhook")
		delete(webhook, "service")
		webhook["url"] = fmt.Sprintf("https://%s%s", host, webhook["path"])
		delete(webhook, "path")
		if err := unstructured.SetNestedMap(controller.Object, webhook, "spec", "hooks", hook, "webhook"); err != nil {
			return err
		}
	}
	endpoints, _, _ := unstructured.NestedSlice(controller.Object, "spec", "endpointConfigs")
	for _, e := range endpoints {
		endpoint := e.(map[string]any)
		endpoint["host"] = host
		endpoint["caBundle"] = map[string]any{"secretRef": map[string]any{"name": tlsSecret, "namespace": rtjNamespace, "key": "ca.crt"}}
	}
	if err := unstructured.SetNestedSlice(controller.Object, endpoints, "spec", "endpointConfigs"); err != nil {
		return err
	}
	_, err := c.Dynamic.Resource(compositeControllers).Create(ctx, controller, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (c *Cluster) removeController(ctx context.Context) error {
	err := c.Dynamic.Resource(compositeControllers).Delete(ctx, controllerName, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// accountKubeconfig is one of a service account.
func (c *Cluster) accountKubeconfig(ctx context.Context, namespace, account string, at Endpoint) (string, error) {
	lifetime := int64(24 * 60 * 60)
	token, err := c.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return c.kubeconfig(account, at, token.Status.Token)
}

// Kubectl runs kubectl as administrator and returns what it printed.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Programs.Path("kubectl"), append([]string{"--kubeconfig=" + c.Kubeconfig}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %v: %w\n%s", args, err, out)
	}
	return string(out), nil
}
