package hooks_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	kjson "sigs.k8s.io/json"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/test/scenario"
)

// typeOf are the types into which objects of a kind are decoded.
var typeOf = map[string]func() any{
	"Workload.kueue.x-k8s.io/v1beta2":       func() any { return &compose.Workload{} },
	"LocalQueue.kueue.x-k8s.io/v1beta2":     func() any { return &compose.LocalQueue{} },
	"ClusterQueue.kueue.x-k8s.io/v1beta2":   func() any { return &compose.ClusterQueue{} },
	"ResourceFlavor.kueue.x-k8s.io/v1beta2": func() any { return &compose.ResourceFlavor{} },
	"JobSet.jobset.x-k8s.io/v1alpha2":       func() any { return &compose.JobSet{} },
	"Job.batch/v1":                          func() any { return &compose.Job{} },
	"Pod.v1":                                func() any { return &compose.Pod{} },
	"ConfigMap.v1":                          func() any { return &compose.ConfigMap{} },
}

// requests are those of the golden cases.
func requests(t testing.TB) map[string]*contract.SyncRequest {
	t.Helper()
	folders, err := os.ReadDir(cases)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*contract.SyncRequest{}
	for _, folder := range folders {
		if strings.HasPrefix(folder.Name(), "_") {
			continue
		}
		observed, err := scenario.LoadObserved(filepath.Join(cases, folder.Name(), "observed.yaml"), bases)
		if err != nil {
			t.Fatal(err)
		}
		if found[folder.Name()], err = observed.Request(); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// The decoder finds in every object of the golden cases what the API machinery's
// finds.
func TestDecodeAgreesWithTheAPIMachinery(t *testing.T) {
	for name, r := range requests(t) {
		agree(t, name+": parent", r.Parent, func() any { return &v1beta1.ResumableTrainingJob{} })
		for _, objects := range []contract.ObjectMap{r.Children, r.Related} {
			for kind, byPlace := range objects {
				if typeOf[kind] == nil {
					continue
				}
				for place, raw := range byPlace {
					agree(t, name+": "+kind+" "+place, raw, typeOf[kind])
				}
			}
		}
	}
}

// agree decodes with both and compares. Where both refuse, that is agreement.
func agree(t *testing.T, name string, raw json.RawMessage, make func() any) {
	t.Helper()
	got, want := make(), make()
	gotErr := hooks.Decode(raw, got)
	wantErr := kjson.UnmarshalCaseSensitivePreserveInts(raw, want)
	if (gotErr == nil) != (wantErr == nil) {
		t.Errorf("%s: got error %v, want %v\n%s", name, gotErr, wantErr, raw)
		return
	}
	if gotErr != nil {
		return
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(sameJSON), cmpopts.IgnoreUnexported(compose.Workload{}, compose.JobSet{}, compose.ConfigMap{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s\n%s", name, diff, raw)
	}
}

// sameJSON compares raw values, of which decoders may keep other white space.
func sameJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && cmp.Equal(x, y)
}

func TestDecodeAgreesOnOddities(t *testing.T) {
	for name, text := range map[string]string{
		"white space":              " { \"metadata\" : { \"name\" : \"a\" } , \"spec\":{ } }\n",
		"escapes in a value":       `{"metadata":{"name":"a\u00e9\n\"\\"}}`,
		"escapes in a name":        `{"m\u0065tadata":{"n\u0061me":"a"}}`,
		"names are case-sensitive": `{"Metadata":{"Name":"a"},"metadata":{"NAME":"b"}}`,
		"null everywhere":          `{"metadata":null,"spec":null,"status":{"conditions":null,"terminating":null,"active":null}}`,
		"null in a list":           `{"status":{"conditions":[null,{"type":"A"}]}}`,
		"null in a map":            `{"metadata":{"labels":{"a":null}}}`,
		"twice: the last counts":   `{"spec":{"suspend":true,"parallelism":1},"spec":{"suspend":false}}`,
		"unknown fields":           `{"spec":{"template":{"spec":{"a":[1,{"b":"]}"}]}}},"x":1e5,"y":[[],{}]}`,
		"a string for a number":    `{"spec":{"parallelism":"4"}}`,
		"a fraction for a number":  `{"spec":{"parallelism":1.5}}`,
		"a number too large":       `{"spec":{"parallelism":4294967296}}`,
		"a number for a boolean":   `{"spec":{"suspend":1}}`,
		"a list for an object":     `{"spec":[]}`,
		"an object for a list":     `{"status":{"conditions":{}}}`,
		"a string for a list":      `{"status":{"conditions":"x"}}`,
		"a time that is none":      `{"metadata":{"creationTimestamp":"yesterday"}}`,
		"a time as a number":       `{"metadata":{"creationTimestamp":7}}`,
		"a label that is no text":  `{"metadata":{"labels":{"a":7}}}`,
		"a list":                   `[]`,
		"a string":                 `"x"`,
		"null":                     `null`,
		"not UTF-8":                "{\"metadata\":{\"name\":\"\xff\"}}",
	} {
		agree(t, name, json.RawMessage(text), func() any { return &compose.Job{} })
	}
}

// withoutConditions has no compose.Condition, which by itself does not mind the
// case of names.
type withoutConditions struct {
	compose.Object
	Spec struct {
		Suspend     *bool  `json:"suspend"`
		Parallelism *int32 `json:"parallelism"`
		PodSets     []struct {
			Name  string `json:"name"`
			Count int32  `json:"count"`
		} `json:"podSets"`
	} `json:"spec"`
	Data map[string]string `json:"data"`
}

func FuzzDecode(f *testing.F) {
	for _, r := range requests(f) {
		for _, objects := range []contract.ObjectMap{r.Children, r.Related} {
			for kind, byPlace := range objects {
				if kind == "Workload.kueue.x-k8s.io/v1beta2" || kind == "Job.batch/v1" {
					for _, raw := range byPlace {
						f.Add([]byte(raw))
					}
				}
			}
		}
		f.Add([]byte(r.Parent))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		// Whatever comes must not panic; what is JSON must mean the same.
		hooks.Decode(text, &compose.Job{})
		hooks.Decode(text, &v1beta1.ResumableTrainingJob{})
		if json.Valid(text) {
			agree(t, "fuzzed parent", text, func() any { return &v1beta1.ResumableTrainingJob{} })
			agree(t, "fuzzed child", text, func() any { return &withoutConditions{} })
		}
	})
}
