package plan

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := utiljson.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct{ was, desired, complete, partial string }{
		"equal":                   {`{"a":1,"b":{"c":[1]}}`, `{"a":1,"b":{"c":[1]}}`, `{}`, `{}`},
		"changed":                 {`{"a":1,"b":2}`, `{"a":3,"b":2}`, `{"a":3}`, `{"a":3}`},
		"added":                   {`{}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
		"removed":                 {`{"a":1,"b":2}`, `{"b":2}`, `{"a":null}`, `{}`},
		"removed inside":          {`{"a":{"b":1,"c":2}}`, `{"a":{"c":2}}`, `{"a":{"b":null}}`, `{}`},
		"emptied":                 {`{"a":{"b":1}}`, `{"a":{}}`, `{"a":{"b":null}}`, `{}`},
		"list is one value":       {`{"a":[{"n":1,"d":2}]}`, `{"a":[{"n":1}]}`, `{"a":[{"n":1}]}`, `{"a":[{"n":1}]}`},
		"order of a list counts":  {`{"a":[1,2]}`, `{"a":[2,1]}`, `{"a":[2,1]}`, `{"a":[2,1]}`},
		"null is absent":          {`{"a":1,"b":{}}`, `{"a":null,"b":{"c":null}}`, `{"a":null}`, `{}`},
		"null was absent":         {`{"a":null}`, `{}`, `{}`, `{}`},
		"nulls inside lists":      {`{"a":[{"b":null,"c":1}]}`, `{"a":[{"c":1}]}`, `{}`, `{}`},
		"no nulls are sent":       {`{}`, `{"a":{"b":null,"c":1},"l":[{"x":null}]}`, `{"a":{"c":1},"l":[{}]}`, `{"a":{"c":1},"l":[{}]}`},
		"numbers by value":        {`{"a":1,"b":1.5}`, `{"a":1.0,"b":1.5}`, `{}`, `{}`},
		"number is not its text":  {`{"a":1}`, `{"a":"1"}`, `{"a":"1"}`, `{"a":"1"}`},
		"object instead of value": {`{"a":1}`, `{"a":{"b":2}}`, `{"a":{"b":2}}`, `{"a":{"b":2}}`},
		"value instead of object": {`{"a":{"b":2}}`, `{"a":1}`, `{"a":1}`, `{"a":1}`},
		"false is not absent":     {`{}`, `{"a":false}`, `{"a":false}`, `{"a":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			for complete, want := range map[bool]string{true: c.complete, false: c.partial} {
				d := compare(parse(t, c.was), parse(t, c.desired), complete)
				if diff := cmp.Diff(parse(t, want), d.patch); diff != "" {
					t.Errorf("complete %v: %s", complete, diff)
				}
				if d.empty() != (want == `{}`) {
					t.Errorf("complete %v: empty is %v", complete, d.empty())
				}
			}
		})
	}
}

// The patch, applied by another implementation of RFC 7386, makes the desired out
// of the observed, whatever the two are.
func FuzzPatchMakesDesired(f *testing.F) {
	f.Add(`{"a":1,"b":{"c":[1,{"d":null}]}}`, `{"b":{"c":[2],"e":{}},"f":"x"}`)
	f.Add(`{"a":{"b":{"c":1}}}`, `{"a":{"b":1}}`)
	f.Add(`{"a":1}`, `{"a":{"b":null,"c":{"d":null}}}`)
	f.Fuzz(func(t *testing.T, wasText, desiredText string) {
		var was, desired map[string]any
		if utiljson.Unmarshal([]byte(wasText), &was) != nil || utiljson.Unmarshal([]byte(desiredText), &desired) != nil {
			return
		}
		before, _ := json.Marshal(was)
		patch, err := json.Marshal(compare(was, desired, true).patch)
		if err != nil {
			t.Fatal(err)
		}
		if after, _ := json.Marshal(was); string(after) != string(before) {
			t.Fatalf("the observed was modified: %s", after)
		}
		if was == nil {
			return
		}
		result, err := jsonpatch.MergePatch(before, patch)
		if err != nil {
			t.Fatalf("%s + %s: %v", before, patch, err)
		}
		if !equal(parse(t, string(result)), desired) && desired != nil {
			t.Errorf("%s + %s = %s, want %s", before, patch, result, desiredText)
		}
	})
}

func TestChildIsComparedInWhatAHookDecides(t *testing.T) {
	o := Observe(&unstructured.Unstructured{Object: parse(t, `{"apiVersion":"v1","kind":"X","metadata":{"name":"a","uid":"u","resourceVersion":"5",
		"labels":{"l":"1"},"annotations":{"foreign":"1","kubectl.kubernetes.io/last-applied-configuration":"{}"},
		"finalizers":["f"],"ownerReferences":[{"uid":"p"}],"managedFields":[{}]},"spec":{"a":1},"status":{"s":1}}`)})
	same := parse(t, `{"apiVersion":"v1","kind":"X","metadata":{"name":"a","labels":{"l":"1"},"annotations":{"foreign":"1"}},"spec":{"a":1}}`)
	if d := compareChild(o, same, true); !d.empty() {
		t.Errorf("system metadata, finalizers, owners, last-applied or status count as a difference: %v", d.patch)
	}
	without := parse(t, `{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"spec":{"a":1}}`)
	want := parse(t, `{"metadata":{"labels":{"l":null},"annotations":{"foreign":null}}}`)
	if diff := cmp.Diff(want, compareChild(o, without, true).patch); diff != "" {
		t.Error(diff)
	}
	if d := compareChild(o, without, false); !d.empty() {
		t.Errorf("a partial child removes: %v", d.patch)
	}
}

func TestFingerprintTellsDriftFromWhatIsUnreachable(t *testing.T) {
	desired := map[string]any{"cpu": "1000m"}
	state := NewMemory()
	known := compare(map[string]any{"cpu": "1"}, desired, true)
	if news := state.remember("u", known); !news {
		t.Error("the first difference is no news")
	}
	if news := state.remember("u", known); news {
		t.Error("the same difference is news again")
	}
	if !state.knows("u", compare(map[string]any{"cpu": "1"}, desired, true)) {
		t.Error("the known difference is not recognised")
	}
	if state.knows("u", compare(map[string]any{"cpu": "2"}, desired, true)) {
		t.Error("drift passes for the known difference")
	}
	if state.knows("v", known) {
		t.Error("another object's difference is known")
	}
}
