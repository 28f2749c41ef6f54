package lifecycle

import (
	"fmt"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/contract"
)

// Moment is what is observed and what the store holds at one instant.
type Moment struct {
	Now     time.Time
	Request *contract.SyncRequest
	Catalog *checkpoint.Snapshot
}

// Moments runs a script and returns the moment of every sync in it.
func Moments(text []byte) ([]*Moment, error) {
	steps, _, err := parseScript(text)
	if err != nil {
		return nil, err
	}
	w := newWorld()
	var moments []*Moment
	w.asked = func(request *contract.SyncRequest) {
		moments = append(moments, &Moment{Now: w.now, Request: request, Catalog: w.reading()})
	}
	for _, s := range steps {
		if _, err := w.run(s.command); err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", s.line, s.command, err)
		}
	}
	return moments, nil
}

// After runs commands and returns the moment after the last one, for tests and
// benchmarks that begin in the middle of a story.
func After(commands ...string) (*Moment, error) {
	w := newWorld()
	for _, line := range commands {
		if _, err := w.run(line); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
	}
	request, err := w.request()
	if err != nil {
		return nil, err
	}
	return &Moment{Now: w.now, Request: request, Catalog: w.reading()}, nil
}
