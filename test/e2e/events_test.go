//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

// events are those about a job, in the order in which they were made, each as
// type, reason and message.
func (s *scene) events(job string) []string {
	s.t.Helper()
	list, err := s.Kube.CoreV1().Events(s.Name).List(s.t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=ResumableTrainingJob,involvedObject.name=" + job,
	})
	s.must(err)
	// Their names end with the time at which they were made, in nanoseconds.
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return strings.Compare(a.Name, b.Name) })
	var lines []string
	for _, e := range list.Items {
		lines = append(lines, fmt.Sprintf("%s %s %s", e.Type, e.Reason, e.Message))
	}
	return lines
}

// The events of a job tell its life, in order.
func TestEventsTellTheLifeOfAJob(t *testing.T) {
	t.Parallel()
	if runner != embedded {
		t.Skip("Metacontroller makes no events of conditions")
	}
	s := newScene(t, 2)
	low := harness.Job{Name: "low", Steps: 150, Priority: harness.Low}
	s.create(low)
	s.untilAttempt("low", 1)
	s.untilStep("low", 1, 20)
	s.create(harness.Job{Name: "high", Steps: 20, Priority: harness.High})
	s.succeeds(low)

	story := []string{
		"Normal " + v1beta1.ReasonQuotaReserved + " QuotaReserved=True: by Workload low-w1",
		"Normal " + string(v1beta1.CausePreempted) + " Ready=False: ",
		"Normal " + v1beta1.ReasonNotYielding + " Yielding=False",
		"Normal " + v1beta1.ReasonFinished + " Ready=True",
	}
	s.must(harness.Until(t.Context(), patience, "the story is told", func(context.Context) (bool, string, error) {
		told, rest := s.events("low"), story
		for _, line := range told {
			if len(rest) > 0 && strings.HasPrefix(line, rest[0]) {
				rest = rest[1:]
			}
		}
		return len(rest) == 0, strings.Join(told, "\n"), nil
	}))
	told := s.events("low")
	t.Logf("%d events:\n%s", len(told), strings.Join(told, "\n"))
	for _, line := range told {
		if strings.HasPrefix(line, corev1.EventTypeWarning) {
			t.Errorf("a warning in a good life: %s", line)
		}
	}
}

// What a person has to mend is a Warning.
func TestEventsWarnOfWhatAPersonMustMend(t *testing.T) {
	t.Parallel()
	if runner != embedded {
		t.Skip("Metacontroller makes no events of conditions")
	}
	s := newScene(t, 2)
	s.must(s.Kube.CoreV1().Secrets(s.Name).Delete(t.Context(), harness.SecretName, metav1.DeleteOptions{}))
	s.create(harness.Job{Name: "job", Steps: 5})
	s.must(harness.Until(t.Context(), patience, "there is a Warning", func(context.Context) (bool, string, error) {
		told := s.events("job")
		return slices.ContainsFunc(told, func(line string) bool {
			return strings.HasPrefix(line, "Warning "+v1beta1.ReasonSecretNotFound) && strings.Contains(line, harness.SecretName)
		}), strings.Join(told, "\n"), nil
	}))
}
