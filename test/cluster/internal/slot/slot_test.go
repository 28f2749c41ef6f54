package slot

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

func TestSlotsShareNothing(t *testing.T) {
	ports := map[int]int{}
	ranges := map[netip.Prefix]int{}
	for i := range Count {
		s := Slot{Index: i}
		for n := range PortsEach {
			p := s.Port(n)
			if p < 1024 || p >= 32768 {
				t.Fatalf("slot %d: port %d may be taken by an outgoing connection or is reserved", i, p)
			}
			if other, taken := ports[p]; taken {
				t.Fatalf("port %d belongs to slots %d and %d", p, other, i)
			}
			ports[p] = i
		}
		whole := netip.MustParsePrefix(s.Range())
		if whole != whole.Masked() || !netip.MustParsePrefix("127.0.0.0/8").Contains(whole.Addr()) {
			t.Fatalf("slot %d: %s is not a range of loopback addresses", i, whole)
		}
		if whole.Contains(netip.MustParseAddr("127.0.0.1")) {
			t.Fatalf("slot %d: %s holds 127.0.0.1", i, whole)
		}
		for n := range NodesEach {
			node := netip.MustParsePrefix(s.NodeRange(n))
			if node.Bits() != 24 || node != node.Masked() || !whole.Contains(node.Addr()) {
				t.Fatalf("slot %d: node range %s is not a /24 in %s", i, node, whole)
			}
			if other, taken := ranges[node]; taken {
				t.Fatalf("%s belongs to slots %d and %d", node, other, i)
			}
			ranges[node] = i
		}
	}
}

func TestTakeGivesEachClusterItsOwn(t *testing.T) {
	r := testRegistry(t)
	var mu sync.Mutex
	got := map[int]string{}
	var wait sync.WaitGroup
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		wait.Go(func() {
			s, err := r.Take(t.Context(), "/dir/"+id, id, nothing)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("%s: %v", id, err)
			} else if other, taken := got[s.Index]; taken {
				t.Errorf("slot %d was given to %s and %s", s.Index, other, id)
			}
			got[s.Index] = id
		})
	}
	wait.Wait()
	claims, err := r.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		if got[c.Index] != c.ID || c.Dir != "/dir/"+c.ID {
			t.Errorf("claim %+v, but slot %d was given to %s", c, c.Index, got[c.Index])
		}
	}
	if len(claims) != len(got) {
		t.Errorf("%d claims of %d clusters", len(claims), len(got))
	}
}

// nothing is what Take calls where Live knows every claim.
func nothing(Slot) error { return nil }

func TestNobodyTakesASlotWhoseClusterIsBeingFounded(t *testing.T) {
	r := testRegistry(t)
	var founded sync.Map
	r.Live = func(c Claim) bool { _, there := founded.Load(c.ID); return there }
	got := make(chan int, 20)
	var wait sync.WaitGroup
	for i := range cap(got) {
		wait.Go(func() {
			id := strconv.Itoa(i)
			s, err := r.Take(t.Context(), "/dir/"+id, id, func(Slot) error {
				time.Sleep(time.Millisecond) // founding takes its time
				founded.Store(id, true)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			got <- s.Index
		})
	}
	wait.Wait()
	close(got)
	seen := map[int]bool{}
	for slot := range got {
		if seen[slot] {
			t.Errorf("slot %d was given to two clusters", slot)
		}
		seen[slot] = true
	}
}

func TestASlotWhoseClusterCouldNotBeFoundedIsFree(t *testing.T) {
	r := testRegistry(t)
	founded := false
	r.Live = func(Claim) bool { return founded }
	full := errors.New("no space left on device")
	if _, err := r.Take(t.Context(), "/dir", "a", func(Slot) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	s, err := r.Take(t.Context(), "/dir", "b", func(Slot) error { founded = true; return nil })
	if err != nil || s.Index != 0 {
		t.Errorf("got slot %d, %v; want 0", s.Index, err)
	}
}

func TestTakePassesOverASlotWithABusyPort(t *testing.T) {
	r := testRegistry(t)
	busy := Slot{Index: 0}.Port(PortsEach - 1)
	r.Free = func(port int) bool { return port != busy }
	s, err := r.Take(t.Context(), "/dir", "a", nothing)
	if err != nil {
		t.Fatal(err)
	}
	if s.Index != 1 {
		t.Errorf("got slot %d, want 1: a port of slot 0 is in use", s.Index)
	}
}

func TestTakeReusesWhatNobodyHolds(t *testing.T) {
	r := testRegistry(t)
	gone := map[string]bool{}
	r.Live = func(c Claim) bool { return !gone[c.ID] }
	for _, id := range []string{"a", "b"} {
		if _, err := r.Take(t.Context(), "/dir", id, nothing); err != nil {
			t.Fatal(err)
		}
	}
	gone["a"] = true
	s, err := r.Take(t.Context(), "/dir", "c", nothing)
	if err != nil {
		t.Fatal(err)
	}
	if s.Index != 0 {
		t.Errorf("got slot %d, want 0, whose cluster is gone", s.Index)
	}
	if err := r.Release(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if s, err = r.Take(t.Context(), "/dir", "d", nothing); err != nil || s.Index != 1 {
		t.Errorf("got slot %d, %v; want 1, which was released", s.Index, err)
	}
}

func TestTakeSaysWhenAllAreTaken(t *testing.T) {
	r := testRegistry(t)
	r.Free = func(int) bool { return false }
	if s, err := r.Take(t.Context(), "/dir", "a", nothing); err == nil {
		t.Errorf("got slot %d although no port is free", s.Index)
	}
}

func TestLockIsHeldByOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Acquire(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	_, err = Acquire(ctx, path, func(pid int) {
		told = pid
		cancel()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a held lock was given out: %v", err)
	}
	if told != os.Getpid() {
		t.Errorf("the holder was said to be %d, it is %d", told, os.Getpid())
	}
	first.Release()
	again, err := Acquire(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	again.Release()
}

func TestARemovedLockStillExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Acquire(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	waiting, got := make(chan struct{}), make(chan *Lock)
	go func() {
		l, err := Acquire(t.Context(), path, func(int) { close(waiting) })
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	<-waiting
	first.Remove()
	second := <-got
	defer second.Remove()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if third, err := Acquire(ctx, path, nil); err == nil {
		third.Release()
		t.Error("two hold the lock after its file was removed once")
	}
}

func testRegistry(t *testing.T) Registry {
	return Registry{Dir: t.TempDir(), Live: func(Claim) bool { return true }, Free: func(int) bool { return true }}
}
