// Package crd is the part of the API server that judges objects by a
// CustomResourceDefinition: pruning, defaults, schema and CEL rules, by the API
// server's own code. It lets the rules be tested without a server.
package crd

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/yaml"
)

// Definition is a CustomResourceDefinition, ready to judge objects.
type Definition struct {
	internal   *apiextensions.CustomResourceDefinition
	structural *structural.Structural
	strategy   strategy
	resource   string
}

type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// Load reads a definition that serves one version.
func Load(file string) (*Definition, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	external := &apiextv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, external); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	scheme.Default(external)
	d := &Definition{internal: &apiextensions.CustomResourceDefinition{}, resource: external.Spec.Names.Plural}
	if err := scheme.Convert(external, d.internal, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if n := len(external.Spec.Versions); n != 1 {
		return nil, fmt.Errorf("%s: %d versions, want 1", file, n)
	}
	version := external.Spec.Versions[0]
	// One version is kept in the definition's own validation, two in the versions'.
	props := d.internal.Spec.Validation.OpenAPIV3Schema
	if d.structural, err = structural.NewStructural(props); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	validator, _, err := schemavalidation.NewSchemaValidator(props)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	kind := schema.GroupVersionKind{Group: external.Spec.Group, Version: version.Name, Kind: external.Spec.Names.Kind}
	d.strategy = customresource.NewStrategy(anyType{}, true, kind, validator, nil, d.structural,
		&apiextensions.CustomResourceSubresourceStatus{}, nil, nil)
	return d, nil
}

// Check is what the API server says when the definition itself is applied: the
// schema's form, the types of the CEL rules and their estimated cost.
func (d *Definition) Check() field.ErrorList {
	checked := d.internal.DeepCopy()
	checked.Status.StoredVersions = []string{d.internal.Spec.Versions[0].Name}
	return validation.ValidateCustomResourceDefinition(context.Background(), checked)
}

// Create is the object as it would be stored, and the errors for which it is
// not.
func (d *Definition) Create(object *unstructured.Unstructured) (*unstructured.Unstructured, field.ErrorList) {
	stored := d.decode(object)
	return stored, d.strategy.Validate(d.request(), stored)
}

// Update is like Create, of an object that is stored. The status is the stored
// one's: it has a subresource.
func (d *Definition) Update(before, object *unstructured.Unstructured) (*unstructured.Unstructured, field.ErrorList) {
	old, stored := d.decode(before), d.decode(object)
	old.SetResourceVersion("1")
	stored.SetResourceVersion("1")
	d.strategy.PrepareForUpdate(d.request(), stored, old)
	return stored, d.strategy.ValidateUpdate(d.request(), stored, old)
}

func (d *Definition) decode(object *unstructured.Unstructured) *unstructured.Unstructured {
	decoded := object.DeepCopy()
	pruning.Prune(decoded.Object, d.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(decoded.Object, d.structural)
	defaulting.Default(decoded.Object, d.structural)
	return decoded
}

func (d *Definition) request() context.Context {
	return genericrequest.WithRequestInfo(context.Background(), &genericrequest.RequestInfo{Resource: d.resource})
}

// anyType says of every object the kind that it says itself.
type anyType struct{}

func (anyType) ObjectKinds(object runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{object.GetObjectKind().GroupVersionKind()}, false, nil
}

func (anyType) Recognizes(schema.GroupVersionKind) bool { return true }
