package main

import (
	"fmt"
	"os"
	"time"

	"rtj.dev/rtj/test/world"
)

// preempt has one job be preempted and resumed again and again.
func preempt(seed uint64, n int) bool {
	began, told := time.Now(), time.Now()
	found := world.Preempted(seed, n, func(c *world.Cycles) {
		if time.Since(told) < 10*time.Second {
			return
		}
		told = time.Now()
		fmt.Fprintf(os.Stderr, "sim: %d of %d cycles, the job takes at most %d bytes, %.0f s, %s\n", c.Done, n, c.StatusBytes, time.Since(began).Seconds(), inUse())
	})
	figures := fmt.Sprintf("%d cycles, %d hook calls, the job takes at most %d bytes, ledger: queued %s, starting %s, running %s, releasing %s; workers ran for %s; %.0f s",
		found.Done, found.Calls, found.StatusBytes, found.Queued, found.Starting, found.Running, found.Releasing, found.Trained, time.Since(began).Seconds())
	if found.Broken != nil {
		fmt.Printf("sim: FAILED %s; %s\n", found.Broken, figures)
		return false
	}
	fmt.Printf("sim: ok %s\n", figures)
	return true
}
