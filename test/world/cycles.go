package world

import (
	"fmt"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/world/kueue"
)

// Cycles is what became of a job that was preempted and resumed again and again.
type Cycles struct {
	// Done is how many times, and Calls how many of the hook that took.
	Done, Calls int
	// StatusBytes is the most that the job's status took as JSON.
	StatusBytes int
	// Queued, Starting, Running and Releasing are where the time went by the ledger's
	// accounts of all attempts, those that left it included. They add up to the time from
	// the job's creation to the last release.
	Queued, Starting, Running, Releasing time.Duration
	// Trained is how long workers ran in truth.
	Trained time.Duration
	// Broken is the first promise that was not kept; nil: all were.
	Broken error
}

// cycles drives one job.
type cycles struct {
	*World
	found Cycles
	// released is when the quota of the attempt before was given back.
	released time.Time
	// kept are the manifests that the store has, oldest first.
	kept []string
}

// keptManifests is how many checkpoints the bucket keeps, as its owner's rules would
// have it: with all of 10,000, reading them is all that is measured.
const keptManifests = 10

// Preempted has Kueue preempt the one job of a world without faults n times, each time
// when it trains and has made a step, and admit it again. progress, if set, is told
// after each cycle.
func Preempted(seed uint64, n int, progress func(*Cycles)) Cycles {
	c := cycles{World: New(Config{Seed: seed, Jobs: 1, Pods: 2, Quotas: []int64{2}, Runners: 1, Steps: 1 << 40, StepTime: 5 * time.Second})}
	c.released = epoch
	for c.found.Broken == nil && c.found.Done < n {
		if c.found.Broken = c.cycle(); c.found.Broken != nil {
			break
		}
		c.found.Done++
		c.found.Calls = c.result().Calls
		if progress != nil {
			progress(&c.found)
		}
	}
	return c.found
}

// cycle is one of them: the job trains, is preempted, and trains again, which closes
// the account of the attempt before.
func (c *cycles) cycle() error {
	n := int64(c.found.Done + 1)
	trains := func() bool { return c.phase() == "Running" && c.newest().attempt() > n }
	if n == 1 {
		if err := c.until("it trains", func() bool { return c.phase() == "Running" }); err != nil {
			return err
		}
	}
	end := c.Now().Add(10 * time.Second)
	if err := c.until("it has made a step", func() bool { return !c.Now().Before(end) }); err != nil {
		return err
	}
	if err := c.kueue.Evict(namespace, c.workload(), kueue.Preempted); err != nil {
		return err
	}
	c.changed()
	if err := c.until("it trains again", trains); err != nil {
		return err
	}
	c.tidy()
	return c.judge()
}

// until has the world come on until something is so.
func (c *cycles) until(what string, so func() bool) error {
	for end := c.Now().Add(time.Hour); !so(); {
		if c.broken != nil {
			return c.broken
		}
		if c.Now().After(end) || !c.comeOn() {
			return fmt.Errorf("cycle %d: in vain until %s: %s", c.found.Done+1, what, c.life().standing())
		}
	}
	return nil
}

func (c *cycles) life() *life      { return c.promises.lives[c.promises.order[0]] }
func (c *cycles) phase() string    { return c.life().job.Text("status", "phase") }
func (c *cycles) workload() string { return c.api.Owned("Workload", c.life().uid)[0].Name }

// newest is the account of the attempt that runs; closed is that of the one before.
func (c *cycles) newest() account { return c.fromLast(1) }
func (c *cycles) closed() account { return c.fromLast(2) }

func (c *cycles) fromLast(n int) account {
	all := accounts(c.life().job)
	if len(all) < n {
		return nil
	}
	return all[len(all)-n]
}

// tidy deletes what is old in the store, and has the API server forget what nobody
// sees any more.
func (c *cycles) tidy() {
	past := c.trainer.Over()
	for _, commit := range past[len(past)-1].Commits {
		c.kept = append(c.kept, commit.ID)
	}
	for len(c.kept) > keptManifests {
		_ = c.store.Delete(c.life().prefix() + "manifests/" + c.kept[0] + ".json") // it answers
		c.kept = c.kept[1:]
	}
	for _, kind := range c.api.Kinds() {
		c.api.Forget(kind, c.api.Changed(kind))
	}
}

// judge adds up the account that was closed, and looks at what status says of all.
func (c *cycles) judge() error {
	job, n := c.life().job, int64(c.found.Done+1)
	bytes := len(job.JSON())
	c.found.StatusBytes = max(c.found.StatusBytes, bytes)
	if bytes > statusBound {
		return fmt.Errorf("cycle %d: the job takes %d bytes", n, bytes)
	}
	all := accounts(job)
	for _, number := range []struct {
		name     string
		is, want int64
	}{
		{"attempt", job.Int("status", "attempt"), n + 1},
		{"preemptions", job.Int("status", "preemptions"), n},
		{"workloadNumber", job.Int("status", "workloadNumber"), 1},
		{"entries of the ledger", int64(len(all)), min(n+1, v1beta1.MaxLedgerEntries)},
		{"totals.attempts", job.Int("status", "totals", "attempts"), max(0, n+1-v1beta1.MaxLedgerEntries)},
		{"failures", job.Int("status", "failures", "withoutProgress"), 0},
		{"attempts of the workers", int64(len(c.trainer.Over())), n},
	} {
		if number.is != number.want {
			return fmt.Errorf("cycle %d: %s: %d, want %d", n, number.name, number.is, number.want)
		}
	}
	return c.addUp(all, job.Int("status", "totals", "runSeconds"))
}

// addUp takes the newest account into the sums, and compares them with what is true.
func (c *cycles) addUp(all []account, totals int64) error {
	a, f := c.closed(), &c.found
	admitted, started, stopped, released := a.time("admittedAt"), a.time("startedAt"), a.time("stoppedAt"), a.time("releasedAt")
	f.Queued += admitted.Sub(c.released)
	f.Starting += started.Sub(admitted)
	f.Running += stopped.Sub(started)
	f.Releasing += released.Sub(stopped)
	c.released = released
	past := c.trainer.Over()
	run := past[len(past)-1]
	f.Trained += run.EndedAt.Sub(run.StartedAt)
	if sum, elapsed := f.Queued+f.Starting+f.Running+f.Releasing, released.Sub(epoch); sum != elapsed {
		return fmt.Errorf("cycle %d: the accounts add up to %s, and %s passed", f.Done+1, sum, elapsed)
	}
	seconds := totals
	for _, a := range all {
		seconds += a.runSeconds()
	}
	if run := int64(f.Running / time.Second); seconds != run {
		return fmt.Errorf("cycle %d: totals and ledger have %d s of run, and all accounts had %d", f.Done+1, seconds, run)
	}
	if more := stopped.Sub(started) - run.EndedAt.Sub(run.StartedAt); more < -time.Second || more > runTolerance {
		return fmt.Errorf("cycle %d: the ledger has %s of run, and workers ran for %s", f.Done+1, stopped.Sub(started), run.EndedAt.Sub(run.StartedAt))
	}
	return nil
}

// runTolerance is how much longer the ledger has an attempt run than its workers did,
// where nothing goes wrong: from the start of the JobSet to that of the first container,
// and from the end of the last to when the Jobs show it; times are whole seconds.
const runTolerance = 3 * time.Second
