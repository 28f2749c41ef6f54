package applier

import (
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

// kinds looks resources up and remembers those that exist.
type kinds struct {
	client discovery.ServerResourcesInterface

	mu    sync.Mutex
	known map[Resource]plan.Kind
}

// find returns the kind of a resource. It asks the API server at the first use.
func (k *kinds) find(r Resource) (plan.Kind, error) {
	k.mu.Lock()
	found, ok := k.known[r]
	k.mu.Unlock()
	if ok {
		return found, nil
	}
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	if err != nil {
		return plan.Kind{}, err
	}
	list, err := k.client.ServerResourcesForGroupVersion(r.APIVersion)
	if err != nil {
		return plan.Kind{}, fmt.Errorf("resources of %s: %w", r.APIVersion, err)
	}
	for _, resource := range list.APIResources {
		switch resource.Name {
		case r.Resource:
			found.Resource = gv.WithResource(r.Resource)
			found.Kind = resource.Kind
			found.Namespaced = resource.Namespaced
		case r.Resource + "/status":
			found.HasStatus = true
		}
	}
	if found.Kind == "" {
		return plan.Kind{}, fmt.Errorf("the API server has no resource %q in %s%s", r.Resource, r.APIVersion, suggestion(r.Resource, list.APIResources))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = map[Resource]plan.Kind{}
	}
	k.known[r] = found
	return found, nil
}

// suggestion helps those who wrote the kind instead of the plural.
func suggestion(wrong string, resources []metav1.APIResource) string {
	for _, resource := range resources {
		if strings.EqualFold(wrong, resource.Kind) || strings.EqualFold(wrong, resource.SingularName) || strings.EqualFold(wrong, resource.Name) {
			return fmt.Sprintf("; did you mean %q?", resource.Name)
		}
	}
	return ""
}
