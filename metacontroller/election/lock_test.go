package election

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// store is a lease in memory.
type store struct {
	holder string
	writes []string
}

func (s *store) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: s.holder}, []byte(s.holder), nil
}

func (s *store) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return s.Update(ctx, r)
}

func (s *store) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	s.holder = r.HolderIdentity
	s.writes = append(s.writes, "to "+r.HolderIdentity)
	return nil
}

func (s *store) RecordEvent(string) {}
func (s *store) Identity() string   { return "a" }
func (s *store) Describe() string   { return "ns/lease" }

// A lease is given back only by who has it.
func TestOnlyItsOwnLeaseIsGivenBack(t *testing.T) {
	ours, nobodys := resourcelock.LeaderElectionRecord{HolderIdentity: "a"}, resourcelock.LeaderElectionRecord{}
	for _, c := range []struct {
		holder string
		want   error
	}{{"a", nil}, {"b", errNotOurs}, {"", errNotOurs}} {
		s := &store{}
		l := &lock{Interface: s, election: &Election{fence: NewFence(time.Minute)}}
		if err := l.Create(t.Context(), ours); err != nil {
			t.Fatal(err)
		}
		// Someone else may have written it meanwhile.
		s.holder = c.holder
		if _, _, err := l.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Update(t.Context(), nobodys); !errors.Is(err, c.want) {
			t.Errorf("held by %q: want %v, got %v", c.holder, c.want, err)
		}
		want := []string{"to a"}
		if c.want == nil {
			want = append(want, "to ")
		}
		if !slices.Equal(s.writes, want) {
			t.Errorf("held by %q: written %q, want %q", c.holder, s.writes, want)
		}
	}
}
