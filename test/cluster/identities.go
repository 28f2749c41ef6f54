package cluster

import (
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"rtj.dev/rtj/test/cluster/internal/pki"
)

const (
	kueueNamespace  = "kueue-system"
	jobsetNamespace = "jobset-system"
	rtjNamespace    = "rtj-system"

	// rtjUser is who RTJ's own clients are. The audit log is counted by it.
	rtjUser = "rtj"

	// serviceIP is the address of the Service "kubernetes", the first of the
	// cluster's service range.
	serviceRange = "10.96.0.0/16"
	serviceIP    = "10.96.0.1"
)

// identity is a client of the API server with a certificate of its own.
type identity struct {
	name   string
	user   string
	groups []string
}

// identities: Kueue, JobSet and KWOK authenticate as the service accounts of
// their own manifests, so that upstream RBAC, and RTJ's role for Kueue, apply
// to them word for word.
func identities() []identity {
	return []identity{
		{"admin", "admin", []string{"system:masters"}},
		{"kube-controller-manager", "system:kube-controller-manager", nil},
		{"kube-scheduler", "system:kube-scheduler", nil},
		serviceAccount("kueue", kueueNamespace, "kueue-controller-manager"),
		serviceAccount("jobset", jobsetNamespace, "jobset-controller-manager"),
		serviceAccount("kwok", "kube-system", "kwok-controller"),
		{"rtj", rtjUser, nil},
		// The API server as a client of nodes, and of etcd.
		{"apiserver-kubelet-client", "kube-apiserver-kubelet-client", []string{"system:masters"}},
		{"apiserver-etcd-client", "kube-apiserver-etcd-client", nil},
	}
}

func serviceAccount(name, namespace, account string) identity {
	return identity{name, "system:serviceaccount:" + namespace + ":" + account,
		[]string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}}
}

// issueIdentities makes the certificates and kubeconfigs that are missing.
func issueIdentities(info Info) error {
	authority, err := pki.Open(info.path("pki"))
	if err != nil {
		return err
	}
	hosts := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", serviceIP}
	if _, err := authority.Serving("apiserver", hosts...); err != nil {
		return err
	}
	if _, err := authority.Serving("loopback"); err != nil {
		return err
	}
	if _, _, err := authority.SigningKey("service-accounts"); err != nil {
		return err
	}
	for _, id := range identities() {
		if err := issue(authority, info, id); err != nil {
			return err
		}
	}
	// Kueue and JobSet want their serving certificate under fixed names.
	for _, dir := range []string{info.path("config", "webhook-certs"), kueueCertDir(info)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		for from, to := range map[string]string{"loopback.crt": "tls.crt", "loopback.key": "tls.key"} {
			data, err := os.ReadFile(info.path("pki", from))
			if err != nil {
				return err
			}
			if err := writeFile(dir+"/"+to, data, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

func issue(authority *pki.Authority, info Info, id identity) error {
	pair, err := authority.Client(id.name, id.user, id.groups...)
	if err != nil {
		return err
	}
	path := info.kubeconfig(id.name)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return writeKubeconfig(path, info.APIServer, authority.CertFile(), pair, id.name)
}

// kubeconfig is the path of a client's kubeconfig: beside cluster.json those
// that people and RTJ use, beside the certificates the others.
func (i Info) kubeconfig(name string) string {
	switch name {
	case "admin":
		return i.Kubeconfig
	case "rtj":
		return i.RTJKubeconfig
	default:
		return i.path("pki", name+".kubeconfig")
	}
}

// writeKubeconfig writes one that needs no other file.
func writeKubeconfig(path, server, caFile string, pair pki.Pair, user string) error {
	var content [3][]byte
	for i, file := range []string{caFile, pair.Cert, pair.Key} {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		content[i] = data
	}
	const name = "rtj-local"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: content[0]}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: content[1], ClientKeyData: content[2]}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return writeFile(path, data, 0o600)
}
