package build

import (
	"context"
	"fmt"
	"io"
	"time"
)

// task is one thing to build.
type task struct {
	name     string
	expected time.Duration // with an empty compile cache
	run      func(context.Context) error
}

// beat is how often a long build says that it goes on.
const beat = 15 * time.Second

func runAll(ctx context.Context, tasks []task, progress io.Writer) error {
	est := estimate{}
	for i, t := range tasks {
		start := time.Now()
		ahead := tasks[i+1:]
		fmt.Fprintf(progress, "build %d/%d %s (%s)\n", i+1, len(tasks), t.name, est.remaining(t, 0, ahead))
		if err := withBeat(ctx, t, func() {
			elapsed := time.Since(start)
			fmt.Fprintf(progress, "build %d/%d %s: %s so far (%s)\n", i+1, len(tasks), t.name,
				elapsed.Round(time.Second), est.remaining(t, elapsed, ahead))
		}); err != nil {
			return fmt.Errorf("build %s: %w", t.name, err)
		}
		est.learn(t.expected, time.Since(start))
		fmt.Fprintf(progress, "build %d/%d %s: done in %s\n", i+1, len(tasks), t.name, time.Since(start).Round(100*time.Millisecond))
	}
	return nil
}

func withBeat(ctx context.Context, t task, tell func()) error {
	done := make(chan error, 1)
	go func() { done <- t.run(ctx) }()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			tell()
		}
	}
}

// estimate scales the expected times by what the programs built so far took.
type estimate struct{ expected, took time.Duration }

func (e *estimate) learn(expected, took time.Duration) {
	e.expected += expected
	e.took += took
}

// remaining is the time that the running task and those ahead still need.
func (e *estimate) remaining(running task, elapsed time.Duration, ahead []task) string {
	scale := 1.0
	if e.expected > 0 {
		scale = float64(e.took) / float64(e.expected)
	}
	left := max(0, time.Duration(float64(running.expected)*scale)-elapsed)
	for _, t := range ahead {
		left += time.Duration(float64(t.expected) * scale)
	}
	switch {
	case left < 5*time.Second:
		return "a few seconds to go"
	case left < 90*time.Second:
		return fmt.Sprintf("about %d s to go", int(left.Round(5*time.Second).Seconds()))
	default:
		return fmt.Sprintf("about %d min to go", int(left.Round(time.Minute).Minutes()))
	}
}
