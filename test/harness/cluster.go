package harness

import (
	"context"
	"fmt"
	"os"

	"github.com/minio/minio-go/v7"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"rtj.dev/rtj/test/cluster"
)

// PoolLabel tells nodes apart that ResourceFlavors choose; see [Cluster.Pool].
const PoolLabel = "harness.rtj.dev/pool"

// Cluster is a local cluster with clients of its administrator.
type Cluster struct {
	*cluster.Cluster
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	Store   *minio.Client
}

// Start brings a cluster up, as [cluster.Start] does.
func Start(ctx context.Context, options cluster.Options) (*Cluster, error) {
	c, err := cluster.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	return connect(c)
}

// Open uses the cluster in a state folder, which goes on to run.
func Open(dir string) (*Cluster, error) {
	c, err := cluster.Open(dir)
	if err != nil {
		return nil, err
	}
	return connect(c)
}

func connect(c *cluster.Cluster) (*Cluster, error) {
	kube, err := kubernetes.NewForConfig(c.RESTConfig)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(c.RESTConfig)
	if err != nil {
		return nil, err
	}
	store, err := c.S3Client()
	if err != nil {
		return nil, err
	}
	return &Cluster{Cluster: c, Kube: kube, Dynamic: objects, Store: store}, nil
}

// Pool puts nodes into a pool: jobs of a queue of that pool run only there.
func (c *Cluster) Pool(ctx context.Context, pool string, nodes ...string) error {
	for _, node := range nodes {
		body := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, PoolLabel, pool)
		if _, err := c.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("put node %s into pool %s: %w", node, pool, err)
		}
	}
	return nil
}

// PythonProblem says what is missing of the Python environment in which trainers
// run, and is empty if it is there.
func PythonProblem(root string) string {
	for _, program := range []string{"python", "rtj-run"} {
		if _, err := os.Stat(root + "/.venv/bin/" + program); err != nil {
			return fmt.Sprintf("%v: the SDK's virtual environment is missing; `make` builds it", err)
		}
	}
	return ""
}
