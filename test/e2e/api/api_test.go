//go:build e2e

// Package api tests what a real kube-apiserver accepts and refuses.
package api

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/apicases"
	"rtj.dev/rtj/test/cluster"
)

func TestJobs(t *testing.T) {
	jobs := start(t)
	t.Run("unknown field", func(t *testing.T) { refusesUnknownField(t, jobs) })
	cases, err := apicases.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Group+"/"+c.Name, func(t *testing.T) {
			before, written, err := c.Objects()
			if err != nil {
				t.Fatal(err)
			}
			var stored *unstructured.Unstructured
			if before == nil {
				stored, err = jobs.Create(t.Context(), written, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			} else {
				store(t, jobs, before)
				written.SetResourceVersion(before.GetResourceVersion())
				stored, err = jobs.Update(t.Context(), written, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			}
			for _, difference := range c.CompareRefusals(refusals(t, err)) {
				t.Error(difference)
			}
			if err == nil {
				for _, difference := range c.CompareStored(stored) {
					t.Error(difference)
				}
			}
		})
	}
}

// A field that does not exist, such as a misspelled one, is refused by clients
// that ask for it, as kubectl does.
func refusesUnknownField(t *testing.T, jobs dynamic.ResourceInterface) {
	job, err := apicases.Base()
	if err != nil {
		t.Fatal(err)
	}
	if err := apicases.Change(job, map[string]any{"spec.yield.gracePeriodSeconds": int64(30)}); err != nil {
		t.Fatal(err)
	}
	_, err = jobs.Create(t.Context(), job, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	if err == nil || !strings.Contains(err.Error(), `unknown field "spec.yield.gracePeriodSeconds"`) {
		t.Errorf("got %v, want the unknown field named", err)
	}
}

// start brings up a cluster and gives the jobs of namespace default.
func start(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := dynamic.NewForConfig(c.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(v1beta1.GroupVersion.WithResource(v1beta1.Resource)).Namespace(metav1.NamespaceDefault)
}

// store creates the object with its status, and removes it after the test.
func store(t *testing.T, jobs dynamic.ResourceInterface, object *unstructured.Unstructured) {
	t.Helper()
	created, err := jobs.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := jobs.Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	object.SetResourceVersion(created.GetResourceVersion())
	if _, has := object.Object["status"]; !has {
		return
	}
	updated, err := jobs.UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.SetResourceVersion(updated.GetResourceVersion())
}

// refusals are the causes that the API server gave for refusing a write.
func refusals(t *testing.T, err error) []apicases.Refusal {
	t.Helper()
	if err == nil {
		return nil
	}
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	var out []apicases.Refusal
	for _, cause := range status.ErrStatus.Details.Causes {
		out = append(out, apicases.Refusal{Field: cause.Field, Message: cause.Message})
	}
	return out
}
