//go:build e2e

package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What docs/install.md has a person apply is taken by a real API server as it is,
// without TLS and with.
func TestInstallationForMetacontrollerApplies(t *testing.T) {
	t.Parallel()
	if err := world.InstallMetacontrollerKinds(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"manifests", "tls"} {
		t.Run(folder, func(t *testing.T) {
			out, err := world.Kubectl(t.Context(), "apply", "--dry-run=server", "--validate=strict", "-o", "name",
				"-k", filepath.Join(world.Options.Root, "metacontroller", folder))
			if err != nil {
				t.Fatal(err)
			}
			applied := strings.Fields(out)
			for _, want := range []string{
				"namespace/rtj-system", "serviceaccount/rtj-hooks", "clusterrole.rbac.authorization.k8s.io/rtj-hooks",
				"clusterrole.rbac.authorization.k8s.io/rtj-metacontroller", "clusterrolebinding.rbac.authorization.k8s.io/rtj-hooks",
				"deployment.apps/rtj-hooks", "poddisruptionbudget.policy/rtj-hooks", "service/rtj-hooks",
				"compositecontroller.metacontroller.k8s.io/rtj",
			} {
				if !slices.Contains(applied, want) {
					t.Errorf("%s is not among what is applied: %v", want, applied)
				}
			}
		})
	}
}
