package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"rtj.dev/rtj/test/cluster/internal/proc"
)

// component is one managed process of a cluster.
type component struct {
	name string
	port int
	spec func() (proc.Spec, error)
	// ready is nil once the component serves.
	ready func(context.Context) error
	// grace is how long it may take to end by itself before SIGKILL.
	grace time.Duration
}

// Names of the components that every cluster has. Process nodes are called
// process-0, process-1, ...
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kueue             = "kueue"
	JobSet            = "jobset"
	Kwok              = "kwok"
	S3                = "s3"
	Operator          = "operator"
)

const defaultGrace = 5 * time.Second

func (c *Cluster) etcd() component {
	port, peer := c.Ports["etcd"], c.Ports["etcd-peer"]
	client := fmt.Sprintf("https://127.0.0.1:%d", port)
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", peer)
	return component{
		name: Etcd, port: port, grace: defaultGrace,
		spec: c.program("etcd",
			"--data-dir="+c.path("etcd"),
			"--listen-client-urls="+client, "--advertise-client-urls="+client,
			"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL,
			"--initial-cluster=default="+peerURL,
			"--cert-file="+c.pki("loopback.crt"), "--key-file="+c.pki("loopback.key"),
			"--trusted-ca-file="+c.ClusterCA, "--client-cert-auth",
			// Nothing here must survive a power cut, and fsync is what is slow.
			"--unsafe-no-fsync", "--log-level=warn",
			"--quota-backend-bytes=4294967296", "--auto-compaction-retention=10m"),
		ready: c.answers(client+"/readyz", "apiserver-etcd-client"),
	}
}

func (c *Cluster) apiServer() component {
	port := c.Ports["kube-apiserver"]
	seconds := func(d time.Duration) string { return fmt.Sprintf("%d", int(d.Seconds())) }
	return component{
		name: APIServer, port: port, grace: defaultGrace,
		spec: c.program("kube-apiserver",
			fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", c.Ports["etcd"]),
			"--etcd-cafile="+c.ClusterCA,
			"--etcd-certfile="+c.pki("apiserver-etcd-client.crt"), "--etcd-keyfile="+c.pki("apiserver-etcd-client.key"),
			"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
			"--tls-cert-file="+c.pki("apiserver.crt"), "--tls-private-key-file="+c.pki("apiserver.key"),
			"--client-ca-file="+c.ClusterCA,
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file="+c.pki("service-accounts.pub"),
			"--service-account-signing-key-file="+c.pki("service-accounts.key"),
			"--service-cluster-ip-range="+serviceRange,
			// Endpoints may not be loopback addresses, and there are no others.
			"--endpoint-reconciler-type=none",
			"--kubelet-client-certificate="+c.pki("apiserver-kubelet-client.crt"),
			"--kubelet-client-key="+c.pki("apiserver-kubelet-client.key"),
			"--kubelet-certificate-authority="+c.ClusterCA,
			"--kubelet-preferred-address-types=InternalIP",
			"--default-not-ready-toleration-seconds="+seconds(c.Options.PodEvictionDelay),
			"--default-unreachable-toleration-seconds="+seconds(c.Options.PodEvictionDelay),
			"--audit-policy-file="+c.auditPolicyFile(),
			"--audit-log-path="+c.AuditLog, "--audit-log-format=json",
			"--audit-log-maxsize=200", "--audit-log-maxbackup=2",
			"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
			"--allow-privileged=true", "--profiling=false"),
		ready: c.answers(c.APIServer+"/readyz", "admin"),
	}
}

