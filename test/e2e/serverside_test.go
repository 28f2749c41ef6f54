//go:build e2e

package e2e

import (
	"context"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/test/harness"
)

// A Metacontroller that applies server-side is found out by what it wrote first,
// gets no further answer, and says why in an event of the job. Run as it should
// be, and given its objects back as the event says, it goes on.
func TestServerSideApplyIsRefused(t *testing.T) {
	first, _ := bothRunners(t)
	s := newScene(t, 2)
	s.must(first.Stop())
	wrong := world.NewMetacontroller(os.Getenv(envMetacontroller))
	wrong.Args = []string{"--apply-strategy=server-side-apply"}
	t.Cleanup(func() {
		if err := wrong.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.must(wrong.Start(t.Context(), harness.Endpoint{}))
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
	_, err := world.Kubectl(t.Context(), "annotate", "-A", "-l", "controller-uid", "workloads.kueue.x-k8s.io,jobsets.jobset.x-k8s.io,configmaps",
		"metacontroller.k8s.io/last-applied-configuration={}")
	s.must(err)
	s.succeeds(j)
}
