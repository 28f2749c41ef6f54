package cluster

import (
	"context"
	"strings"
	"sync"
	"time"

	"rtj.dev/rtj/test/cluster/internal/proc"
)

// ComponentStatus is what can be seen of one component now.
type ComponentStatus struct {
	Name    string     `json:"name"`
	PID     int        `json:"pid,omitempty"`
	Alive   bool       `json:"alive"`
	Started *time.Time `json:"started,omitempty"`
	Port    int        `json:"port,omitempty"`
	// Ready is true if the component answers its readiness check; a component
	// without one is ready while it lives. Message says why not.
	Ready   bool   `json:"ready"`
	Message string `json:"message,omitempty"`
	// ResidentBytes is the memory that it occupies.
	ResidentBytes int64  `json:"residentBytes,omitempty"`
	Log           string `json:"log"`
}

// Status looks at every component.
func (c *Cluster) Status(ctx context.Context) []ComponentStatus {
	comps := c.components()
	all := make([]ComponentStatus, len(comps))
	var wait sync.WaitGroup
	for i, comp := range comps {
		wait.Go(func() { all[i] = c.look(ctx, comp) })
	}
	wait.Wait()
	return all
}

func (c *Cluster) look(ctx context.Context, comp component) ComponentStatus {
	s := ComponentStatus{Name: comp.name, Port: comp.port, Log: c.table().LogPath(comp.name)}
	var r proc.Record
	r, err := c.table().Get(comp.name)
	if err != nil {
		s.Message = "never started"
		return s
	}
	s.PID, s.Started, s.Alive = r.PID, &r.Started, r.Alive()
	if !s.Alive {
		s.Message = "has ended; see its log"
		return s
	}
	s.ResidentBytes = r.ResidentBytes()
	if comp.ready == nil {
		s.Ready = true
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := comp.ready(ctx); err != nil {
		s.Message = strings.SplitN(err.Error(), "\n", 2)[0]
		return s
	}
	s.Ready = true
	return s
}
