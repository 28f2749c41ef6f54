package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"rtj.dev/rtj/test/cluster"
)

// Runner is who runs RTJ's hooks on a cluster: the operator, or an installed
// Metacontroller.
type Runner interface {
	// Start returns once it is ready. It reaches the API server at an endpoint.
	Start(ctx context.Context, at Endpoint) error
	// Stop ends it as a deployment would, and returns once it is gone. It is no
	// error if it does not run.
	Stop() error
	// Kill ends it with SIGKILL.
	Kill() error
	// String names it as RUNNER does.
	String() string
}

// Endpoint is where clients find the API server, or what stands before it. The
// zero value is the API server itself.
type Endpoint struct {
	Server string
	// CA that signed the server's certificate, in PEM.
	CA []byte
}

// direct is the endpoint of the API server itself.
func (c *Cluster) direct() (Endpoint, error) {
	ca, err := os.ReadFile(c.ClusterCA)
	return Endpoint{Server: c.APIServer, CA: ca}, err
}

// kubeconfig writes one for an endpoint; without a token whoever stands there has
// to know who comes.
func (c *Cluster) kubeconfig(name string, at Endpoint, token string) (path string, err error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: at.Server, CertificateAuthorityData: at.CA}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.CurrentContext = name
	path = filepath.Join(c.Dir, "secrets", name+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// Embedded is `rtj run`, the embedded applier.
type Embedded struct{ cluster *Cluster }

// NewEmbedded returns the operator of a cluster, which may run or not.
func (c *Cluster) NewEmbedded() *Embedded {
	// A cluster that was made without it has it from now on.
	c.Options.Operator = true
	return &Embedded{c}
}

func (*Embedded) String() string { return "embedded" }

// Start implements [Runner].
func (e *Embedded) Start(ctx context.Context, at Endpoint) error {
	if at.Server != "" {
		kubeconfig, err := e.cluster.kubeconfig("operator", at, "")
		if err != nil {
			return err
		}
		before := e.cluster.Options.OperatorArgs
		// The last of two equal flags wins.
		e.cluster.Options.OperatorArgs = append(append([]string{}, before...), "--kubeconfig="+kubeconfig)
		defer func() { e.cluster.Options.OperatorArgs = before }()
	}
	return e.cluster.StartComponent(ctx, cluster.Operator)
}

// Stop implements [Runner].
func (e *Embedded) Stop() error { return unlessNeverStarted(e.cluster.StopComponent(cluster.Operator)) }

// Kill implements [Runner].
func (e *Embedded) Kill() error { return unlessNeverStarted(e.cluster.KillComponent(cluster.Operator)) }

func unlessNeverStarted(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
