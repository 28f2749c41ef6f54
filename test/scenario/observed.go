package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/contract"
)

// Observed is observed.yaml: what is known at one instant, but for the store.
type Observed struct {
	// Base are files of _base/, by name, that this one changes.
	Base names `json:"base,omitempty"`
	// Without are objects of the base that do not exist, as Kind/name.
	Without []string `json:"without,omitempty"`

	Now        *time.Time `json:"now,omitempty"`
	Finalizing bool       `json:"finalizing,omitempty"`
	// Observer is the process that observes; "rtj" unless said otherwise.
	Observer string `json:"observer,omitempty"`
	// NoPodIntegration: Kueue does not manage plain pods.
	NoPodIntegration bool `json:"noPodIntegration,omitempty"`

	Parent   map[string]any   `json:"parent,omitempty"`
	Children []map[string]any `json:"children,omitempty"`
	Related  []map[string]any `json:"related,omitempty"`
	// Launch is what a dry run of the wanted JobSet answered.
	Launch *Launch `json:"launch,omitempty"`
}

// Launch is a compose.LaunchProbe.
type Launch struct {
	JobSet  string `json:"jobSet"`
	Refused string `json:"refused,omitempty"`
	Foreign bool   `json:"foreign,omitempty"`
}

// names is one name or a list of them.
type names []string

// UnmarshalJSON takes a string for a list of one.
func (n *names) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		*n = make(names, 1)
		return json.Unmarshal(data, &(*n)[0])
	}
	return json.Unmarshal(data, (*[]string)(n))
}

// LoadObserved reads an observed.yaml with its bases, which are looked for in the
// folder bases.
func LoadObserved(file, bases string) (*Observed, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	own := &Observed{}
	if err := decodeStrict(text, own); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	whole := &Observed{}
	for _, name := range own.Base {
		base, err := LoadObserved(filepath.Join(bases, name+".yaml"), bases)
		if err != nil {
			return nil, err
		}
		whole = whole.with(base)
	}
	if whole, err = whole.without(own.Without); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return whole.with(own), nil
}

// decodeStrict decodes YAML and refuses unknown fields.
func decodeStrict(text []byte, into any) error {
	value, err := Parse(text)
	if err != nil {
		return err
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// with is o changed by the other.
func (o *Observed) with(other *Observed) *Observed {
	n := *o
	n.Base, n.Without = nil, nil
	if other.Now != nil {
		n.Now = other.Now
	}
	n.Finalizing = n.Finalizing || other.Finalizing
	n.NoPodIntegration = n.NoPodIntegration || other.NoPodIntegration
	if other.Observer != "" {
		n.Observer = other.Observer
	}
	if other.Launch != nil {
		n.Launch = other.Launch
	}
	n.Parent = Merge(o.Parent, other.Parent)
	n.Children = mergeObjects(o.Children, other.Children)
	n.Related = mergeObjects(o.Related, other.Related)
	return &n
}

func (o *Observed) without(ids []string) (*Observed, error) {
	n := *o
	n.Children, n.Related = slices.Clone(o.Children), slices.Clone(o.Related)
	for _, gone := range ids {
		before := len(n.Children) + len(n.Related)
		is := func(object map[string]any) bool { return id(object) == gone }
		n.Children = slices.DeleteFunc(n.Children, is)
		n.Related = slices.DeleteFunc(n.Related, is)
		if len(n.Children)+len(n.Related) == before {
			return nil, fmt.Errorf("without: the base has no %s", gone)
		}
	}
	return &n, nil
}

// Request is the request that a runner sends for it. Objects get the apiVersion
// of their kind, the namespace of the parent, a uid made of kind and name, and
// resourceVersion 1 where they have none.
func (o *Observed) Request() (*contract.SyncRequest, error) {
	if o.Now == nil {
		return nil, fmt.Errorf("now is missing")
	}
	namespace, _ := metadataOf(o.Parent)["namespace"].(string)
	parent, err := Complete(Merge(map[string]any{"kind": "ResumableTrainingJob"}, o.Parent), namespace)
	if err != nil {
		return nil, err
	}
	r := &contract.SyncRequest{
		Controller: json.RawMessage(`{"apiVersion":"metacontroller.k8s.io/v1alpha1","kind":"CompositeController","metadata":{"name":"rtj"}}`),
		Children:   contract.ObjectMap{},
		Related:    contract.ObjectMap{},
		Finalizing: o.Finalizing,
	}
	if r.Parent, err = json.Marshal(parent); err != nil {
		return nil, err
	}
	for _, list := range []struct {
		objects []map[string]any
		into    contract.ObjectMap
	}{{o.Children, r.Children}, {o.Related, r.Related}} {
		for _, object := range list.objects {
			whole, err := Complete(object, namespace)
			if err != nil {
				return nil, err
			}
			raw, err := json.Marshal(whole)
			if err != nil {
				return nil, err
			}
			m := metadataOf(whole)
			space, _ := m["namespace"].(string)
			list.into.Set(contract.KindKey(whole["apiVersion"].(string), whole["kind"].(string)), contract.ObjectKey(space, m["name"].(string)), raw)
		}
	}
	return r, nil
}

// kinds are those that cases may name without apiVersion.
var kinds = map[string]struct {
	apiVersion string
	cluster    bool
}{
	"ResumableTrainingJob":  {"training.rtj.dev/v1beta1", false},
	"Workload":              {"kueue.x-k8s.io/v1beta2", false},
	"LocalQueue":            {"kueue.x-k8s.io/v1beta2", false},
	"ClusterQueue":          {"kueue.x-k8s.io/v1beta2", true},
	"ResourceFlavor":        {"kueue.x-k8s.io/v1beta2", true},
	"WorkloadPriorityClass": {"kueue.x-k8s.io/v1beta2", true},
	"JobSet":                {"jobset.x-k8s.io/v1alpha2", false},
	"Job":                   {"batch/v1", false},
	"Pod":                   {"v1", false},
	"ConfigMap":             {"v1", false},
}

// Complete fills in what [Observed.Request] says.
func Complete(object map[string]any, namespace string) (map[string]any, error) {
	kind, _ := object["kind"].(string)
	known, ok := kinds[kind]
	if _, named := object["apiVersion"]; !ok && !named {
		return nil, fmt.Errorf("%s: kind %q needs an apiVersion", id(object), kind)
	}
	name, _ := metadataOf(object)["name"].(string)
	if name == "" {
		return nil, fmt.Errorf("a %s without metadata.name", kind)
	}
	metadata := map[string]any{"uid": strings.ToLower(kind) + "-" + name, "resourceVersion": "1"}
	if !known.cluster && namespace != "" {
		metadata["namespace"] = namespace
	}
	return Merge(map[string]any{"apiVersion": known.apiVersion, "metadata": metadata}, object), nil
}

func metadataOf(object map[string]any) map[string]any {
	m, _ := object["metadata"].(map[string]any)
	return m
}

// probe is the launch probe for the observation.
func (l *Launch) probe() *compose.LaunchProbe {
	if l == nil {
		return nil
	}
	return &compose.LaunchProbe{JobSet: l.JobSet, Refused: l.Refused, Foreign: l.Foreign}
}

// RunID is the run of a request's parent.
func RunID(request *contract.SyncRequest) string {
	o, err := hooks.Observe(request)
	if err != nil {
		return ""
	}
	return compose.RunID(o.Parent)
}
