// Package gateway joins a node in a network namespace of its own to the servers
// of the machine, which listen on loopback only.
//
//   - The machine's loopback ports that the node is to reach are also on the
//     loopback addresses of the node and of every pod, and the API server is at
//     its Service's address.
//   - Some of the node's loopback ports, the kubelet's among them, are on the
//     machine's.
//   - A registry serves the node's images.
//
// No server has to listen on anything but loopback, and no packet leaves a
// namespace: what crosses is what the gateway copies.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"

	"rtj.dev/rtj/test/kubeletnode/image"
	"rtj.dev/rtj/test/kubeletnode/namespaces"
)

// Options of Serve.
type Options struct {
	// Holder is the pid of the process that holds the node's namespaces.
	Holder int
	// APIServer is its port on the machine's loopback, and APIService the
	// address and port of its Service.
	APIServer  int
	APIService string
	// NodePorts of the node's loopback that the machine has on its own.
	NodePorts []int
	// MachinePorts of the machine's loopback that pods have on theirs.
	MachinePorts []int
	// Registry serves the images, on RegistryPort of the node's loopback.
	Registry *image.Registry
}

// RegistryPort is the registry's port on the node's loopback.
const RegistryPort = 5000

// socketPath is where the gateway answers the CNI plugin, in the node's mount
// namespace.
const socketPath = namespaces.RunDir + "/gateway.sock"

type gateway struct {
	Options
	mu   sync.Mutex
	pods map[string][]net.Listener
}

// Serve works until ctx ends.
func Serve(ctx context.Context, o Options) error {
	g := &gateway{Options: o, pods: map[string][]net.Listener{}}
	var open []net.Listener
	defer func() {
		for _, l := range open {
			_ = l.Close()
		}
	}()
	node := fmt.Sprintf("/proc/%d/ns/net", o.Holder)
	join := func(namespace, address string, dial func() (net.Conn, error)) error {
		l, err := listenWithin(namespace, address)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", address, err)
		}
		open = append(open, l)
		go forward(l, dial)
		return nil
	}
	if err := join(node, local(o.APIServer), machine(o.APIServer)); err != nil {
		return err
	}
	if err := join(node, o.APIService, machine(o.APIServer)); err != nil {
		return err
	}
	for _, port := range o.NodePorts {
		dial := func() (net.Conn, error) { return dialWithin(node, local(port)) }
		if err := join("/proc/self/ns/net", local(port), dial); err != nil {
			return err
		}
	}
	// Pods that use the node's network.
	host, err := g.open(node)
	if err != nil {
		return err
	}
	open = append(open, host...)

	images, err := listenWithin(node, local(RegistryPort))
	if err != nil {
		return fmt.Errorf("listen for the registry: %w", err)
	}
	server := &http.Server{Handler: o.Registry}
	go func() { _ = server.Serve(images) }()
	defer server.Close()

	if err := g.restore(); err != nil {
		return err
	}
	path := namespaces.Path(o.Holder, socketPath)
	_ = os.Remove(path)
	plugins, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen for the CNI plugin: %w", err)
	}
	go func() {
		<-ctx.Done()
		_ = plugins.Close()
	}()
	for {
		conn, err := plugins.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go g.answer(conn)
	}
}

// open lets the machine's ports appear on the loopback of a network namespace.
func (g *gateway) open(namespace string) ([]net.Listener, error) {
	var all []net.Listener
	for _, port := range g.MachinePorts {
		l, err := listenWithin(namespace, local(port))
		if err != nil {
			for _, l := range all {
				_ = l.Close()
			}
			return nil, fmt.Errorf("listen on %s in %s: %w", local(port), namespace, err)
		}
		all = append(all, l)
		go forward(l, machine(port))
	}
	return all, nil
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func machine(port int) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.Dial("tcp4", local(port)) }
}
