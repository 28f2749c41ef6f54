package lifecycle

import "fmt"

// verbJobs sets numbers in the status of every Job of an attempt, where `workers`
// has no word for it; terminating=unknown removes the field:
//
//	jobs active=1 terminating=1 [attempt=N]
//	jobs gone [attempt=N]
func (w *world) verbJobs(c *command) error {
	jobSet, err := w.jobSet(c)
	if err != nil {
		return err
	}
	jobs := w.jobsOf(jobSet)
	if c.word("") == "gone" {
		for _, job := range jobs {
			delete(w.related, id(job))
		}
		return nil
	}
	for _, key := range []string{"active", "ready", "terminating", "succeeded", "failed"} {
		if !c.has(key) {
			continue
		}
		unknown := key == "terminating" && c.text(key, "") == "unknown"
		n := int64(0)
		if !unknown {
			if n, err = c.number(key, 0); err != nil {
				return err
			}
		}
		for _, job := range jobs {
			if unknown {
				delete(below(job, "status"), key)
			} else {
				below(job, "status")[key] = n
			}
			w.touch(job)
		}
	}
	return nil
}

// verbJobSet sets numbers in the status of an attempt's JobSet, where `workers`
// has no word for it:
//
//	jobset ready=0 active=1 [attempt=N]
func (w *world) verbJobSet(c *command) error {
	jobSet, err := w.jobSet(c)
	if err != nil {
		return err
	}
	list, _ := below(jobSet, "status")["replicatedJobsStatus"].([]any)
	if len(list) == 0 {
		return fmt.Errorf("the JobSet counts no Jobs yet; say workers start first")
	}
	for _, key := range []string{"ready", "active", "succeeded", "failed", "suspended"} {
		if !c.has(key) {
			continue
		}
		n, err := c.number(key, 0)
		if err != nil {
			return err
		}
		list[0].(object)[key] = n
	}
	w.touch(jobSet)
	return nil
}
