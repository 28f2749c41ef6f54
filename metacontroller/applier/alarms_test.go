package applier

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestAlarms(t *testing.T) {
	p, q := types.NamespacedName{Name: "p"}, types.NamespacedName{Name: "q"}
	synctest.Test(t, func(t *testing.T) {
		rung := make(chan types.NamespacedName, 10)
		a := newAlarms(func(parent types.NamespacedName) { rung <- parent })
		expect := func(what string, want ...types.NamespacedName) {
			t.Helper()
			synctest.Wait()
			for _, w := range want {
				select {
				case got := <-rung:
					if got != w {
						t.Errorf("%s: %s rang, want %s", what, got, w)
					}
				default:
					t.Errorf("%s: %s did not ring", what, w)
				}
			}
			if len(rung) > 0 {
				t.Errorf("%s: %s rang too", what, <-rung)
			}
		}
		a.set(p, 0)
		expect("no delay", p)

		a.set(p, time.Hour)
		a.set(p, time.Second)
		a.set(p, time.Minute)
		time.Sleep(time.Second)
		expect("the earliest", p)
		time.Sleep(2 * time.Hour)
		expect("the later ones are gone")

		a.set(p, time.Second)
		a.set(q, time.Second)
		a.cancel(p)
		time.Sleep(time.Second)
		expect("one was taken back", q)
		if a.len() != 0 {
			t.Errorf("%d are kept", a.len())
		}

		a.set(p, time.Second)
		a.close()
		a.set(q, time.Second)
		time.Sleep(time.Minute)
		expect("after the end")
		if a.len() != 0 {
			t.Errorf("%d are kept after the end", a.len())
		}
	})
}
