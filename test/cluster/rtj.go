package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/test/cluster/internal/build"
	"rtj.dev/rtj/test/cluster/internal/manifest"
	"rtj.dev/rtj/test/cluster/internal/proc"
)

// installRTJ applies RTJ's CRDs and roles from the checkout. A user, where not
// empty, gets what the manifests give to RTJ's service account.
func installRTJ(ctx context.Context, apply *applier, root, user string) error {
	crds, err := readIfThere(filepath.Join(root, "api", "crd"))
	if err != nil {
		return err
	}
	if err := apply.crds(ctx, crds); err != nil {
		return err
	}
	objects, err := readIfThere(filepath.Join(root, "metacontroller", "manifests"))
	if err != nil {
		return err
	}
	var roles []*unstructured.Unstructured
	for _, u := range objects {
		if isAccess(u) {
			roles = append(roles, u)
		}
	}
	if user != "" {
		roles = manifest.Grant(roles, rtjNamespace, user)
	}
	return apply.all(ctx, roles)
}

// isAccess: the folder also holds CompositeControllers, which only an
// installed Metacontroller knows.
func isAccess(u *unstructured.Unstructured) bool {
	switch u.GroupVersionKind().Group + "/" + u.GetKind() {
	case "/Namespace", "/ServiceAccount",
		"rbac.authorization.k8s.io/ClusterRole", "rbac.authorization.k8s.io/ClusterRoleBinding",
		"rbac.authorization.k8s.io/Role", "rbac.authorization.k8s.io/RoleBinding":
		return true
	}
	return false
}

func readIfThere(dir string) ([]*unstructured.Unstructured, error) {
	objects, err := manifest.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return objects, err
}

func (c *Cluster) operatorPath() string { return c.path("bin", "rtj") }

// BuildRTJ builds the program rtj from the checkout and returns where it is.
func (c *Cluster) BuildRTJ(ctx context.Context) (string, error) {
	if err := build.Local(ctx, c.Options.Root, ".", c.operatorPath()); err != nil {
		return "", fmt.Errorf("build rtj: %w", err)
	}
	return c.operatorPath(), nil
}

// operator is `rtj run` from the checkout, as user "rtj".
func (c *Cluster) operator() component {
	port := c.Ports["operator-health"]
	return component{
		name: Operator, port: port, grace: defaultGrace,
		spec: func() (proc.Spec, error) {
			args := []string{
				"run", "--kubeconfig=" + c.RTJKubeconfig, "--http-address=" + loopback(port),
				fmt.Sprintf("--kueue-pod-integration=%t", slices.Contains(c.Options.KueueFrameworks, FrameworkPod)),
			}
			args = append(args, c.Options.OperatorArgs...)
			return proc.Spec{Name: Operator, Path: c.operatorPath(), Args: args, Dir: c.Dir}, nil
		},
		ready: c.answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", port), ""),
	}
}
