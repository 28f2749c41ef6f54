package cmd

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clusterFlags say which API server to use.
type clusterFlags struct{ kubeconfig string }

func (f *clusterFlags) add(command *cobra.Command) {
	command.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; the default is $KUBECONFIG, else the service account of the pod, else ~/.kube/config")
}

// config reaches the API server. Requests are not limited here: the API server
// shares itself out fairly.
func (f *clusterFlags) config() (*rest.Config, error) {
	config, err := f.load()
	if err != nil {
		return nil, badInput("--kubeconfig: %w", err)
	}
	config.QPS = -1
	config.UserAgent = fmt.Sprintf("rtj/%s", Version())
	return config, nil
}

// inCluster tells whether the API server is that of the pod in which this runs.
func (f *clusterFlags) inCluster() bool {
	if f.kubeconfig != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return false
	}
	_, err := rest.InClusterConfig()
	return err == nil
}

func (f *clusterFlags) load() (*rest.Config, error) {
	if f.inCluster() {
		return rest.InClusterConfig()
	}
	return f.file().ClientConfig()
}

func (f *clusterFlags) file() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
}

// namespace is that of the kubeconfig's context.
func (f *clusterFlags) namespace() string {
	if name, _, err := f.file().Namespace(); err == nil && name != "" {
		return name
	}
	return metav1.NamespaceDefault
}

// client is a client of the API server for the hooks.
func client(config *rest.Config) (dynamic.Interface, error) { return dynamic.NewForConfig(config) }
