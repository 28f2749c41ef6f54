package figures

import (
	"encoding/json"
	"testing"
)

func TestRead(t *testing.T) {
	want := Figure{"eviction to workers knowing", "one job, 2 pods", 0.25, "s"}
	line, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	// A runner of tests may indent it.
	if got, ok := Read("    " + Prefix + string(line)); !ok || got != want {
		t.Errorf("got %+v, %t", got, ok)
	}
	for _, other := range []string{"", "ok  	rtj.dev/rtj/test/e2e	1.2s", Prefix, Prefix + "0.25 s", string(line)} {
		if got, ok := Read(other); ok {
			t.Errorf("%q is read as %+v", other, got)
		}
	}
}
