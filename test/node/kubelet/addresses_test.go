package kubelet

import (
	"net/netip"
	"testing"
)

func TestAddressesAreUsedAgainAsLateAsPossible(t *testing.T) {
	node := netip.MustParseAddr("127.9.0.1")
	a := newAddresses(netip.MustParsePrefix("127.9.0.0/29"), node) // .0 to .7
	a.reserve(netip.MustParseAddr("127.9.0.4"))
	take := func(want string) {
		t.Helper()
		got, err := a.take()
		if err != nil || got.String() != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
	take("127.9.0.5")
	take("127.9.0.6")
	a.free(netip.MustParseAddr("127.9.0.5"))
	take("127.9.0.7")
	take("127.9.0.2") // neither the network's nor the node's own
	take("127.9.0.3")
	take("127.9.0.5")
	if got, err := a.take(); err == nil {
		t.Errorf("got %s out of a range that is used up", got)
	}
	a.free(netip.MustParseAddr("127.9.0.3"))
	take("127.9.0.3")
}
