package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"rtj.dev/rtj/test/cluster/internal/manifest"
	"rtj.dev/rtj/test/cluster/internal/pki"
	"rtj.dev/rtj/test/cluster/internal/proc"
)

const (
	clusterDomain = "cluster.local"
	// dnsIP is the address of the cluster's DNS in its service range, as kubeadm
	// chooses it.
	dnsIP = "10.96.0.10"
)

// dnsRole is what CoreDNS may read, as kubeadm allows it.
const dnsRole = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:coredns"}
rules:
- {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:coredns"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects: [{kind: ServiceAccount, name: coredns, namespace: kube-system}]
`

func (c *Cluster) coreDNS() component {
	port := c.Ports[CoreDNS]
	return component{
		name: CoreDNS, port: port, grace: defaultGrace,
		spec: func() (proc.Spec, error) {
			return c.nodeProgram(CoreDNS, c.Programs.Path(CoreDNS), "-conf="+c.nodeConfig("Corefile"))
		},
		ready: c.answers(fmt.Sprintf("http://127.0.0.1:%d/ready", port), ""),
	}
}

func (c *Cluster) prepareCoreDNS(ctx context.Context) error {
	authority, err := pki.Open(c.path("pki"))
	if err != nil {
		return err
	}
	if err := issue(authority, c.Info, serviceAccount("coredns", "kube-system", "coredns")); err != nil {
		return err
	}
	apply, err := newApplier(c.RESTConfig)
	if err != nil {
		return err
	}
	objects, err := manifest.Parse([]byte(dnsRole))
	if err != nil {
		return err
	}
	if err := apply.all(ctx, objects); err != nil {
		return err
	}
	path := c.nodeConfig("Corefile")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return writeFile(path, []byte(corefile(c.Info)), 0o644)
}

// corefile is kubeadm's, without the names of the world outside.
func corefile(i Info) string {
	return fmt.Sprintf(`.:53 {
    bind %s
    errors
    ready 127.0.0.1:%d
    kubernetes %s in-addr.arpa {
        kubeconfig %s
        pods insecure
        ttl 30
    }
    cache 30 {
        disable success %s
        disable denial %s
    }
    loadbalance
}
`, dnsIP, i.Ports[CoreDNS], clusterDomain, i.kubeconfig("coredns"), clusterDomain, clusterDomain)
}
