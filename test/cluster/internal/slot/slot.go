package slot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// Count is how many clusters one machine can hold side by side.
	Count = 256
	// PortsEach is the size of a cluster's block of ports.
	PortsEach = 40
	// firstPort keeps the blocks (20000 to 30239) below the range from which
	// Linux takes ports for outgoing connections (32768 and up).
	firstPort = 20000
	// NodesEach is how many /24 ranges for pods a cluster has.
	NodesEach = 16
)

// Slot is one cluster's share of the machine: slot i has the ports
// 20000+40i ... 20039+40i and the addresses 127.(64+i/16).(16(i mod 16)).0/20.
type Slot struct {
	Index int `json:"index"`
}

// Port is the n-th port of the block, n below PortsEach.
func (s Slot) Port(n int) int {
	if n < 0 || n >= PortsEach {
		panic(fmt.Sprintf("port %d of a block of %d", n, PortsEach))
	}
	return firstPort + PortsEach*s.Index + n
}

// Range is the loopback range of the cluster's pods, a /20.
func (s Slot) Range() string {
	return fmt.Sprintf("127.%d.%d.0/20", 64+s.Index/16, 16*(s.Index%16))
}

// NodeRange is the /24 of the n-th node, n below NodesEach.
func (s Slot) NodeRange(n int) string {
	if n < 0 || n >= NodesEach {
		panic(fmt.Sprintf("node range %d of %d", n, NodesEach))
	}
	return fmt.Sprintf("127.%d.%d.0/24", 64+s.Index/16, 16*(s.Index%16)+n)
}

// Claim is what the registry holds of a taken slot.
type Claim struct {
	Slot
	// Dir is the state folder of the cluster, ID its random id.
	Dir string `json:"dir"`
	ID  string `json:"id"`
}

// Registry is a folder with one file for each taken slot.
type Registry struct {
	Dir string
	// Live says whether a claim's cluster still exists; a claim of one that
	// does not is taken over.
	Live func(Claim) bool
	// Free says whether a TCP port of 127.0.0.1 can be listened on.
	Free func(port int) bool
}

// Take claims a slot for the cluster and calls found, which makes the cluster
// one that Live knows, before anybody else can look for a slot: a claim without
// its cluster is free. If found fails, so does Take. A slot any of whose ports
// is in use is passed over: it may belong to a cluster with another cache folder.
func (r Registry) Take(ctx context.Context, dir, id string, found func(Slot) error) (Slot, error) {
	lock, err := Acquire(ctx, filepath.Join(r.Dir, "lock"), nil)
	if err != nil {
		return Slot{}, err
	}
	defer lock.Release()
	busy := 0
	for i := range Count {
		slot := Slot{Index: i}
		claim, err := r.read(i)
		if err == nil && r.Live(claim) {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Slot{}, err
		}
		if !r.allFree(slot) {
			busy++
			continue
		}
		data, err := json.Marshal(Claim{Slot: slot, Dir: dir, ID: id})
		if err != nil {
			return Slot{}, err
		}
		tmp := r.path(i) + ".tmp"
		if err := os.WriteFile(tmp, append(data, '\n'), 0o644); err != nil {
			return Slot{}, err
		}
		if err := os.Rename(tmp, r.path(i)); err != nil {
			return Slot{}, err
		}
		return slot, found(slot)
	}
	return Slot{}, fmt.Errorf("all %d slots for local clusters are taken (%d of them only because a port is in use); see %s",
		Count, busy, r.Dir)
}

// Release gives the slots of the cluster with this id back.
func (r Registry) Release(ctx context.Context, id string) error {
	lock, err := Acquire(ctx, filepath.Join(r.Dir, "lock"), nil)
	if err != nil {
		return err
	}
	defer lock.Release()
	claims, err := r.claims()
	if err != nil {
		return err
	}
	for _, c := range claims {
		if c.ID == id {
			if err := os.Remove(r.path(c.Index)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Claims lists the slots that are taken, live or not.
func (r Registry) Claims(ctx context.Context) ([]Claim, error) {
	lock, err := Acquire(ctx, filepath.Join(r.Dir, "lock"), nil)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	return r.claims()
}

func (r Registry) claims() ([]Claim, error) {
	paths, err := filepath.Glob(filepath.Join(r.Dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Claim
	for _, path := range paths {
		i, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".json"))
		if err != nil {
			continue
		}
		c, err := r.read(i)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func (r Registry) path(i int) string { return filepath.Join(r.Dir, strconv.Itoa(i)+".json") }

func (r Registry) read(i int) (Claim, error) {
	data, err := os.ReadFile(r.path(i))
	if err != nil {
		return Claim{}, err
	}
	var c Claim
	if err := json.Unmarshal(data, &c); err != nil {
		return Claim{}, fmt.Errorf("%s: %w", r.path(i), err)
	}
	c.Index = i
	return c, nil
}

func (r Registry) allFree(s Slot) bool {
	for n := range PortsEach {
		if !r.Free(s.Port(n)) {
			return false
		}
	}
	return true
}

// PortFree reports whether 127.0.0.1:port can be listened on now.
func PortFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}
