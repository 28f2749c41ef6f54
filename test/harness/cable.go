package harness

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
)

// Cable is a TCP connection between a client and a server that can be cut.
type Cable struct {
	listener net.Listener
	target   string
	group    sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	ends  map[net.Conn]bool
	ended bool
}

// NewCable listens on a free port of loopback and connects whoever comes to the
// target. Close ends it.
func NewCable(target string) (*Cable, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Cable{listener: listener, target: target, ends: map[net.Conn]bool{}}
	c.group.Go(c.accept)
	return c, nil
}

// URL is where clients find it.
func (c *Cable) URL() string { return "http://" + c.listener.Addr().String() }

// Cut breaks all connections and those to come.
func (c *Cable) Cut() { c.set(true) }

// Mend lets connections through again.
func (c *Cable) Mend() { c.set(false) }

func (c *Cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if cut {
		c.breakAll()
	}
}

func (c *Cable) breakAll() {
	for conn := range c.ends {
		conn.Close()
	}
	clear(c.ends)
}

// Close ends all connections and waits for what it started.
func (c *Cable) Close() {
	c.mu.Lock()
	c.ended = true
	c.listener.Close()
	c.breakAll()
	c.mu.Unlock()
	c.group.Wait()
}

func (c *Cable) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.group.Go(func() { c.carry(client) })
	}
}

func (c *Cable) carry(client net.Conn) {
	defer client.Close()
	if !c.hold(client) {
		return
	}
	defer c.drop(client)
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !c.hold(server) {
		return
	}
	defer c.drop(server)
	var both sync.WaitGroup
	both.Go(func() { pour(server, client) })
	pour(client, server)
	both.Wait()
}

// pour copies until one side ends, then ends the other.
func pour(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	to.Close()
	from.Close()
}

func (c *Cable) hold(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut || c.ended {
		return false
	}
	c.ends[conn] = true
	return true
}

func (c *Cable) drop(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ends, conn)
}

// CableToStore is a Cable to the S3 server; give its URL to a job as endpoint.
func (c *Cluster) CableToStore() (*Cable, error) {
	return NewCable(strings.TrimPrefix(c.S3.Endpoint, "http://"))
}
