package harness

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/api/v1beta1"
)

func TestTwoAttemptsOfOneJobAtOnceAreSeen(t *testing.T) {
	pod := func(name, job, attempt string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{v1beta1.LabelUID: job, v1beta1.LabelAttempt: attempt}},
			Status:     corev1.PodStatus{Phase: phase},
		}
	}
	first, peer, second, other := pod("a-1-0", "a", "1", corev1.PodRunning), pod("a-1-1", "a", "1", corev1.PodRunning),
		pod("a-2-0", "a", "2", corev1.PodPending), pod("b-1-0", "b", "1", corev1.PodRunning)
	for name, c := range map[string]struct {
		end  func(*runtimes)
		want int
	}{
		"the first has ended":    {func(r *runtimes) { r.see(pod("a-1-0", "a", "1", corev1.PodFailed), true); r.see(peer, false) }, 0},
		"a pod of it still runs": {func(r *runtimes) { r.see(peer, false) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runtimes{live: map[types.UID]place{}}
			r.see(first, true)
			r.see(peer, true)
			r.see(other, true)
			c.end(r)
			r.see(second, true)
			if len(r.twice) != c.want {
				t.Errorf("want %d moments: %v", c.want, r.twice)
			}
		})
	}
}
