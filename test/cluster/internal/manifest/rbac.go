package manifest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const rbacGroup = "rbac.authorization.k8s.io"

// placeholderNamespace is what Kueue's and JobSet's manifests say for the
// namespace that kustomize would fill in.
const placeholderNamespace = "system"

// Place does what the kustomization of Kueue and JobSet does to their RBAC
// manifests: a prefix before every name that they define, and a namespace
// instead of the placeholder.
func Place(objects []*unstructured.Unstructured, prefix, namespace string) []*unstructured.Unstructured {
	defined := map[string]bool{}
	for _, u := range objects {
		defined[u.GetKind()+"/"+u.GetName()] = true
	}
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, u := range objects {
		u = u.DeepCopy()
		u.SetName(prefix + u.GetName())
		switch u.GetKind() {
		case "Role", "RoleBinding", "ServiceAccount":
			u.SetNamespace(namespace)
		}
		if kind, _, _ := unstructured.NestedString(u.Object, "roleRef", "kind"); kind != "" {
			name, _, _ := unstructured.NestedString(u.Object, "roleRef", "name")
			if defined[kind+"/"+name] {
				_ = unstructured.SetNestedField(u.Object, prefix+name, "roleRef", "name")
			}
		}
		eachSubject(u, func(subject map[string]any) {
			if subject["namespace"] == placeholderNamespace {
				subject["namespace"] = namespace
				subject["name"] = prefix + subject["name"].(string)
			}
		})
		out = append(out, u)
	}
	return out
}

// Grant adds the user to every binding that names a service account of the
// namespace, so that a process with a client certificate has exactly the
// rights that the manifests give to the pod.
func Grant(objects []*unstructured.Unstructured, namespace, user string) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, u := range objects {
		u = u.DeepCopy()
		named := false
		eachSubject(u, func(subject map[string]any) {
			named = named || subject["kind"] == "ServiceAccount" && subject["namespace"] == namespace
		})
		if named {
			subjects, _, _ := unstructured.NestedSlice(u.Object, "subjects")
			u.Object["subjects"] = append(subjects, map[string]any{
				"kind": "User", "apiGroup": rbacGroup, "name": user,
			})
		}
		out = append(out, u)
	}
	return out
}

func eachSubject(u *unstructured.Unstructured, visit func(map[string]any)) {
	subjects, _ := u.Object["subjects"].([]any)
	for _, s := range subjects {
		if subject, ok := s.(map[string]any); ok {
			visit(subject)
		}
	}
}
