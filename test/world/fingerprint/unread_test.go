package fingerprint

import "testing"

// The rules that were chosen for an object are bits, and the highest is timeless.
func TestRulesFitIntoTheBits(t *testing.T) {
	if len(rules) > 63 {
		t.Errorf("%d rules, and bits for 63", len(rules))
	}
}
