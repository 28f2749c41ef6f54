package gateway

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// forward connects whoever comes to a listener with what dial reaches, until the
// listener is closed.
func forward(listener net.Listener, dial func() (net.Conn, error)) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "accept on %s: %v\n", listener.Addr(), err)
			time.Sleep(100 * time.Millisecond) // out of descriptors, mostly
			continue
		}
		go join(conn, dial)
	}
}

// join copies both ways until both are done. A connection that cannot be made
// is one that is closed at once, which is what the caller sees of a refusal.
func join(conn net.Conn, dial func() (net.Conn, error)) {
	defer conn.Close()
	other, err := dial()
	if err != nil {
		return
	}
	defer other.Close()
	done := make(chan struct{})
	go func() {
		pipe(conn, other)
		close(done)
	}()
	pipe(other, conn)
	<-done
}

// pipe copies until from ends, and tells to.
func pipe(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		// One end is broken: so is the whole.
		_ = to.Close()
		_ = from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
