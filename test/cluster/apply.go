package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"rtj.dev/rtj/test/cluster/internal/manifest"
)

// fieldManager owns what this package applies.
const fieldManager = "rtj-cluster"

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// applier installs manifests with server-side apply: some CRDs are larger than
// what fits into the annotation of a client-side one.
type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	ca     []byte
}

func newApplier(config *rest.Config) (*applier, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	ca := config.CAData
	if ca == nil && config.CAFile != "" {
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			return nil, err
		}
	}
	return &applier{
		client: client, ca: ca,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco)),
	}, nil
}

// all applies objects side by side, a few at a time.
func (a *applier) all(ctx context.Context, objects []*unstructured.Unstructured) error {
	const lanes = 8
	errs := make([]error, len(objects))
	sem := make(chan struct{}, lanes)
	var wait sync.WaitGroup
	for i, u := range objects {
		sem <- struct{}{}
		wait.Go(func() {
			defer func() { <-sem }()
			errs[i] = a.one(ctx, u)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (a *applier) one(ctx context.Context, u *unstructured.Unstructured) error {
	resource, err := a.resource(u)
	if err == nil {
		_, err = resource.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	}
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), shortened{err})
	}
	return nil
}

// shortened bounds the text of an error: the server explains every CEL rule
// that it refuses with pages of text.
type shortened struct{ error }

func (s shortened) Error() string {
	const most = 1200
	text := s.error.Error()
	if len(text) > most {
		return text[:most] + " ..."
	}
	return text
}

func (s shortened) Unwrap() error { return s.error }

func (a *applier) resource(u *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := u.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return a.client.Resource(mapping.Resource).Namespace(u.GetNamespace()), nil
	}
	return a.client.Resource(mapping.Resource), nil
}

// crds applies CRDs and waits until the server serves them.
func (a *applier) crds(ctx context.Context, objects []*unstructured.Unstructured) error {
	if err := a.all(ctx, objects); err != nil {
		return err
	}
	for _, u := range objects {
		if err := a.established(ctx, u.GetName()); err != nil {
			return err
		}
	}
	a.mapper.Reset()
	return nil
}

func (a *applier) established(ctx context.Context, name string) error {
	for {
		crd, err := a.client.Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ok, message := condition(crd, "Established"); ok {
			return nil
		} else if refused, why := condition(crd, "NonStructuralSchema"); refused {
			return fmt.Errorf("CRD %s: %s", name, why)
		} else if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("CRD %s is not established: %s: %w", name, message, err)
		}
	}
}

// namespace makes a namespace that may exist.
func (a *applier) namespace(ctx context.Context, name string) error {
	return a.one(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}})
}

// condition reads status.conditions of an object.
func condition(u *unstructured.Unstructured, kind string) (isTrue bool, message string) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			message, _ := m["message"].(string)
			return m["status"] == "True", message
		}
	}
	return false, ""
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// install applies everything that Kueue, JobSet and KWOK need before they
// start.
func (c *Cluster) install(ctx context.Context, apply *applier) error {
	for _, ns := range []string{kueueNamespace, jobsetNamespace, rtjNamespace} {
		if err := apply.namespace(ctx, ns); err != nil {
			return err
		}
	}
	var crds, rbac []*unstructured.Unstructured
	for _, p := range []struct{ dir, prefix, namespace string }{
		{"kueue", "kueue-", kueueNamespace}, {"jobset", "jobset-", jobsetNamespace},
	} {
		objects, err := manifest.Read(c.Programs.Manifests + "/" + p.dir + "/crd")
		if err != nil {
			return err
		}
		crds = append(crds, objects...)
		if objects, err = manifest.Read(c.Programs.Manifests + "/" + p.dir + "/rbac"); err != nil {
			return err
		}
		rbac = append(rbac, manifest.Place(managerRBAC(objects), p.prefix, p.namespace)...)
	}
	objects, err := manifest.Read(c.Programs.Manifests + "/kwok/rbac")
	if err != nil {
		return err
	}
	rbac = append(rbac, objects...)
	if err := apply.crds(ctx, crds); err != nil {
		return err
	}
	return apply.all(ctx, rbac)
}

// managerRBAC leaves out the roles that Kueue and JobSet offer to people.
func managerRBAC(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var kept []*unstructured.Unstructured
	for _, u := range objects {
		name := u.GetName()
		if strings.HasSuffix(name, "-editor-role") || strings.HasSuffix(name, "-viewer-role") || strings.HasPrefix(name, "batch-") {
			continue
		}
		kept = append(kept, u)
	}
	return kept
}

// retryConflict runs f again while the server asks for it.
func retryConflict(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || !(apierrors.IsConflict(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)) {
			return err
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}