func (c *Cluster) controllerManager() component {
	port := c.Ports["kube-controller-manager"]
	return component{
		name: ControllerManager, port: port, grace: defaultGrace,
		spec: c.program("kube-controller-manager",
			"--kubeconfig="+c.kubeconfig("kube-controller-manager"),
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
			"--tls-cert-file="+c.pki("loopback.crt"), "--tls-private-key-file="+c.pki("loopback.key"),
			"--service-account-private-key-file="+c.pki("service-accounts.key"),
			"--root-ca-file="+c.ClusterCA, "--use-service-account-credentials=true",
			"--controllers="+c.controllers(),
			"--node-monitor-period=2s", "--node-monitor-grace-period="+c.Options.NodeMonitorGracePeriod.String(),
			// A cluster of a few nodes counts as sick when one is lost, and
			// evictions would stop: the tests lose nodes on purpose.
			"--unhealthy-zone-threshold=0.99", "--node-eviction-rate=10",
			"--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000",
			"--concurrent-job-syncs=20", "--profiling=false"),
		ready: c.answers(fmt.Sprintf("https://127.0.0.1:%d/healthz", port), ""),
	}
}

// controllers: the three of endpoints would refuse the loopback addresses of
// process nodes' pods. A kubelet's pods have others, and find each other by them.
func (c *Cluster) controllers() string {
	if c.Options.KubeletNode {
		return "*"
	}
	return "*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller"
}

func (c *Cluster) scheduler() component {
	port := c.Ports["kube-scheduler"]
	return component{
		name: Scheduler, port: port, grace: defaultGrace,
		spec: c.program("kube-scheduler",
			"--kubeconfig="+c.kubeconfig("kube-scheduler"),
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
			"--tls-cert-file="+c.pki("loopback.crt"), "--tls-private-key-file="+c.pki("loopback.key"),
			"--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000", "--profiling=false"),
		ready: c.answers(fmt.Sprintf("https://127.0.0.1:%d/readyz", port), ""),
	}
}

func (c *Cluster) s3() component {
	port := c.Ports["s3"]
	return component{
		name: S3, port: port, grace: defaultGrace,
		spec: func() (proc.Spec, error) {
			access, secret, err := c.s3Keys()
			if err != nil {
				return proc.Spec{}, err
			}
			if err := os.MkdirAll(c.path("s3"), 0o755); err != nil {
				return proc.Spec{}, err
			}
			return proc.Spec{
				Name: S3, Path: c.Programs.Path("versitygw"), Dir: c.Dir,
				Args: []string{"--port", fmt.Sprintf("127.0.0.1:%d", port), "--region", c.Info.S3.Region,
					"--health", "/health", "--quiet", "posix", c.path("s3")},
				// Keys in the environment do not show in a list of processes.
				Env: []string{"ROOT_ACCESS_KEY_ID=" + access, "ROOT_SECRET_ACCESS_KEY=" + secret},
			}, nil
		},
		ready: c.answers(fmt.Sprintf("http://127.0.0.1:%d/health", port), ""),
	}
}

func (c *Cluster) s3Keys() (access, secret string, err error) {
	a, err := os.ReadFile(c.Info.S3.AccessKeyFile)
	if err != nil {
		return "", "", err
	}
	s, err := os.ReadFile(c.Info.S3.SecretKeyFile)
	if err != nil {
		return "", "", err
	}
	return strings.TrimSpace(string(a)), strings.TrimSpace(string(s)), nil
}

func (c *Cluster) pki(file string) string { return c.path("pki", file) }

// program makes the spec of a program of the cache.
func (c *Cluster) program(name string, args ...string) func() (proc.Spec, error) {
	return func() (proc.Spec, error) {
		return proc.Spec{Name: name, Path: c.Programs.Path(name), Args: args, Dir: c.Dir}, nil
	}
}

// answers is a readiness check: a GET that must be answered with 200. With the
// name of an identity it presents that client certificate.
func (c *Cluster) answers(url, client string) func(context.Context) error {
	return func(ctx context.Context) error {
		http, err := c.httpClient(client)
		if err != nil {
			return err
		}
		defer http.CloseIdleConnections()
		return get(ctx, http, url)
	}
}

func (c *Cluster) httpClient(client string) (*http.Client, error) {
	ca, err := os.ReadFile(c.ClusterCA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(ca) {
		return nil, errors.New("the cluster's root certificate cannot be read")
	}
	if client != "" {
		pair, err := tls.LoadX509KeyPair(c.pki(client+".crt"), c.pki(client+".key"))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{TLSClientConfig: config}}, nil
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 2048))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
