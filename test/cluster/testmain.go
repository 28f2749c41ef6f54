package cluster

import (
	"context"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rtj.dev/rtj/test/cluster/internal/manifest"
)

// RunTests is the body of a TestMain: it starts a cluster, shows prepare where it
// is, runs the tests and takes the cluster down. It returns the exit code.
func RunTests(prepare func(*Cluster) error, tests func() int) int {
	c, err := Start(context.Background(), Options{Progress: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := c.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if err := prepare(c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return tests()
}

// ApplyCRDs applies the CRDs of a YAML text and returns once their objects can be
// listed.
func (c *Cluster) ApplyCRDs(ctx context.Context, text []byte) error {
	crds, err := manifest.Parse(text)
	if err != nil {
		return err
	}
	apply, err := newApplier(c.RESTConfig)
	if err != nil {
		return err
	}
	if err := apply.crds(ctx, crds); err != nil {
		return err
	}
	for _, crd := range crds {
		if err := apply.served(ctx, crd); err != nil {
			return err
		}
	}
	return nil
}

// served waits until the objects of a CRD can be listed, which is a moment after
// it is established.
func (a *applier) served(ctx context.Context, crd *unstructured.Unstructured) error {
	var resource schema.GroupVersionResource
	resource.Group, _, _ = unstructured.NestedString(crd.Object, "spec", "group")
	resource.Resource, _, _ = unstructured.NestedString(crd.Object, "spec", "names", "plural")
	if versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions"); len(versions) > 0 {
		version, _ := versions[0].(map[string]any)
		resource.Version, _ = version["name"].(string)
	}
	for deadline := time.Now().Add(servedLimit); ; {
		_, err := a.client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("CRD %s is not served: %w", crd.GetName(), err)
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// servedLimit is many times what it takes.
const servedLimit = 30 * time.Second
