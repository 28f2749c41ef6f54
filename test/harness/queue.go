package harness

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rtj.dev/rtj/test/cluster"
)

// Names of what every [Namespace] has.
const (
	QueueName  = "training"
	SecretName = "checkpoint-store"
	// GPU is what jobs ask for and queues hold: nodes pretend to have some.
	GPU = "nvidia.com/gpu"
	// Low and High are WorkloadPriorityClasses; High preempts Low.
	Low  = "harness-low"
	High = "harness-high"
)

var (
	kueueVersion = schema.GroupVersion{Group: "kueue.x-k8s.io", Version: "v1beta2"}

	flavors         = kueueVersion.WithResource("resourceflavors")
	clusterQueues   = kueueVersion.WithResource("clusterqueues")
	localQueues     = kueueVersion.WithResource("localqueues")
	priorityClasses = kueueVersion.WithResource("workloadpriorityclasses")
	workloads       = kueueVersion.WithResource("workloads")
)

// Namespace is a namespace with a queue of its own and the keys to the store.
type Namespace struct {
	*Cluster
	Name string
}

// QueueOptions say what the queue of a namespace gives.
type QueueOptions struct {
	// GPUs is the quota.
	GPUs int
	// Pool of nodes; empty: every node that trains.
	Pool string
	// Fake has the jobs run on fake nodes instead.
	Fake bool
}

// NewNamespace makes a namespace, the Secret with the store's credentials, the
// LocalQueue "training", and a ClusterQueue of the namespace's name, in which a
// higher priority preempts a lower one.
func (c *Cluster) NewNamespace(ctx context.Context, name string, o QueueOptions) (*Namespace, error) {
	n := &Namespace{c, name}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if err := n.CreateSecret(ctx); err != nil {
		return nil, err
	}
	flavor := c.Options.TrainingKind()
	if o.Fake {
		flavor = "fake"
	}
	labels := map[string]any{cluster.NodeKindLabel: flavor}
	if o.Pool != "" {
		labels[PoolLabel] = o.Pool
		flavor += "-" + o.Pool
	}
	for _, object := range []struct {
		resource schema.GroupVersionResource
		content  map[string]any
	}{
		{flavors, kueueObject("ResourceFlavor", flavor, map[string]any{"spec": map[string]any{"nodeLabels": labels}})},
		{priorityClasses, kueueObject("WorkloadPriorityClass", Low, map[string]any{"value": int64(100)})},
		{priorityClasses, kueueObject("WorkloadPriorityClass", High, map[string]any{"value": int64(1000)})},
		{clusterQueues, clusterQueue(name, flavor, o.GPUs)},
	} {
		u := &unstructured.Unstructured{Object: object.content}
		if _, err := c.Dynamic.Resource(object.resource).Create(ctx, u, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return n, n.CreateLocalQueue(ctx, QueueName)
}

// SetQuota changes how many GPUs the queue gives.
func (n *Namespace) SetQuota(ctx context.Context, gpus int) error {
	client := n.Dynamic.Resource(clusterQueues)
	for {
		u, err := client.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		group := u.Object["spec"].(map[string]any)["resourceGroups"].([]any)[0].(map[string]any)
		flavor := group["flavors"].([]any)[0].(map[string]any)
		flavor["resources"].([]any)[0].(map[string]any)["nominalQuota"] = int64(gpus)
		if _, err = client.Update(ctx, u, metav1.UpdateOptions{}); !conflict(err) {
			return err
		}
	}
}

// CreateLocalQueue makes a LocalQueue of the namespace's ClusterQueue.
func (n *Namespace) CreateLocalQueue(ctx context.Context, name string) error {
	u := &unstructured.Unstructured{Object: kueueObject("LocalQueue", name, map[string]any{"spec": map[string]any{"clusterQueue": n.Name}})}
	_, err := n.Dynamic.Resource(localQueues).Namespace(n.Name).Create(ctx, u, metav1.CreateOptions{})
	return err
}

// DeleteLocalQueue deletes a LocalQueue.
func (n *Namespace) DeleteLocalQueue(ctx context.Context, name string) error {
	return n.Dynamic.Resource(localQueues).Namespace(n.Name).Delete(ctx, name, metav1.DeleteOptions{})
}

// CreatePriorityClass makes a WorkloadPriorityClass.
func (c *Cluster) CreatePriorityClass(ctx context.Context, name string, value int64) error {
	u := &unstructured.Unstructured{Object: kueueObject("WorkloadPriorityClass", name, map[string]any{"value": value})}
	_, err := c.Dynamic.Resource(priorityClasses).Create(ctx, u, metav1.CreateOptions{})
	return err
}

// CreateSecret makes the Secret with the store's credentials.
func (n *Namespace) CreateSecret(ctx context.Context) error {
	access, key, err := n.S3Keys()
	if err != nil {
		return err
	}
	_, err = n.Kube.CoreV1().Secrets(n.Name).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: SecretName},
		StringData: map[string]string{"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": key},
	}, metav1.CreateOptions{})
	return err
}

// Delete deletes the namespace and its ClusterQueue and does not wait.
func (n *Namespace) Delete(ctx context.Context) error {
	err := n.Kube.CoreV1().Namespaces().Delete(ctx, n.Name, metav1.DeleteOptions{})
	queueErr := n.Dynamic.Resource(clusterQueues).Delete(ctx, n.Name, metav1.DeleteOptions{})
	return errors.Join(ignoreNotFound(err), ignoreNotFound(queueErr))
}

// Gone reports whether nothing of the namespace is left.
func (n *Namespace) Gone(ctx context.Context) (bool, string, error) {
	namespace, err := n.Kube.CoreV1().Namespaces().Get(ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, "", nil
	}
	if err != nil {
		return false, "", err
	}
	seen := "it is " + string(namespace.Status.Phase)
	for _, condition := range namespace.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			seen += "; " + condition.Message
		}
	}
	return false, seen, nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func kueueObject(kind, name string, content map[string]any) map[string]any {
	content["apiVersion"], content["kind"] = kueueVersion.String(), kind
	content["metadata"] = map[string]any{"name": name}
	return content
}

func clusterQueue(name, flavor string, gpus int) map[string]any {
	return kueueObject("ClusterQueue", name, map[string]any{"spec": map[string]any{
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": name}},
		"preemption":        map[string]any{"withinClusterQueue": "LowerPriority"},
		"resourceGroups": []any{map[string]any{
			"coveredResources": []any{GPU},
			"flavors": []any{map[string]any{
				"name":      flavor,
				"resources": []any{map[string]any{"name": GPU, "nominalQuota": int64(gpus)}},
			}},
		}},
	}})
}
