package applier

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

// told records events as text.
type told []string

func (t *told) Event(_ *unstructured.Unstructured, eventType, reason, message string) {
	*t = append(*t, eventType+" "+reason+" "+message)
}

func withConditions(t *testing.T, conditions string) *plan.Object {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte("status: {conditions: ["+conditions+"]}"), &object); err != nil {
		t.Fatal(err)
	}
	return plan.Observe(&unstructured.Unstructured{Object: object})
}

func TestEventsOfConditions(t *testing.T) {
	const (
		queued  = `{type: Ready, status: "False", reason: Waiting, message: no quota}`
		fine    = `{type: Stalled, status: "False", reason: AsExpected}`
		running = `{type: Ready, status: "True", reason: Running}`
	)
	for name, c := range map[string]struct {
		before, after string
		want          []string
	}{
		"the first status: Ready speaks, and what is True": {"", queued + "," + fine + `, {type: Reachable, status: "True", reason: Read}`,
			[]string{"Normal Waiting Ready=False: no quota", "Normal Read Reachable=True"}},
		"another status":        {queued, running, []string{"Normal Running Ready=True"}},
		"another reason":        {queued, `{type: Ready, status: "False", reason: Starting, message: pods}`, []string{"Normal Starting Ready=False: pods"}},
		"only another message":  {queued, `{type: Ready, status: "False", reason: Waiting, message: still no quota}`, nil},
		"the same":              {queued + "," + fine, queued + "," + fine, nil},
		"one that disappears":   {queued + "," + fine, queued, nil},
		"one that is not there": {queued, "null, {status: \"True\"}, 7", nil},
		"one story, told once, by the warning": {queued + "," + fine, `{type: Ready, status: "False", reason: Failed, message: gave up}, {type: Stalled, status: "True", reason: Failed, message: gave up}`,
			[]string{"Warning Failed Stalled=True: gave up"}},
		"one reason, two messages": {queued, `{type: Done, status: "True", reason: Ended, message: all of it}, {type: Ready, status: "True", reason: Ended}`,
			[]string{"Normal Ended Ready=True"}},
		"bad news by the annotation": {`{type: Reachable, status: "True", reason: Read}`, `{type: Reachable, status: "False", reason: Down, message: refused}`,
			[]string{"Warning Down Reachable=False: refused"}},
		"Reconciling beside Ready": {queued + `, {type: Reconciling, status: "True", reason: Waiting}`, running + `, {type: Reconciling, status: "False", reason: Settled}`,
			[]string{"Normal Running Ready=True"}},
		"Reconciling alone": {"", `{type: Reconciling, status: "True", reason: Busy}`, []string{"Normal Busy Reconciling=True"}},
		"no reason":         {"", `{type: Done, status: "True"}`, []string{"Normal Done Done=True"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got told
			a := &Applier{events: &got, warnings: map[string]string{"Stalled": "True", "Reachable": "False"}}
			a.reportConditions(withConditions(t, c.before), withConditions(t, c.after))
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// A message is one line, bounded, and never cut within a character.
func TestEventMessage(t *testing.T) {
	if got := EventMessage("a\n\tb  c"); got != "a b c" {
		t.Errorf("got %q", got)
	}
	for shift := range 3 {
		got := EventMessage(strings.Repeat("x", shift) + strings.Repeat("é", MaxEventMessage))
		if len(got) > MaxEventMessage || !utf8.ValidString(got) || !strings.HasSuffix(got, " ...") {
			t.Errorf("%d bytes, ends with %q", len(got), got[len(got)-8:])
		}
	}
}
