//go:build e2e

package e2e

import (
	"context"
	"os"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/test/harness"
)

// A Metacontroller that applies server-side is found out by what it wrote first,
// gets no further answer, and says why in an event of the job. Run as it should
// be, and given its objects back as the event says, it goes on.
func TestServerSideApplyIsRefused(t *testing.T) {
	first, _ := bothRunners(t)
	wrong := world.NewMetacontroller(os.Getenv(envMetacontroller))
	wrong.Args = []string{"--apply-strategy=server-side-apply"}
	t.Cleanup(func() {
		if err := wrong.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := newScene(t, 2)
	s.must(first.Stop())
	s.must(wrong.Start(t.Context(), harness.Endpoint{}))
	// As Metacontroller's own manifests do; the least role allows no patch.
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "metacontroller", Name: "metacontroller"}},
	}
	_, err := s.Kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	s.must(err)
	t.Cleanup(func() {
		_ = s.Kube.RbacV1().ClusterRoleBindings().Delete(context.Background(), s.Name, metav1.DeleteOptions{})
	})
	j := harness.Job{Name: "job", Steps: 30}
	s.create(j)
	s.must(harness.Until(t.Context(), patience, "an event says what is wrong", func(ctx context.Context) (bool, string, error) {
		events, err := s.Kube.CoreV1().Events(s.Name).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=job"})
		if err != nil {
			return false, "", err
		}
		for _, e := range events.Items {
			if e.Reason == "SyncError" && strings.Contains(e.Message, "--apply-strategy=server-side-apply") {
				t.Log(e.Message)
				return true, "", nil
			}
		}
		return false, "no such event", nil
	}))
	s.launchedNothing(s.job("job"), 0)

	s.must(wrong.Stop())
	wrong.Args = nil
	s.must(wrong.Start(t.Context(), harness.Endpoint{}))
	_, err = world.Kubectl(t.Context(), "annotate", "--overwrite", "-A", "-l", "training.rtj.dev/uid", "workloads.kueue.x-k8s.io,jobsets.jobset.x-k8s.io,configmaps",
		"metacontroller.k8s.io/last-applied-configuration={}")
	s.must(err)
	s.succeeds(j)
}
