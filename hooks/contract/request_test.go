package contract

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const minimal = `{"controller":{"kind":"CompositeController"},"parent":{"kind":"Train"},"children":{},"related":{},"finalizing":false}`

func TestSyncRequestKeepsObjectsAsSent(t *testing.T) {
	const job = `{"apiVersion":"batch/v1","kind":"Job", "metadata":{"name":"j"},"spec":{"tomorrow":[1.50,{"Ünïcode":"é"}]}}`
	got, err := DecodeSyncRequest([]byte(`{
		"finalizing": true,
		"related": {"Job.batch/v1": {"a/j": ` + job + `}},
		"children": {"ConfigMap.v1": {}, "JobSet.jobset.x-k8s.io/v1alpha2": {"a/x-1": {"kind":"JobSet"}}},
		"parent": {"kind":"Train","spec":{}},
		"controller": {"kind":"CompositeController"}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &SyncRequest{
		Controller: json.RawMessage(`{"kind":"CompositeController"}`),
		Parent:     json.RawMessage(`{"kind":"Train","spec":{}}`),
		Children: ObjectMap{
			"ConfigMap.v1":                    {},
			"JobSet.jobset.x-k8s.io/v1alpha2": {"a/x-1": json.RawMessage(`{"kind":"JobSet"}`)},
		},
		Related:    ObjectMap{"Job.batch/v1": {"a/j": json.RawMessage(job)}},
		Finalizing: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSyncRequestRoundTrip(t *testing.T) {
	for name, want := range map[string]*SyncRequest{
		"empty": {Controller: json.RawMessage(`{}`), Parent: json.RawMessage(`{}`), Children: ObjectMap{}, Related: ObjectMap{}},
		"full": {
			Controller: json.RawMessage(`{"kind":"CompositeController"}`),
			Parent:     json.RawMessage(`{"a":"<&>"}`),
			Children: ObjectMap{
				"Role.rbac.authorization.k8s.io/v1": {`n/a:"b"<c>`: json.RawMessage(`{"x":1}`), "n/b": json.RawMessage(`{}`)},
				"ConfigMap.v1":                      {},
			},
			Related:    ObjectMap{"Node.v1": {"one": json.RawMessage(`{}`), "two": json.RawMessage(`{}`)}},
			Finalizing: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			body := want.AppendJSON([]byte(nil))
			got, err := DecodeSyncRequest(body)
			if err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if string(want.AppendJSON(nil)) != string(body) {
				t.Error("the same request is other bytes")
			}
		})
	}
}

func TestCustomizeRequestRoundTrip(t *testing.T) {
	want := &CustomizeRequest{Controller: json.RawMessage(`{"a":1}`), Parent: json.RawMessage(`{"b":2}`)}
	got, err := DecodeCustomizeRequest(want.AppendJSON(nil))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestRelativeTo(t *testing.T) {
	o := json.RawMessage(`{}`)
	m := ObjectMap{
		"ConfigMap.v1":    {"n/a": o, "n/b": o, "nn/c": o},
		"Node.v1":         {"a": o, "n": o},
		"Part.exp.dev/v1": {},
	}
	want := ObjectMap{"ConfigMap.v1": {"a": o, "b": o}, "Node.v1": {}, "Part.exp.dev/v1": {}}
	if diff := cmp.Diff(want, m.RelativeTo("n")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(m, m.RelativeTo("")); diff != "" {
		t.Error(diff)
	}
	if got := ObjectMap(nil).RelativeTo("n"); got == nil || got.Len() != 0 {
		t.Errorf("of none: %v", got)
	}
}

func TestSyncRequestLeavesOutManagedFields(t *testing.T) {
	for name, c := range map[string]struct{ sent, want string }{
		"first":           {`{"metadata":{"managedFields":[{"a":{}}], "name":"x"},"spec":1}`, `{"metadata":{ "name":"x"},"spec":1}`},
		"in the middle":   {`{"metadata":{"name":"x","managedFields":[],"uid":"u"}}`, `{"metadata":{"name":"x","uid":"u"}}`},
		"last":            {`{"metadata":{"name":"x" , "managedFields":[] },"spec":1}`, `{"metadata":{"name":"x"  },"spec":1}`},
		"alone":           {`{"metadata":{ "managedFields" : null }}`, `{"metadata":{ }}`},
		"elsewhere":       {`{"spec":{"metadata":{"managedFields":[]}},"managedFields":[]}`, `{"spec":{"metadata":{"managedFields":[]}},"managedFields":[]}`},
		"metadata is odd": {`{"metadata":["managedFields"]}`, `{"metadata":["managedFields"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			body := strings.Replace(minimal, `{"kind":"Train"}`, c.sent, 1)
			got, err := DecodeSyncRequest([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Parent) != c.want || !json.Valid(got.Parent) {
				t.Errorf("got  %s\nwant %s", got.Parent, c.want)
			}
		})
	}
}

func TestSyncRequestRefusals(t *testing.T) {
	replace := func(old, new string) string {
		if !strings.Contains(minimal, old) {
			panic("nothing to replace: " + old)
		}
		return strings.Replace(minimal, old, new, 1)
	}
	for name, c := range map[string]struct{ body, want string }{
		"empty":               {"", "want an object, got nothing"},
		"not an object":       {"[]", "want an object, got a list"},
		"not JSON":            {"<html>", `want an object, got '<'`},
		"cut off":             {minimal[:len(minimal)-1], "not JSON: ends where ',' or '}' is expected"},
		"trailing data":       {minimal + `{}`, "data after the end of the message, at offset 117"},
		"unknown field":       {replace(`"finalizing"`, `"attachments":{},"finalizing"`), `unknown field "attachments"`},
		"case matters":        {replace(`"parent"`, `"Parent"`), `unknown field "Parent"`},
		"duplicate field":     {replace(`"parent"`, `"parent":{},"parent"`), `"parent" occurs twice`},
		"escaped duplicate":   {replace(`"parent"`, `"p\u0061rent":{},"parent"`), `"parent" occurs twice`},
		"missing parent":      {replace(`"parent":{"kind":"Train"},`, ``), "parent: missing"},
		"missing children":    {replace(`"children":{},`, ``), "children: missing"},
		"missing finalizing":  {replace(`,"finalizing":false`, ``), "finalizing: missing"},
		"null parent":         {replace(`{"kind":"Train"}`, `null`), "parent: want an object, got null"},
		"parent is a list":    {replace(`{"kind":"Train"}`, `[]`), "parent: want an object, got a list"},
		"null children":       {replace(`"children":{}`, `"children":null`), "children: want an object, got null"},
		"null kind":           {replace(`"children":{}`, `"children":{"Pod.v1":null}`), `children["Pod.v1"]: want an object, got null`},
		"null child":          {replace(`"children":{}`, `"children":{"Pod.v1":{"a/b":null}}`), `children["Pod.v1"]["a/b"]: want an object, got null`},
		"null related object": {replace(`"related":{}`, `"related":{"Pod.v1":{"a/b":null}}`), `related["Pod.v1"]["a/b"]: want an object, got null`},
		"child is a string":   {replace(`"children":{}`, `"children":{"Pod.v1":{"a/b":"x"}}`), `children["Pod.v1"]["a/b"]: want an object, got a string`},
		"duplicate child":     {replace(`"children":{}`, `"children":{"Pod.v1":{"a/b":{},"a/b":{}}}`), `children["Pod.v1"]: "a/b" occurs twice`},
		"duplicate kind":      {replace(`"children":{}`, `"children":{"Pod.v1":{},"Pod.v1":{}}`), `children: "Pod.v1" occurs twice`},
		"kind without group":  {replace(`"children":{}`, `"children":{"JobSet.jobset.x-k8s.io":{}}`), `children: "JobSet.jobset.x-k8s.io" is not a kind: want Kind.version or Kind.group/version`},
		"child without name":  {replace(`"children":{}`, `"children":{"Pod.v1":{"":{}}}`), `children["Pod.v1"]: an object without a name`},
		"finalizing a string": {replace(`false`, `"false"`), "finalizing: want a boolean, got a string"},
		"finalizing null":     {replace(`false`, `null`), "finalizing: want a boolean, got null"},
		"broken object":       {replace(`{"kind":"Train"}`, `{"kind":01}`), `parent: not JSON: '1' at offset 63 where ',' or '}' is expected`},
		"too deep":            {replace(`{"kind":"Train"}`, `{"a":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+`}`), "parent: nested deeper than 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeSyncRequest([]byte(c.body))
			if err == nil || err.Error() != c.want {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
			if e := (*Error)(nil); !errors.As(err, &e) {
				t.Errorf("%T is not an *Error", err)
			}
		})
	}
}

func TestSyncRequestTakesNullRelatedForEmpty(t *testing.T) {
	got, err := DecodeSyncRequest([]byte(strings.Replace(minimal, `"related":{}`, `"related":null`, 1)))
	if err != nil || got.Related == nil || len(got.Related) != 0 {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestCustomizeRequest(t *testing.T) {
	got, err := DecodeCustomizeRequest([]byte(`{"controller":{},"parent":{"metadata":{"managedFields":[],"name":"x"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"metadata":{"name":"x"}}`; string(got.Parent) != want {
		t.Errorf("got %s, want %s", got.Parent, want)
	}
	for body, want := range map[string]string{
		`{"controller":{}}`:                           "parent: missing",
		`{"controller":null,"parent":{}}`:             "controller: want an object, got null",
		`{"controller":{},"parent":{},"children":{}}`: `unknown field "children"`,
		`{"controller":{},"parent":{}} trailing`:      "data after the end of the message, at offset 30",
	} {
		if _, err := DecodeCustomizeRequest([]byte(body)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
}

// What is accepted must be what the JSON standard accepts, and must come out
// whole: an object that later fails to decode would be a panic or a lost field
// somewhere else.
func FuzzDecodeSyncRequest(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte(`{"controller":{"a":"\ud83d\ude00\n","b":[-0.1e+5,true,null]},"parent":{"metadata":{"name":"x","managedFields":[{}]}},"children":{"Pod.v1":{"a/b":{}}},"related":null,"finalizing":true}`))
	f.Add([]byte(`{"parent":{"metadata":{"managedFields":[],"managedFields":[]},"metadata":{"managedFields":[]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeSyncRequest(data)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error that says nothing")
			}
			return
		}
		if !json.Valid(data) {
			t.Fatal("accepted what is not JSON")
		}
		var want struct{ Controller, Parent map[string]any }
		if err := json.Unmarshal(data, &want); err != nil {
			return // numbers that fit no float64
		}
		for _, pair := range []struct {
			raw  json.RawMessage
			want map[string]any
		}{{r.Controller, want.Controller}, {r.Parent, want.Parent}} {
			var got map[string]any
			if err := json.Unmarshal(pair.raw, &got); err != nil {
				t.Fatalf("%s: %v", pair.raw, err)
			}
			if strings.Contains(string(data), "managedFields") {
				continue
			}
			if diff := cmp.Diff(pair.want, got); diff != "" {
				t.Error(diff)
			}
		}
		for _, m := range []ObjectMap{r.Children, r.Related} {
			for kind, objects := range m {
				if _, err := ParseKindKey(kind); err != nil {
					t.Error(err)
				}
				for place, object := range objects {
					if !json.Valid(object) || object[0] != '{' {
						t.Errorf("%s %s: %s is not an object", kind, place, object)
					}
				}
			}
		}
	})
}

// The grammar of the scanner is that of encoding/json.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-2.5e10,"x\u00e9\\",true,false,null,{}]}`, `[]`, `"\x"`, `01`, `-`, `1.`, `"` + "\x01" + `"`, "\"\xff\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &scanner{data: data}
		err := s.skip()
		if err == nil {
			err = s.end()
		}
		if err != nil && strings.Contains(err.Error(), "nested deeper") {
			return
		}
		if valid := json.Valid(data); valid != (err == nil) {
			t.Errorf("json.Valid is %v, the scanner says %v", valid, err)
		}
	})
}
