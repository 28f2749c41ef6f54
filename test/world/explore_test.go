package world

import "testing"

// A clone that goes the same way ends in the same world, and leaves the one that it
// was made of alone.
func TestClonesGoTheSameWay(t *testing.T) {
	for seed := range uint64(30) {
		w := New(drawn(seed))
		w.chaos()
		before := w.fingerprint()
		a, b := w.Clone(), w.Clone()
		a.calm()
		b.calm()
		if a.fingerprint() != b.fingerprint() {
			t.Errorf("seed %d: two clones went different ways", seed)
		}
		if w.fingerprint() != before {
			t.Errorf("seed %d: what happens in a clone changes the world that it was made of", seed)
		}
	}
}
