package kubelet

import (
	"fmt"
	"net/netip"
	"sync"
)

// addresses hands out the pods' addresses of the node's range. A freed address
// is used again as late as possible, so that a client that still has it does
// not reach a stranger.
type addresses struct {
	mu    sync.Mutex
	all   netip.Prefix
	used  map[netip.Addr]bool
	after netip.Addr // the last one given
}

func newAddresses(all netip.Prefix, node netip.Addr) *addresses {
	return &addresses{all: all.Masked(), used: map[netip.Addr]bool{all.Masked().Addr(): true, node: true}, after: node}
}

// reserve takes an address that a pod has already.
func (a *addresses) reserve(ip netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used[ip], a.after = true, ip
}

func (a *addresses) take() (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	start := a.after
	for ip := a.next(start); ; ip = a.next(ip) {
		if !a.used[ip] {
			a.used[ip], a.after = true, ip
			return ip, nil
		}
		if ip == start {
			return netip.Addr{}, fmt.Errorf("no address is free in %s", a.all)
		}
	}
}

func (a *addresses) next(ip netip.Addr) netip.Addr {
	ip = ip.Next()
	if !a.all.Contains(ip) {
		return a.all.Addr()
	}
	return ip
}

func (a *addresses) free(ip netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.used, ip)
}
