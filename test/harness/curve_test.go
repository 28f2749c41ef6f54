package harness

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
)

func TestSameCurve(t *testing.T) {
	want := []Loss{{1, "0x1.0p+0"}, {2, "0x1.8p-1"}, {3, "0x1.0p-1"}}
	for name, c := range map[string]struct {
		got  []Loss
		says string
	}{
		"equal":           {got: slices.Clone(want)},
		"the last bit":    {got: []Loss{want[0], {2, "0x1.8000000000001p-1"}, want[2]}, says: "loss of step 2"},
		"a missing step":  {got: []Loss{want[0], want[2]}, says: "step 2 is missing"},
		"ends too soon":   {got: want[:2], says: "step 3 is missing"},
		"goes on further": {got: append(slices.Clone(want), Loss{4, "0x1p-2"}), says: "step 4 is more"},
		"nothing":         {says: "step 1 is missing"},
	} {
		err := SameCurve(want, c.got)
		switch {
		case err == nil && c.says != "":
			t.Errorf("%s: taken for equal", name)
		case err != nil && (c.says == "" || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseLosses(t *testing.T) {
	got, err := ParseLosses("1 0x1.8p+0\n2 -0x1p-3\n")
	if want := []Loss{{1, "0x1.8p+0"}, {2, "-0x1p-3"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := ParseLosses("1\n"); err == nil {
		t.Error("half a line is taken for a loss")
	}
}

func TestStatusChange(t *testing.T) {
	before := &v1beta1.ResumableTrainingJob{}
	before.Status.Phase = v1beta1.PhaseRunning
	before.Status.Ledger = []v1beta1.LedgerEntry{{Attempt: 1}}
	before.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True"}}
	if got := StatusChange(before, before.DeepCopy()); got != "" {
		t.Errorf("no change is shown as %q", got)
	}
	after := before.DeepCopy()
	after.Status.Phase = v1beta1.PhaseDraining
	after.Status.Conditions[0].Status = "False"
	after.Status.Ledger[0].YieldCause = v1beta1.CausePaused
	want := `conditions[Ready].status: "False"; ledger[1].yieldCause: "Paused"; phase: "Draining"`
	if got := StatusChange(before, after); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
