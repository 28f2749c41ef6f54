// Package build makes the programs of the local cluster from Go modules and
// keeps them, with the manifests that belong to them, in a cache outside the
// source tree.
package build

import "time"

// kubeVersion is compiled into the Kubernetes programs: Kueue refuses a server
// whose version it cannot parse.
const kubeVersion = "v1.36.3"

// set is a module that pins programs. One set is built from one module, so
// that its programs share compiled packages.
type set struct {
	name string
	// module is the folder of the module in the source tree.
	module   string
	ldflags  string
	programs []program
	copies   []manifestCopy
}

type program struct {
	name string
	pkg  string
	// cold is how long the build takes after the ones above it, on two cores
	// with an empty compile cache; it only feeds the progress line.
	cold time.Duration
}

// manifestCopy says which files of a module are kept beside the programs.
type manifestCopy struct {
	module string
	from   string // a folder or file in the module
	to     string // below the set's manifests folder
}

const stripped = "-s -w"

func controlPlane() set {
	const version = "k8s.io/component-base/version."
	return set{
		name:   "controlplane",
		module: "test/controlplane",
		ldflags: stripped + " -X " + version + "gitVersion=" + kubeVersion +
			" -X " + version + "gitMajor=1 -X " + version + "gitMinor=36",
		programs: []program{
			{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", 345 * time.Second},
			{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", 85 * time.Second},
			{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", 6 * time.Second},
			{"kubectl", "k8s.io/kubernetes/cmd/kubectl", 20 * time.Second},
			{"kueue", "sigs.k8s.io/kueue/cmd/kueue", 76 * time.Second},
			{"jobset", "sigs.k8s.io/jobset", 5 * time.Second},
			{"kwok", "sigs.k8s.io/kwok/cmd/kwok", 17 * time.Second},
			{"etcd", "go.etcd.io/etcd/server/v3", 8 * time.Second},
		},
		copies: []manifestCopy{
			{"sigs.k8s.io/kueue", "config/components/crd/bases", "kueue/crd"},
			{"sigs.k8s.io/kueue", "config/components/rbac", "kueue/rbac"},
			{"sigs.k8s.io/kueue", "config/components/webhook/manifests.yaml", "kueue/webhook.yaml"},
			{"sigs.k8s.io/jobset", "config/components/crd/bases", "jobset/crd"},
			{"sigs.k8s.io/jobset", "config/components/rbac", "jobset/rbac"},
			{"sigs.k8s.io/jobset", "config/components/webhook/manifests.yaml", "jobset/webhook.yaml"},
			{"sigs.k8s.io/kwok", "kustomize/rbac", "kwok/rbac"},
			{"sigs.k8s.io/kwok", "kustomize/stage/node/fast/node-initialize.yaml", "kwok/node-initialize.yaml"},
			{"sigs.k8s.io/kwok", "kustomize/stage/pod/fast/pod-ready.yaml", "kwok/pod-ready.yaml"},
		},
	}
}

// kubelet is a set of its own, since few clusters have a real one. It comes from
// the control plane's module, whose compiled packages it shares.
func kubelet() set {
	s := controlPlane()
	s.name, s.copies = "kubelet", nil
	s.programs = []program{{"kubelet", "k8s.io/kubernetes/cmd/kubelet", 60 * time.Second}}
	return s
}

// coreDNS is what answers the pods of a kubelet.
func coreDNS() set {
	return set{
		name:     "coredns",
		module:   "test/coredns",
		ldflags:  stripped,
		programs: []program{{"coredns", ".", 60 * time.Second}},
	}
}

func s3Server() set {
	return set{
		name:    "s3server",
		module:  "test/s3server",
		ldflags: stripped,
		programs: []program{
			{"versitygw", "github.com/versity/versitygw/cmd/versitygw", 55 * time.Second},
		},
	}
}

// moduleVersions are the modules whose versions a cluster reports.
var moduleVersions = map[string]string{
	"k8s.io/kubernetes":            "kubernetes",
	"sigs.k8s.io/kueue":            "kueue",
	"sigs.k8s.io/jobset":           "jobset",
	"sigs.k8s.io/kwok":             "kwok",
	"go.etcd.io/etcd/server/v3":    "etcd",
	"github.com/versity/versitygw": "versitygw",
	"github.com/coredns/coredns":   "coredns",
}
