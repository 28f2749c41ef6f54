package cluster

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/minio/minio-go/v7"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"rtj.dev/rtj/test/cluster/internal/manifest"
)

//go:embed manifests/smoke.yaml
var smokeManifests []byte

// Smoke checks the running cluster end to end: Kueue admits a suspended JobSet
// through a queue of its own, it runs on fake nodes and completes, and the S3
// server gives back what it was given. A cluster without fake nodes has one for
// that time. It cleans up after itself and returns one line of results.
func (c *Cluster) Smoke(ctx context.Context) (string, error) {
	apply, err := newApplier(c.RESTConfig)
	if err != nil {
		return "", err
	}
	name := "rtj-smoke-" + randomText(6)
	if c.Options.FakeNodes > 0 {
		return c.smokeAndCleanUp(ctx, apply, name)
	}
	nodes, err := c.lendFakeNode(ctx, name)
	if err != nil {
		return "", err
	}
	summary, err := c.smokeAndCleanUp(ctx, apply, name)
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return summary, errors.Join(err, nodes.Delete(cleanup, name, metav1.DeleteOptions{}))
}

// lendFakeNode makes a fake node that the cluster's options do not have; the
// caller deletes it.
func (c *Cluster) lendFakeNode(ctx context.Context, name string) (typedcorev1.NodeInterface, error) {
	client, err := kubernetes.NewForConfig(c.RESTConfig)
	if err != nil {
		return nil, err
	}
	nodes := client.CoreV1().Nodes()
	if _, err := nodes.Create(ctx, fakeNode(name), metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("create node %s: %w", name, err)
	}
	if err := c.waitReady(ctx, component{name: Kwok, ready: func(ctx context.Context) error { return c.ready(ctx, name) }}); err != nil {
		return nil, errors.Join(err, nodes.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}))
	}
	return nodes, nil
}

func (c *Cluster) smokeAndCleanUp(ctx context.Context, apply *applier, name string) (string, error) {
	objects, err := manifest.Parse(bytes.ReplaceAll(smokeManifests, []byte("NAME"), []byte(name)))
	if err != nil {
		return "", err
	}
	summary, err := c.smoke(ctx, apply, objects, name)
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return summary, errors.Join(err, remove(cleanup, apply, objects))
}

func (c *Cluster) smoke(ctx context.Context, apply *applier, objects []*unstructured.Unstructured, name string) (string, error) {
	bytesStored, err := c.smokeS3(ctx, name)
	if err != nil {
		return "", err
	}
	for _, u := range objects { // in order: the later ones refer to the earlier
		if err := apply.one(ctx, u); err != nil {
			return "", err
		}
	}
	begin := time.Now()
	workloads := apply.client.Resource(schema.GroupVersionResource{
		Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}).Namespace(name)
	jobsets := apply.client.Resource(schema.GroupVersionResource{
		Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}).Namespace(name)

	if err := until(ctx, "the Workload is admitted", func() (bool, string, error) {
		list, err := workloads.List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return false, "there is none", err
		}
		done, message := condition(&list.Items[0], "Admitted")
		return done, message, nil
	}); err != nil {
		return "", err
	}
	admitted := time.Since(begin)
	if err := until(ctx, "the JobSet is completed", func() (bool, string, error) {
		u, err := jobsets.Get(ctx, "smoke", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		done, _ := condition(u, "Completed")
		return done, fmt.Sprint(u.Object["status"]), nil
	}); err != nil {
		return "", err
	}
	return fmt.Sprintf("admitted %.1fs, completed %.1fs after creation, S3 %d bytes there and back",
		admitted.Seconds(), time.Since(begin).Seconds(), bytesStored), nil
}

func (c *Cluster) smokeS3(ctx context.Context, key string) (int, error) {
	client, err := c.S3Client()
	if err != nil {
		return 0, err
	}
	content := bytes.Repeat([]byte(key), 1000)
	if _, err := client.PutObject(ctx, c.S3.Bucket, key, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{}); err != nil {
		return 0, fmt.Errorf("S3 put: %w", err)
	}
	object, err := client.GetObject(ctx, c.S3.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return 0, fmt.Errorf("S3 get: %w", err)
	}
	defer object.Close()
	back, err := io.ReadAll(object)
	if err != nil {
		return 0, fmt.Errorf("S3 get: %w", err)
	}
	if !bytes.Equal(back, content) {
		return 0, fmt.Errorf("S3 gave back %d other bytes than the %d that were put", len(back), len(content))
	}
	if err := client.RemoveObject(ctx, c.S3.Bucket, key, minio.RemoveObjectOptions{}); err != nil {
		return 0, fmt.Errorf("S3 delete: %w", err)
	}
	return len(back), nil
}

// remove deletes objects in reverse order and waits until they are gone.
func remove(ctx context.Context, apply *applier, objects []*unstructured.Unstructured) error {
	var errs []error
	background := metav1.DeletePropagationBackground
	for i := len(objects) - 1; i >= 0; i-- {
		resource, err := apply.resource(objects[i])
		if err == nil {
			err = resource.Delete(ctx, objects[i].GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("clean up %s %s: %w", objects[i].GetKind(), objects[i].GetName(), err))
		}
	}
	for _, u := range objects {
		resource, err := apply.resource(u)
		if err != nil {
			continue // reported above
		}
		errs = append(errs, until(ctx, u.GetKind()+" "+u.GetName()+" is deleted", func() (bool, string, error) {
			_, err := resource.Get(ctx, u.GetName(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true, "", nil
			}
			return false, "it is still there", err
		}))
	}
	return errors.Join(errs...)
}

// until polls, and says what was last seen when the time is over.
func until(ctx context.Context, what string, check func() (done bool, seen string, err error)) error {
	for {
		done, seen, err := check()
		if err == nil && done {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("gave up waiting until %s: %s", what, seen)
		}
	}
}
