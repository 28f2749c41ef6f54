package gateway

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// within calls f on a thread in a network namespace. Sockets that f makes stay
// there. The thread is thrown away with the namespace: a goroutine that ends
// while it is locked to a thread ends the thread.
func within(namespace string, f func() error) error {
	file, err := os.Open(namespace)
	if err != nil {
		return err
	}
	defer file.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter network namespace %s: %w", namespace, err)
			return
		}
		done <- f()
	}()
	return <-done
}

// listenWithin listens on an address of a network namespace.
func listenWithin(namespace, address string) (net.Listener, error) {
	var listener net.Listener
	err := within(namespace, func() (err error) {
		listener, err = net.Listen("tcp4", address)
		return err
	})
	return listener, err
}

// dialWithin connects to an address of a network namespace.
func dialWithin(namespace, address string) (net.Conn, error) {
	var conn net.Conn
	err := within(namespace, func() (err error) {
		conn, err = net.Dial("tcp4", address)
		return err
	})
	return conn, err
}
