package cluster

import (
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/test/cluster/internal/manifest"
)

func TestTheExampleUsesTheClusterItTrainsOn(t *testing.T) {
	root, err := FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Info: Info{
		Options: Options{Root: root},
		S3:      S3Info{Endpoint: "http://127.0.0.1:7", Region: "here", Bucket: "pail"},
	}}
	job, err := c.exampleJob()
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []struct {
		want string
		path []string
	}{
		{"training", []string{"spec", "queueName"}},
		{"s3://pail/examples", storagePath("uri")},
		{"http://127.0.0.1:7", storagePath("endpoint")},
		{"here", storagePath("region")},
		{"checkpoint-store", storagePath("credentials", "secretName")},
	} {
		if got, _, _ := unstructured.NestedString(job.Object, field.path...); got != field.want {
			t.Errorf("%v: got %q, want %q", field.path, got, field.want)
		}
	}
	containers := 0
	err = eachMap(job.Object, []string{"spec", "template", "spec", "replicatedJobs"}, func(replicated map[string]any) error {
		return eachMap(replicated, []string{"template", "spec", "template", "spec", "containers"}, func(container map[string]any) error {
			containers++
			if want := filepath.Join(root, "examples", "numpy"); container["workingDir"] != want {
				t.Errorf("workingDir: got %v, want %s", container["workingDir"], want)
			}
			return nil
		})
	})
	if err != nil || containers != 1 {
		t.Errorf("%d containers, %v; want one", containers, err)
	}
}

// The job is applied into the namespace and queue that the manifests make.
func TestTheExampleHasItsQueue(t *testing.T) {
	objects, err := manifest.Parse(exampleManifests)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range objects {
		if u.GetKind() == "LocalQueue" && u.GetName() == exampleQueue && u.GetNamespace() == exampleNamespace {
			return
		}
	}
	t.Errorf("no LocalQueue %s in namespace %s", exampleQueue, exampleNamespace)
}
