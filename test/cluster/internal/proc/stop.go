package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Stop ends the component's process group: SIGTERM, then SIGKILL once grace is
// over. A grace of 0 is SIGKILL at once. Its record stays, so that status can
// tell "stopped" from "never started".
func (t Table) Stop(name string, grace time.Duration) error {
	r, err := t.Get(name)
	if err != nil {
		return err
	}
	if grace > 0 {
		there, err := r.Signal(syscall.SIGTERM)
		if err != nil {
			return err
		}
		if there && r.WaitGone(grace) {
			return nil
		}
	}
	if r.Alive() {
		// The group shares the leader's pid, which is checked to be ours.
		if err := syscall.Kill(-r.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill group of %s: %w", name, err)
		}
	}
	if !r.WaitGone(10 * time.Second) {
		return fmt.Errorf("%s (pid %d) did not end within 10 s of SIGKILL", name, r.PID)
	}
	return nil
}

// Marked lists the processes of this cluster that carry its marker in their
// environment, the caller excepted. Processes of other users cannot be read
// and are not ours.
func (t Table) Marked() ([]Identity, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	want := []byte(MarkerEnv + "=" + t.Marker)
	var found []Identity
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		id, err := Identify(pid)
		if err != nil {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			continue
		}
		for _, kv := range bytes.Split(env, []byte{0}) {
			if bytes.Equal(kv, want) && id.Alive() {
				found = append(found, id)
				break
			}
		}
	}
	return found, nil
}

// KillAll ends every recorded or marked process with SIGKILL, until none is
// left, except those with a pid in spare.
func (t Table) KillAll(spare ...int) error {
	keep := map[int]bool{os.Getpid(): true}
	for _, pid := range spare {
		keep[pid] = true
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		var live []Identity
		records, err := t.All()
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.Alive() && !keep[r.PID] {
				live = append(live, r.Identity)
			}
		}
		marked, err := t.Marked()
		if err != nil {
			return err
		}
		for _, id := range marked {
			if !keep[id.PID] {
				live = append(live, id)
			}
		}
		if len(live) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes did not end, among them pid %d", len(live), live[0].PID)
		}
		for _, id := range live {
			if _, err := id.Signal(syscall.SIGKILL); err != nil {
				return err
			}
		}
		for _, id := range live {
			id.WaitGone(2 * time.Second)
		}
	}
}
