package lifecycle

import (
	"fmt"

	"rtj.dev/rtj/test/world/apiserver"
)

// workers are the processes of pods, which do only what a script says. SIGTERM does
// nothing to them by itself.
type workers struct{ pods map[string]*worker } // by UID

type worker struct {
	ready, exited bool
	code          int32
}

// Start implements jobs.Workers.
func (w *workers) Start(pod *apiserver.Object) { w.pods[pod.UID] = &worker{} }

// Projected implements jobs.Workers.
func (w *workers) Projected(string, string, string) {}

// Terminate implements jobs.Workers.
func (w *workers) Terminate(string) {}

// Kill implements jobs.Workers.
func (w *workers) Kill(podUID string) { w.exit(podUID, 137) }

// State implements jobs.Workers.
func (w *workers) State(podUID string) (ready, exited bool, code int32) {
	p := w.pods[podUID]
	if p == nil {
		return false, false, 0
	}
	return p.ready, p.exited, p.code
}

func (w *workers) exit(podUID string, code int32) {
	if p := w.pods[podUID]; p != nil && !p.exited {
		*p = worker{exited: true, code: code}
	}
}

// verbWorkers has JobSet, the Jobs and the kubelets do what there is to do, and the
// workers of an attempt one thing; attempt=N is another one than the newest:
//
//	workers start               they begin, and are not ready
//	workers ready [pods=N]      all are ready, or so many
//	workers ending [pods=1]     somebody deletes pods, and their processes go on
//	workers stopping            SIGTERM comes, and their processes go on
//	workers stopped             they end with 0
//	workers complete            the same
//	workers fail [exit=N]       the first ends with N, the others when they are told to
//	workers fail disruption     the first is evicted, and so ends
func (w *world) verbWorkers(c *command) error {
	jobSet, err := w.jobSet(c)
	if err != nil {
		return err
	}
	what := c.word("")
	count := int64(1)
	if what == "ready" {
		count = 1 << 30
	}
	n, err := c.numbers(map[string]int64{"pods": count, "exit": 1})
	if err != nil {
		return err
	}
	w.runCluster()
	pods := w.pods(jobSet)
	first := pods[:min(int(n["pods"]), len(pods))]
	switch what {
	case "start", "stopping":
	case "ready":
		for _, p := range first {
			if worker := w.workers.pods[p.UID]; worker != nil {
				worker.ready = true
			}
		}
	case "ending":
		for _, p := range first {
			if err := w.cluster.DeletePod(namespace, p.Name, -1); err != nil {
				return err
			}
		}
	case "stopped", "complete":
		for _, p := range pods {
			w.workers.exit(p.UID, 0)
		}
	case "fail":
		if err := w.fail(pods, int32(n["exit"]), c.word("")); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown %q", what)
	}
	w.runCluster()
	return nil
}

// fail has the first pod end, and the others after it.
func (w *world) fail(pods []*apiserver.Object, code int32, how string) error {
	if len(pods) == 0 {
		return fmt.Errorf("there are no pods")
	}
	switch how {
	case "":
	case "disruption":
		code = 143
		if err := w.cluster.Evict(namespace, pods[0].Name); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown %q", how)
	}
	w.workers.exit(pods[0].UID, code)
	w.runCluster()
	for _, p := range pods[1:] {
		w.workers.exit(p.UID, 143)
	}
	return nil
}

// pods of a JobSet, in the order of their names.
func (w *world) pods(jobSet *apiserver.Object) (pods []*apiserver.Object) {
	for _, o := range w.api.List("Pod") {
		if o.Label("jobset.sigs.k8s.io/jobset-uid") == jobSet.UID {
			pods = append(pods, o)
		}
	}
	return pods
}

// jobSet returns the JobSet of attempt=N, or the newest.
func (w *world) jobSet(c *command) (*apiserver.Object, error) {
	if !c.has("attempt") {
		return w.newest("JobSet")
	}
	n, err := c.number("attempt", 0)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s-%d", jobName, n)
	o := w.api.Get("JobSet", namespace, name)
	if o == nil {
		return nil, fmt.Errorf("there is no JobSet %s", name)
	}
	return o, nil
}
