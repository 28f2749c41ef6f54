package contract

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestSyncResponseRoundTrip(t *testing.T) {
	for name, want := range map[string]*SyncResponse{
		"empty": {},
		"full": {
			Status:             json.RawMessage(`{"phase":"Running"}`),
			Children:           []json.RawMessage{json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`), json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`)},
			ResyncAfterSeconds: 0.25,
			Finalized:          true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeSyncResponse(want.AppendJSON(nil))
			if err != nil {
				t.Fatal(err)
			}
			if IsNull(got.Status) {
				got.Status = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSyncResponseRefusals(t *testing.T) {
	for body, want := range map[string]string{
		`null`:                                    "want an object, got null",
		`{"children":[null]}`:                     "children[0]: want an object, got null",
		`{"children":[{},null]}`:                  "children[1]: want an object, got null",
		`{"children":["a"]}`:                      "children[0]: want an object, got a string",
		`{"children":{}}`:                         "children: want a list, got an object",
		`{"children":[],"labels":{}}`:             `unknown field "labels"`,
		`{"status":{},"status":{}}`:               `"status" occurs twice`,
		`{"status":"ok"}`:                         "status: want an object, got a string",
		`{"resyncAfterSeconds":"5"}`:              "resyncAfterSeconds: want a number, got a string",
		`{"resyncAfterSeconds":1e999}`:            "resyncAfterSeconds: number out of range",
		`{"finalized":1}`:                         "finalized: want a boolean, got a number",
		`{"error":"x"}`:                           `unknown field "error"`,
		`{"status":{"a":{"b":1,"b":2}}}`:          `status.a: "b" occurs twice`,
		`{"status":{"a":[0,{"b":1,"\u0062":2}]}}`: `status.a[1]: "b" occurs twice`,
		`{"children":[{"apiVersion":"v1","kind":"C","metadata":{"name":"a","labels":{"x":"1","x":"2"}}}]}`: `children[0].metadata.labels: "x" occurs twice`,
		`{} {}`: "data after the end of the message, at offset 3",
		`{"children":[{"kind":"ConfigMap","metadata":{"name":"a"}}]}`:                                                                  "children[0].apiVersion: missing",
		`{"children":[{"apiVersion":"v1","metadata":{"name":"a"}}]}`:                                                                   "children[0].kind: missing",
		`{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}]}`:                                                          "children[0].metadata.name: missing",
		`{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"a-"}}]}`:                                       "children[0].metadata.name: missing: generateName makes a new object at each sync, name the child",
		`{"children":[{"apiVersion":"v1","kind":"C","metadata":{"name":"a"}},{"apiVersion":"v1","kind":"C","metadata":{"name":"a"}}]}`: "children[1]: C.v1 a occurs twice",
	} {
		if _, err := DecodeSyncResponse([]byte(body)); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", body, err, want)
		}
	}
}

// null in a field is what other languages make of a value that is not set.
func TestNullFieldsAreAsIfNotThere(t *testing.T) {
	got, err := DecodeSyncResponse([]byte(`{"status":null,"children":null,"resyncAfterSeconds":null,"finalized":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if !IsNull(got.Status) || got.Children != nil || got.ResyncAfterSeconds != 0 || got.Finalized {
		t.Errorf("got %+v", got)
	}
}

func TestDecodeSyncResponseLoosely(t *testing.T) {
	const child = `{"apiVersion":"v1","kind":"C","metadata":{"name":"a"}}`
	for body, c := range map[string]struct {
		want       *SyncResponse
		passedOver []string
	}{
		`{}`: {&SyncResponse{}, nil},
		`{"labels":{},"resyncAfterSeconds":2,"x":null}`: {&SyncResponse{ResyncAfterSeconds: 2}, []string{`unknown field "labels"`, `unknown field "x"`}},
		// The last one counts, as a whole.
		`{"children":[` + child + `],"finalized":true,"children":[],"finalized":null}`: {&SyncResponse{}, []string{`"children" occurs twice`, `"finalized" occurs twice`}},
		`{"children":[` + child + `],"status":{"a":1,"a":2}}`: {&SyncResponse{
			Status: json.RawMessage(`{"a":1,"a":2}`), Children: []json.RawMessage{json.RawMessage(child)},
		}, []string{`status: "a" occurs twice`}},
	} {
		got, passedOver, err := DecodeSyncResponseLoosely([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if len(got.Children) == 0 {
			got.Children = nil
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
		var reasons []string
		for _, e := range passedOver {
			reasons = append(reasons, e.Error())
		}
		if diff := cmp.Diff(c.passedOver, reasons); diff != "" {
			t.Errorf("%s: passed over: %s", body, diff)
		}
	}
}

func TestDecodeCustomizeResponseLoosely(t *testing.T) {
	rule := RelatedResourceRule{APIVersion: "v1", Resource: "pods"}
	for body, want := range map[string]*CustomizeResponse{
		`{}`:                              {},
		`{"relatedResources":null,"x":1}`: {},
		`{"relatedResources":[{"apiVersion":"v1","resource":"pods","kind":"Pod"}],"version":"v1"}`: {RelatedResources: []RelatedResourceRule{rule}},
	} {
		got, _, err := DecodeCustomizeResponseLoosely([]byte(body))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", body, err, diff)
		}
	}
	for _, body := range []string{``, `null`, `{"error":"x"}`, `{"relatedResources":[{"apiVersion":"v1"}]}`, `{"relatedResources":{}}`} {
		if _, _, err := DecodeCustomizeResponseLoosely([]byte(body)); err == nil {
			t.Errorf("%s: no error", body)
		}
	}
}

func TestIdentitiesOccurTwiceAlsoByDefaultNamespace(t *testing.T) {
	r := &SyncResponse{Children: []json.RawMessage{
		json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}`),
		json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`),
	}}
	if _, err := r.Identities("other"); err != nil {
		t.Errorf("distinct objects: %v", err)
	}
	if _, err := r.Identities("n"); err == nil || err.Error() != "children[1]: ConfigMap.v1 n/a occurs twice" {
		t.Errorf("got %v", err)
	}
}

func FuzzDecodeSyncResponse(f *testing.F) {
	f.Add([]byte(`{"status":{"a":1},"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}],"resyncAfterSeconds":1.5,"finalized":true}`))
	f.Add([]byte(`{"children":[{"apiVersion":1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeSyncResponse(data)
		if err != nil {
			return
		}
		again, err := DecodeSyncResponse(r.AppendJSON(nil))
		if err != nil {
			t.Fatalf("own output refused: %v", err)
		}
		if len(again.Children) != len(r.Children) || again.Finalized != r.Finalized {
			t.Errorf("%+v became %+v", r, again)
		}
	})
}

func TestCustomizeResponse(t *testing.T) {
	got, err := DecodeCustomizeResponse([]byte(`{"relatedResources":[{"apiVersion":"batch/v1","resource":"jobs","namespace":"n","labelSelector":{"matchLabels":{"a":"b"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &CustomizeResponse{RelatedResources: []RelatedResourceRule{{
		APIVersion: "batch/v1", Resource: "jobs", Namespace: "n",
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for body, want := range map[string]string{
		`null`: "want an object, got null",
		`{"relatedResources":[{"apiVersion":"v1"}]}`:                                                          `relatedResources[0].resource: missing: the lowercase plural of the kind, such as "configmaps"`,
		`{"relatedResources":[{"resource":"pods"}]}`:                                                          "relatedResources[0].apiVersion: missing",
		`{"relatedResources":[{"apiVersion":"v1","resource":"pods","names":["a"],"labelSelector":{}}]}`:       "relatedResources[0].names: excludes labelSelector",
		`{"relatedResources":[{"apiVersion":"v1","resource":"pods","namespace":"a","namespaceSelector":{}}]}`: "relatedResources[0].namespace: excludes namespaceSelector",
		`{"related":[]}`: `unknown field "related"`,
	} {
		if _, err := DecodeCustomizeResponse([]byte(body)); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", body, err, want)
		}
	}
}

func TestKindKeys(t *testing.T) {
	for key, gvk := range map[string]schema.GroupVersionKind{
		"Pod.v1":                          {Version: "v1", Kind: "Pod"},
		"JobSet.jobset.x-k8s.io/v1alpha2": {Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"},
	} {
		if got := KindKeyOf(gvk); got != key {
			t.Errorf("KindKeyOf(%v) = %s, want %s", gvk, got, key)
		}
		if got, err := ParseKindKey(key); err != nil || got != gvk {
			t.Errorf("ParseKindKey(%s) = %v, %v", key, got, err)
		}
	}
	for _, key := range []string{"", "Pod", "Pod.", ".v1", "Pod./v1", "Pod.a/", "Pod.a/b/c", "JobSet.jobset.x-k8s.io"} {
		if gvk, err := ParseKindKey(key); err == nil {
			t.Errorf("%q parsed as %v", key, gvk)
		}
	}
}

func TestObjectKeys(t *testing.T) {
	for _, c := range []struct{ namespace, name, key string }{{"n", "a", "n/a"}, {"", "a", "a"}} {
		if got := ObjectKey(c.namespace, c.name); got != c.key {
			t.Errorf("got %s, want %s", got, c.key)
		}
		if namespace, name := SplitObjectKey(c.key); namespace != c.namespace || name != c.name {
			t.Errorf("%s split into %s and %s", c.key, namespace, name)
		}
	}
}
