package applier

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

var jobs = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}

func ruleFor(t *testing.T, selector string, namespace string, names ...string) *relatedRule {
	t.Helper()
	parsed, err := labels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	return &relatedRule{
		Rule: &plan.Rule{
			Kind:     plan.Kind{Resource: jobs, Kind: "Job", Namespaced: true},
			Selector: parsed, Namespace: namespace, Names: names,
		},
		scope: scopeOf(jobs, parsed), label: narrowest(parsed),
	}
}

func job(namespace, name string, set map[string]string) *plan.Object {
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{}}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(set)
	return plan.Observe(u)
}

func TestScopeHoldsWhateverTheSelectorCanMatch(t *testing.T) {
	for selector, want := range map[string]string{
		"":                      "",
		"uid=1":                 "uid",
		"b=1,a in (x,y)":        "a,b",
		"a,!b,c!=2,d notin (e)": "a",
		"a=1,a":                 "a",
	} {
		parsed, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		if got := scopeOf(jobs, parsed).labels; got != want {
			t.Errorf("%q: %q, want %q", selector, got, want)
		}
	}
}

func TestNarrowestLabelIsTheMostTelling(t *testing.T) {
	for selector, want := range map[string]string{
		"":                                  "",
		"!a":                                "",
		"a in (x,y)":                        "",
		"index=0,uid=3f0c4d1e-7a55,zone=eu": "uid=3f0c4d1e-7a55",
		"a in (only)":                       "a=only",
		"a=":                                "a=",
	} {
		parsed, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		if got := narrowest(parsed); got != want {
			t.Errorf("%q: %q, want %q", selector, got, want)
		}
	}
}

func TestSubscriptionsWakeThoseWhoAsk(t *testing.T) {
	s := newSubscriptions()
	parent := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "n", Name: name} }
	s.set(parent("by-label"), []*relatedRule{ruleFor(t, "uid=1", "n")})
	s.set(parent("by-name"), []*relatedRule{ruleFor(t, "", "n", "a", "b")})
	s.set(parent("by-namespace"), []*relatedRule{ruleFor(t, "", "n")})
	s.set(parent("everything"), []*relatedRule{ruleFor(t, "", "")})
	names := func(selector string, o *plan.Object) []string {
		parsed, _ := labels.Parse(selector)
		var list []string
		for _, p := range s.interested(scopeOf(jobs, parsed), o) {
			list = append(list, p.Name)
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	check := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("the label", names("uid", job("n", "x", map[string]string{"uid": "1"})), "by-label")
	check("the label, elsewhere", names("uid", job("m", "x", map[string]string{"uid": "1"})))
	check("the name, elsewhere", names("", job("m", "a", nil)), "everything")
	check("another value", names("uid", job("n", "x", map[string]string{"uid": "2"})))
	check("the name", names("", job("n", "a", nil)), "by-name", "by-namespace", "everything")
	check("another name", names("", job("n", "c", nil)), "by-namespace", "everything")
	check("another namespace", names("", job("m", "c", nil)), "everything")

	s.set(parent("everything"), []*relatedRule{ruleFor(t, "uid=1", "n")})
	check("new rules", names("", job("m", "c", nil)))
	check("new rules, the label", names("uid", job("n", "x", map[string]string{"uid": "1"})), "by-label", "everything")
	for _, name := range []string{"by-label", "by-name", "by-namespace", "everything"} {
		s.set(parent(name), nil)
	}
	if len(s.byParent)+len(s.byTopic) != 0 {
		t.Errorf("left behind: %v %v", s.byParent, s.byTopic)
	}
}

// Every object that a rule matches has a topic of the rule, or a change of it
// would go unnoticed.
func TestTopicsCoverMatches(t *testing.T) {
	objects := []*plan.Object{
		job("n", "a", map[string]string{"uid": "1", "x": ""}), job("n", "b", map[string]string{"uid": "2"}), job("m", "a", nil),
	}
	for _, rule := range []*relatedRule{
		ruleFor(t, "uid=1", "n"), ruleFor(t, "uid in (1,2)", ""), ruleFor(t, "", "n"), ruleFor(t, "", "n", "a"), ruleFor(t, "", "", "a"), ruleFor(t, "x=", ""), ruleFor(t, "!uid", ""),
	} {
		for _, o := range objects {
			if !rule.matches(o, nil) {
				continue
			}
			if !slices.ContainsFunc(topicsOf(o), func(topic string) bool { return slices.Contains(rule.topics(), topic) }) {
				t.Errorf("%s in %s has none of %v", o.GetName(), o.GetNamespace(), rule.topics())
			}
		}
	}
}

// In v1 a parent in a namespace reaches what is in it, and cluster-scoped objects.
func TestRulesOfV1(t *testing.T) {
	nodes := plan.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Kind: "Node"}
	selecting := ruleFor(t, "", "")
	selecting.NamespaceSelector = labels.Everything()
	for name, c := range map[string]struct {
		rule      *relatedRule
		namespace string
		refused   bool
	}{
		"any namespace":       {ruleFor(t, "a=b", ""), "n", false},
		"its own":             {ruleFor(t, "", "n"), "n", false},
		"names":               {ruleFor(t, "", "", "x"), "n", false},
		"another":             {ruleFor(t, "", "m"), "m", true},
		"by namespace labels": {selecting, "", true},
		"cluster-scoped":      {&relatedRule{Rule: &plan.Rule{Kind: nodes, Selector: labels.Everything()}}, "", false},
	} {
		err := c.rule.RestrictToV1("n")
		if (err != nil) != c.refused || c.rule.Namespace != c.namespace {
			t.Errorf("%s: %v, namespace %q", name, err, c.rule.Namespace)
		}
	}
}
