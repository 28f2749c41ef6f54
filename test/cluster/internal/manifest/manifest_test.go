package manifest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"
)

func TestReadTakesAFolderInOrderOfName(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.yaml":             "kind: B\napiVersion: v1\n",
		"a.yaml":             "---\nkind: A1\napiVersion: v1\n---\n# only a comment\n---\nkind: A2\napiVersion: v1\n",
		"kustomization.yaml": "resources: [a.yaml]\n",
		"c.txt":              "not yaml: [",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, u := range objects {
		kinds = append(kinds, u.GetKind())
	}
	if diff := cmp.Diff([]string{"A1", "A2", "B"}, kinds); diff != "" {
		t.Error(diff)
	}
}

func TestParseRefusesWhatIsNotAnObject(t *testing.T) {
	for _, text := range []string{"a: b\n", "kind: A\n", "kind: [\n", "- kind: A\n"} {
		if objects, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q: got %d objects, want an error", text, len(objects))
		}
	}
}

const upstreamWebhooks = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutating-webhook-configuration}
webhooks:
- name: mown.kb.io
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate-own}}
  failurePolicy: Fail
  rules: [{apiGroups: [kueue.x-k8s.io], apiVersions: [v1beta2], operations: [CREATE], resources: [workloads]}]
- name: mpod.kb.io
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate--v1-pod}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
- name: mray.kb.io
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate-ray}}
  rules: [{apiGroups: [ray.io], apiVersions: [v1], operations: [CREATE], resources: [rayjobs]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating-webhook-configuration}
webhooks:
- name: vray.kb.io
  clientConfig: {service: {name: webhook-service, namespace: system, path: /validate-ray}}
  rules: [{apiGroups: [ray.io], apiVersions: [v1], operations: [CREATE], resources: [rayjobs]}]
`

func TestRewriteServesWebhooksFromLoopback(t *testing.T) {
	in := parse(t, upstreamWebhooks)
	before := parse(t, upstreamWebhooks)
	got, err := Webhooks{
		Prefix: "kueue-", Port: 9443, CA: []byte("ca"),
		SkipNamespaces: []string{"kube-system", "kueue-system"}, NoSelector: []string{"kueue.x-k8s.io"},
		PodLabel: "a/label",
		Keep:     func(group, _ string) bool { return group != "ray.io" },
	}.Rewrite(in)
	if err != nil {
		t.Fatal(err)
	}
	want := parse(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: kueue-mutating-webhook-configuration}
webhooks:
- name: mown.kb.io
  clientConfig: {url: "https://127.0.0.1:9443/mutate-own", caBundle: Y2E=}
  failurePolicy: Fail
  rules: [{apiGroups: [kueue.x-k8s.io], apiVersions: [v1beta2], operations: [CREATE], resources: [workloads]}]
- name: mpod.kb.io
  clientConfig: {url: "https://127.0.0.1:9443/mutate--v1-pod", caBundle: Y2E=}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  namespaceSelector:
    matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kueue-system]}]
  objectSelector:
    matchExpressions: [{key: a/label, operator: Exists}]
`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, in); diff != "" {
		t.Error("the input was changed:\n", diff)
	}
}

func TestRewriteRefusesWhatItCannotServe(t *testing.T) {
	for name, hook := range map[string]string{
		"no service": `{name: a, clientConfig: {url: "https://x"}, rules: [{apiGroups: [a], resources: [b]}]}`,
		"no rules":   `{name: a, clientConfig: {service: {path: /a}}}`,
		"no groups":  `{name: a, clientConfig: {service: {path: /a}}, rules: [{resources: [b]}]}`,
	} {
		in := parse(t, "kind: W\napiVersion: v1\nmetadata: {name: w}\nwebhooks: ["+hook+"]\n")
		if _, err := (Webhooks{Keep: func(string, string) bool { return true }}).Rewrite(in); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestPlaceDoesWhatTheKustomizationDoes(t *testing.T) {
	got := Place(parse(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager-role}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager-rolebinding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager-role}
subjects: [{kind: ServiceAccount, name: controller-manager, namespace: system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: delegation}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:auth-delegator"}
subjects: [{kind: ServiceAccount, name: other, namespace: monitoring}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: controller-manager, namespace: system}
`), "kueue-", "kueue-system")
	want := parse(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: kueue-manager-role}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kueue-manager-rolebinding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kueue-manager-role}
subjects: [{kind: ServiceAccount, name: kueue-controller-manager, namespace: kueue-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: kueue-delegation, namespace: kueue-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:auth-delegator"}
subjects: [{kind: ServiceAccount, name: other, namespace: monitoring}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: kueue-controller-manager, namespace: kueue-system}
`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestGrantAddsTheUserWhereTheServiceAccountIs(t *testing.T) {
	got := Grant(parse(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: rtj}
subjects: [{kind: ServiceAccount, name: rtj, namespace: rtj-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kueue-reads-rtj}
subjects: [{kind: ServiceAccount, name: kueue-controller-manager, namespace: kueue-system}]
`), "rtj-system", "rtj")
	want := parse(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: rtj}
subjects:
- {kind: ServiceAccount, name: rtj, namespace: rtj-system}
- {kind: User, apiGroup: rbac.authorization.k8s.io, name: rtj}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kueue-reads-rtj}
subjects: [{kind: ServiceAccount, name: kueue-controller-manager, namespace: kueue-system}]
`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// parse goes through JSON once more, so that numbers and lists have the types
// that objects from anywhere else have.
func parse(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range objects {
		data, err := sigsyaml.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		u.Object = nil
		if err := sigsyaml.Unmarshal(data, &u.Object); err != nil {
			t.Fatal(err)
		}
	}
	return objects
}
