//go:build e2e

package applier_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/hooks/contract"
)

func TestStatement20RelatedObjects(t *testing.T) {
	w := newWorld(t)
	w.create(configMaps, w.namespace, labelled("one", "role", "input"))
	w.create(configMaps, w.namespace, labelled("two", "role", "other"))
	w.customize = func(r *contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
		return &contract.CustomizeResponse{RelatedResources: []contract.RelatedResourceRule{
			{APIVersion: "v1", Resource: "configmaps", Namespace: w.namespace, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "input"}}},
			{APIVersion: "exp.dev/v1", Resource: "parts", Namespace: w.namespace, Names: []string{"named"}},
			{APIVersion: "v1", Resource: "namespaces", LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: []string{w.namespace}}}}},
		}}, nil
	}
	related := func(r *contract.SyncRequest) string {
		var keys []string
		for kind, objects := range r.Related {
			keys = append(keys, kind)
			for key := range objects {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		return strings.Join(keys, " ")
	}
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		return answer(`{message: "` + related(r) + `"}`), nil
	}, withCustomize)
	w.parent("p", nil)
	expect := func(want ...string) {
		t.Helper()
		slices.Sort(want)
		w.eventually(fmt.Sprintf("the hook sees %v", want), func() bool {
			return field(w.get(trains, "p"), "status", "message") == strings.Join(want, " ")
		})
	}
	kinds := []string{"ConfigMap.v1", "Namespace.v1", "Part.exp.dev/v1", w.namespace}
	expect(append(kinds, w.namespace+"/one")...)
	w.create(parts, w.namespace, object("exp.dev/v1", "Part", "named", nil))
	expect(append(kinds, w.namespace+"/one", w.namespace+"/named")...)
	w.patch(configMaps, "two", `{"metadata":{"labels":{"role":"input"}}}`)
	expect(append(kinds, w.namespace+"/one", w.namespace+"/two", w.namespace+"/named")...)
	w.patch(configMaps, "one", `{"metadata":{"labels":{"role":null}}}`)
	expect(append(kinds, w.namespace+"/two", w.namespace+"/named")...)
	w.delete(parts, "named")
	expect(append(kinds, w.namespace+"/two")...)

	n, asked := w.syncs.Load(), w.customs.Load()
	w.quiet()
	w.create(configMaps, w.namespace, labelled("three", "role", "other"))
	w.create(parts, w.namespace, object("exp.dev/v1", "Part", "unnamed", nil))
	w.quiet()
	if got := w.syncs.Load() - n; got > 1 {
		t.Errorf("%d syncs for objects that no rule selects", got)
	}
	w.patch(trains, "p", `{"metadata":{"annotations":{"a":"b"}}}`)
	w.quiet()
	if w.customs.Load() != asked || asked != 1 {
		t.Errorf("customize was asked %d times, then %d times for the same generation", asked, w.customs.Load()-asked)
	}
	w.patch(trains, "p", `{"spec":{"x":1}}`)
	w.eventually("customize is asked for a new generation", func() bool { return w.customs.Load() == 2 })
}

func TestStatement20RulesThatContradictThemselvesAreRefused(t *testing.T) {
	all := &metav1.LabelSelector{}
	for name, c := range map[string]struct {
		rule contract.RelatedResourceRule
		want string
	}{
		"names and labels":              {contract.RelatedResourceRule{APIVersion: "v1", Resource: "configmaps", Names: []string{"a"}, LabelSelector: all}, "relatedResources[0].names: excludes labelSelector"},
		"names and namespace labels":    {contract.RelatedResourceRule{APIVersion: "v1", Resource: "configmaps", Names: []string{"a"}, NamespaceSelector: all}, "relatedResources[0].names: excludes namespaceSelector"},
		"namespace and its labels":      {contract.RelatedResourceRule{APIVersion: "v1", Resource: "configmaps", Namespace: "default", NamespaceSelector: all}, "relatedResources[0].namespace: excludes namespaceSelector"},
		"namespace of a cluster's kind": {contract.RelatedResourceRule{APIVersion: "v1", Resource: "nodes", Namespace: "default"}, "relatedResources[0]: nodes have no namespace to select by"},
		"no such kind":                  {contract.RelatedResourceRule{APIVersion: "v1", Resource: "ConfigMap"}, `relatedResources[0]: the API server has no resource \"ConfigMap\" in v1; did you mean \"configmaps\"?`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.customize = func(*contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
				return &contract.CustomizeResponse{RelatedResources: []contract.RelatedResourceRule{c.rule}}, nil
			}
			w.run(always(answer("", configMapA)), withCustomize)
			w.parent("p", nil)
			w.eventually("it is refused: "+c.want, func() bool { return strings.Contains(w.logs.String(), c.want) })
			if w.syncs.Load() > 0 || w.get(configMaps, "a") != nil {
				t.Error("the sync hook was asked without its related objects")
			}
		})
	}
}

// Objects are selected by the labels of their namespace, and such a change counts.
func TestStatement20NamespaceSelector(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	w.create(configMaps, other.namespace, object("v1", "ConfigMap", "there", nil))
	w.customize = func(*contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
		return &contract.CustomizeResponse{RelatedResources: []contract.RelatedResourceRule{{
			APIVersion: "v1", Resource: "configmaps", NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"chosen-by": w.namespace}}}}}, nil
	}
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		return answer(fmt.Sprintf(`{message: "%v"}`, r.Related.Get("ConfigMap.v1", other.namespace+"/there") != nil)), nil
	}, withCustomize)
	w.parent("p", nil)
	w.eventually("it is not shown", func() bool { return field(w.get(trains, "p"), "status", "message") == "false" })
	label := func(value string) {
		patch := `{"metadata":{"labels":{"chosen-by":` + value + `}}}`
		if _, err := server.client.Resource(namespaces).Patch(t.Context(), other.namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(`"` + w.namespace + `"`)
	w.eventually("it is shown", func() bool { return field(w.get(trains, "p"), "status", "message") == "true" })
	label(`null`)
	w.eventually("it is not shown any more", func() bool { return field(w.get(trains, "p"), "status", "message") == "false" })
}

func labelled(name, key, value string) *unstructured.Unstructured {
	o := object("v1", "ConfigMap", name, nil)
	o.SetLabels(map[string]string{key: value})
	return o
}
