package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/test/cluster/internal/manifest"
)

// exampleNamespace is where the example trains; its manifests say what else it
// has, LocalQueue exampleQueue among it.
const (
	exampleNamespace = "example"
	exampleQueue     = "training"
)

//go:embed manifests/example.yaml
var exampleManifests []byte

// Example makes a namespace with a queue for the nodes that train and the keys of the
// store, and applies examples/numpy there. It may be called again: the job stays
// as it is unless examples/numpy/rtj.yaml has changed. It returns the job.
func (c *Cluster) Example(ctx context.Context) (*unstructured.Unstructured, error) {
	kind := c.Options.TrainingKind()
	if kind == "" || !c.Options.Operator {
		return nil, errors.New("the example needs a process or kubelet node and the operator: `make dev-up` adds what is missing")
	}
	objects, err := manifest.Parse(exampleManifests)
	if err != nil {
		return nil, err
	}
	for _, u := range objects {
		if u.GetKind() == "ResourceFlavor" {
			if err := unstructured.SetNestedField(u.Object, kind, "spec", "nodeLabels", NodeKindLabel); err != nil {
				return nil, err
			}
		}
	}
	job, err := c.exampleJob()
	if err != nil {
		return nil, err
	}
	secretName, _, _ := unstructured.NestedString(job.Object, storagePath("credentials", "secretName")...)
	secret, err := c.exampleSecret(secretName)
	if err != nil {
		return nil, err
	}
	apply, err := newApplier(c.RESTConfig)
	if err != nil {
		return nil, err
	}
	for _, u := range append(objects, secret, job) { // in order: the later ones refer to the earlier
		if err := apply.one(ctx, u); err != nil {
			return nil, err
		}
	}
	resource, err := apply.resource(job)
	if err != nil {
		return nil, err
	}
	return resource.Get(ctx, job.GetName(), metav1.GetOptions{})
}

// exampleJob is examples/numpy/rtj.yaml with the queue and the store of this
// cluster, and the training script where it is on this machine.
func (c *Cluster) exampleJob() (*unstructured.Unstructured, error) {
	dir := filepath.Join(c.Options.Root, "examples", "numpy")
	objects, err := manifest.Read(filepath.Join(dir, "rtj.yaml"))
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("%s: %d objects, want one job", filepath.Join(dir, "rtj.yaml"), len(objects))
	}
	job := objects[0]
	job.SetNamespace(exampleNamespace)
	for _, field := range []struct {
		value string
		path  []string
	}{
		{exampleQueue, []string{"spec", "queueName"}},
		{"s3://" + c.S3.Bucket + "/examples", storagePath("uri")},
		{c.S3.Endpoint, storagePath("endpoint")},
		{c.S3.Region, storagePath("region")},
	} {
		if err := unstructured.SetNestedField(job.Object, field.value, field.path...); err != nil {
			return nil, err
		}
	}
	return job, setWorkingDir(job, dir)
}

func storagePath(elem ...string) []string {
	return append([]string{"spec", "checkpoint", "storage"}, elem...)
}

// setWorkingDir sets the working folder of every container of a job.
func setWorkingDir(job *unstructured.Unstructured, dir string) error {
	return eachMap(job.Object, []string{"spec", "template", "spec", "replicatedJobs"}, func(replicated map[string]any) error {
		return eachMap(replicated, []string{"template", "spec", "template", "spec", "containers"}, func(container map[string]any) error {
			container["workingDir"] = dir
			return nil
		})
	})
}

// eachMap changes the objects of a list.
func eachMap(object map[string]any, path []string, change func(map[string]any) error) error {
	list, _, err := unstructured.NestedSlice(object, path...)
	if err != nil {
		return err
	}
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			if err := change(m); err != nil {
				return err
			}
		}
	}
	return unstructured.SetNestedSlice(object, list, path...)
}

func (c *Cluster) exampleSecret(name string) (*unstructured.Unstructured, error) {
	access, secret, err := c.s3Keys()
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]any{"name": name, "namespace": exampleNamespace},
		"stringData": map[string]any{"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret},
	}}, nil
}
