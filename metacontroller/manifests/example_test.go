package manifests

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"rtj.dev/rtj/metacontroller/applier"
)

const example = "../../examples/static-site"

// read returns the objects of a kind in deploy.yaml. Unknown fields are refused.
func read[T any](t *testing.T, kind string) []T {
	t.Helper()
	var objects []T
	for _, document := range strings.Split(file(t, "deploy.yaml"), "\n---\n") {
		if !strings.Contains(document, "\nkind: "+kind+"\n") {
			continue
		}
		var object T
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		objects = append(objects, object)
	}
	if len(objects) == 0 {
		t.Fatalf("deploy.yaml has no %s", kind)
	}
	return objects
}

func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(example, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rights of a role: for each resource, as in deployments.apps/status, its verbs.
func rights(rules []rbacv1.PolicyRule) map[string][]string {
	got := map[string][]string{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name, sub, _ := strings.Cut(resource, "/")
				key := right(schema.GroupResource{Group: group, Resource: name}, sub)
				got[key] = slices.Sorted(slices.Values(append(got[key], rule.Verbs...)))
			}
		}
	}
	return got
}

func right(resource schema.GroupResource, subresource string) string {
	return strings.TrimSuffix(resource.String()+"/"+subresource, "/")
}

// The role of the example has what `rtj apply --help` says that a controller like
// this one needs, and nothing else.
func TestExampleHasTheLeastRights(t *testing.T) {
	controllers, err := applier.Parse([]byte(file(t, "controller.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	c := controllers[0]
	if c.Annotations[applier.ChildStatusAnnotation] != "" || c.Spec.Hooks.Customize != nil || c.Spec.EndpointConfigs != nil {
		t.Fatal("the controller needs more than this test knows")
	}
	group := func(apiVersion string) string {
		gv, err := schema.ParseGroupVersion(apiVersion)
		if err != nil {
			t.Fatal(err)
		}
		return gv.Group
	}
	parent := schema.GroupResource{Group: group(c.Spec.ParentResource.APIVersion), Resource: c.Spec.ParentResource.Resource.Resource}
	want := map[string][]string{
		right(parent, ""):           {"get", "list", "patch", "watch"},
		right(parent, "status"):     {"patch"},
		right(parent, "finalizers"): {"update"},
		"events":                    {"create", "patch"},
	}
	for _, child := range c.Spec.ChildResources {
		want[right(schema.GroupResource{Group: group(child.APIVersion), Resource: child.Resource.Resource}, "")] =
			[]string{"create", "delete", "get", "list", "patch", "watch"}
	}
	if diff := cmp.Diff(want, rights(read[rbacv1.ClusterRole](t, "ClusterRole")[0].Rules)); diff != "" {
		t.Errorf("ClusterRole (-want +got):\n%s", diff)
	}

	rules := read[rbacv1.Role](t, "Role")[0].Rules
	if diff := cmp.Diff(map[string][]string{"leases.coordination.k8s.io": {"create", "get", "update", "watch"}}, rights(rules)); diff != "" {
		t.Errorf("Role (-want +got):\n%s", diff)
	}
	for _, rule := range rules {
		if !slices.Contains(rule.Verbs, "create") && !slices.Equal(rule.ResourceNames, []string{"rtj-apply"}) {
			t.Errorf("%v of Leases %v, want of rtj-apply only", rule.Verbs, rule.ResourceNames)
		}
	}
}

// What deploy.yaml names exists: the account with its roles, and the files.
func TestExampleFitsTogether(t *testing.T) {
	account := read[corev1.ServiceAccount](t, "ServiceAccount")[0]
	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}
	everywhere, local := read[rbacv1.ClusterRoleBinding](t, "ClusterRoleBinding")[0], read[rbacv1.RoleBinding](t, "RoleBinding")[0]
	for name, binding := range map[string]struct {
		role     string
		ref      rbacv1.RoleRef
		subjects []rbacv1.Subject
	}{
		"ClusterRoleBinding": {read[rbacv1.ClusterRole](t, "ClusterRole")[0].Name, everywhere.RoleRef, everywhere.Subjects},
		"RoleBinding":        {read[rbacv1.Role](t, "Role")[0].Name, local.RoleRef, local.Subjects},
	} {
		if binding.ref.Name != binding.role || !slices.Equal(binding.subjects, subject) {
			t.Errorf("%s binds %s to %v, want %s to %v", name, binding.ref.Name, binding.subjects, binding.role, subject)
		}
	}

	deployment := read[appsv1.Deployment](t, "Deployment")[0]
	pod := deployment.Spec.Template
	if deployment.Namespace != account.Namespace || pod.Spec.ServiceAccountName != account.Name {
		t.Errorf("runs as %s/%s", deployment.Namespace, pod.Spec.ServiceAccountName)
	}
	if !maps.Equal(deployment.Spec.Selector.MatchLabels, pod.Labels) {
		t.Errorf("selector %v, labels %v", deployment.Spec.Selector.MatchLabels, pod.Labels)
	}
	var kustomization struct {
		ConfigMapGenerator []struct {
			Name, Namespace string
			Files           []string
		}
		Images []struct{ Name string }
	}
	if err := yaml.Unmarshal([]byte(file(t, "kustomization.yaml")), &kustomization); err != nil {
		t.Fatal(err)
	}
	made, rtj := kustomization.ConfigMapGenerator[0], pod.Spec.Containers[0]
	if volume := pod.Spec.Volumes[0].ConfigMap; volume.Name != made.Name || made.Namespace != account.Namespace {
		t.Errorf("the pod mounts %s, and %s/%s is made", volume.Name, made.Namespace, made.Name)
	}
	if !strings.HasPrefix(rtj.Image, kustomization.Images[0].Name+":") {
		t.Errorf("image %s is not the one that kustomization.yaml replaces, %s", rtj.Image, kustomization.Images[0].Name)
	}
	for _, named := range made.Files {
		path := pod.Spec.Containers[0].VolumeMounts[0].MountPath + "/" + named
		if !slices.Contains(rtj.Args, "--filename="+path) && !slices.Contains(pod.Spec.Containers[1].Command, path) {
			t.Errorf("nobody reads %s", path)
		}
	}
}
