package main

import (
	"fmt"
	"sync"
	"time"
)

// timeline prints events with the seconds since its first one, as they come.
type timeline struct {
	mu    sync.Mutex
	begun time.Time
	said  map[string]bool
}

func newTimeline() *timeline { return &timeline{said: map[string]bool{}} }

// say prints an event of now.
func (t *timeline) say(who, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.print(time.Now(), who, fmt.Sprintf(format, args...))
}

// once prints an event of a time, the first time it is told of it.
func (t *timeline) once(at time.Time, who, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.said[who+what] {
		return
	}
	t.said[who+what] = true
	t.print(at, who, what)
}

func (t *timeline) print(at time.Time, who, what string) {
	if t.begun.IsZero() {
		t.begun = at
	}
	fmt.Printf("%6.1f s  %-5s %s\n", at.Sub(t.begun).Seconds(), who, what)
}
