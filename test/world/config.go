package world

import (
	"fmt"
	"time"

	"rtj.dev/rtj/test/world/kueue"
	"rtj.dev/rtj/test/world/runner"
	"rtj.dev/rtj/test/world/trainer"
)

// Config is what a world begins with.
type Config struct {
	// Seed of everything that is drawn.
	Seed uint64
	// Jobs is the number of jobs, each of so many Pods.
	Jobs, Pods int
	// Urgent is the number of jobs, the first ones, that preempt others.
	Urgent int
	// Quotas are those of the flavors, in pods.
	Quotas []int64
	// Runners is the number of instances of rtj that act at once. More than one is
	// what leader election prevents; the jobs have to stay right all the same.
	Runners int
	// Steps that a training takes in all.
	Steps int64
	// Chaos is how many events happen before the faults stop.
	Chaos int
	// Acts is how much people do in that time.
	Acts int
	// Deletes, Ends and Meddles: people delete jobs, and the namespace, and reach into
	// what rtj made.
	Deletes, Ends, Meddles bool
	// Faults is the part of faults among the events, from 0 to 1.
	Faults float64
	// Damage has objects of the store get lost or damaged, SlowListings has listings
	// show some objects late.
	Damage, SlowListings bool
	// Flaws is the part of attempts whose program has a flaw, from 0 to 1; Reshard is
	// what the components of checkpoints allow, any if empty.
	Flaws   float64
	Reshard string
	// Lag has the views of rtj be late, SlowReads its readings of the store take time.
	Lag, SlowReads bool
	// Explored is as exploration wants it: all workers behave in the same way and take
	// the same time, and what may come in another order without making a difference
	// comes in one. FaultsLeft is how many faults an exploration may try in a run, and
	// CoarseTimes has it tell worlds apart only by about how long ago times are.
	Explored    bool
	FaultsLeft  int
	CoarseTimes bool
	// StepTime is what a step takes; 0: drawn.
	StepTime time.Duration
	// Behave chooses how the workers of an attempt behave; nil: it is drawn.
	Behave func(trainer.Attempt) trainer.Behaviour
	// JSONEvery has one sync in so many go through the messages of the hooks too; 0 is 100.
	JSONEvery int
	// LetPanic has panics end the process, with their stack.
	LetPanic bool
}

// drawn is the world of a seed: small, and each time with another emphasis.
func drawn(seed uint64) Config {
	r := Random(seed, "config")
	c := Config{
		Seed: seed, Jobs: 1 + r.IntN(2), Pods: 1 + r.IntN(2), Runners: 1,
		Steps: 4 + r.Int64N(12), Chaos: 50 << r.IntN(5), Acts: r.IntN(6),
		Faults: among(r, 0, 0.02, 0.1, 0.3),
	}
	c.Deletes, c.Ends, c.Meddles = r.IntN(3) == 0, r.IntN(20) == 0, r.IntN(3) == 0
	c.Damage, c.SlowListings = r.IntN(4) == 0, r.IntN(8) == 0
	c.Lag, c.SlowReads = r.IntN(2) == 0, r.IntN(3) == 0
	c.Flaws = among(r, 0, 0.1, 0.5)
	c.Reshard = among(r, "", "", "", "none")
	c.Quotas = []int64{int64(c.Pods) + r.Int64N(3)}
	if r.IntN(3) == 0 {
		c.Quotas = append(c.Quotas, int64(1+r.IntN(3)))
	}
	if c.Jobs > 1 {
		c.Urgent = r.IntN(2)
	}
	if r.IntN(8) == 0 {
		c.Runners = 2
	}
	return c
}

// again is how often people create a job anew once it is gone.
func (c Config) again(i int) int {
	switch {
	case !c.Explored:
		return 2
	case i < c.Urgent:
		return 1 // it comes later
	}
	return 0
}

func (c Config) jobNames() (names []string) {
	for i := range c.Jobs {
		names = append(names, fmt.Sprintf("%c", 'a'+i))
	}
	return names
}

func (c Config) kueue() kueue.Config {
	config := kueue.Defaults()
	config.Late = !c.Explored && Random(c.Seed, "kueue").IntN(2) == 0
	return config
}

func (c Config) runner(i int) runner.Options {
	return runner.Options{Name: fmt.Sprintf("rtj-%d", i), PodIntegration: true, Lag: c.Lag, SlowReads: c.SlowReads, InOrder: c.Explored, Faults: true}
}
