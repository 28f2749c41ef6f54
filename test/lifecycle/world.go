package lifecycle

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/test/scenario"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/jobs"
	"rtj.dev/rtj/test/world/kueue"
	"rtj.dev/rtj/test/world/runner"
	"rtj.dev/rtj/test/world/store"
)

// object is a Kubernetes object as JSON values.
type object = map[string]any

const (
	namespace = "team-a"
	jobName   = "llama"
)

// world is a simulated cluster of which every part does only what a script says, and
// an instance of rtj that does all that there is to do.
type world struct {
	now    time.Time
	runner *runner.Runner

	api       *apiserver.Server
	collector *apiserver.Collector
	kueue     *kueue.Kueue
	cluster   *jobs.Cluster
	workers   *workers
	store     *store.Store

	// told is what is told of a command so far, and fault what went wrong meanwhile.
	told  strings.Builder
	fault error
	said  map[string]string // the rule of each table, as shown last
	// progress is what the workers of an attempt reported last.
	progress map[int32]*checkpoint.Progress
	// asked gets every request before it is answered; it may be nil.
	asked func(*contract.SyncRequest)
	// uids are those that were shown, in order; checkpoints are their ids by how they
	// are shown.
	uids        []string
	checkpoints map[string]string
}

var start = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

func newWorld() *world {
	w := &world{now: start, said: map[string]string{}, progress: map[int32]*checkpoint.Progress{}, checkpoints: map[string]string{}}
	clock := func() time.Time { return w.now }
	w.api = apiserver.New(clock)
	w.collector = apiserver.NewCollector(w.api)
	w.kueue = kueue.New(kueue.Env{API: w.api, Now: clock}, kueue.Defaults())
	w.workers = &workers{pods: map[string]*worker{}}
	w.cluster = jobs.New(jobs.Env{API: w.api, Now: clock, Workers: w.workers, Prompt: true})
	w.store = store.New(store.Env{Now: clock})
	w.runner = runner.New(runner.Env{
		API: w.api, Now: clock, Store: w.store, Trace: w.decided, Patched: w.patched,
		JSON: func() bool { return true }, Differs: func(err error) { w.fault = err },
	}, runner.Options{Name: byUs, PodIntegration: true, InOrder: true})
	return w
}

// job is the newest version of it; nil before it was applied and once it is gone.
func (w *world) job() *apiserver.Object { return w.api.Get(v1beta1.Kind, namespace, jobName) }

// childKinds are those that the job has.
var childKinds = []string{"ConfigMap", "JobSet", "Workload"}

func (w *world) children() (all []*apiserver.Object) {
	for _, kind := range childKinds {
		all = append(all, w.api.Owned(kind, w.job().UID)...)
	}
	return all
}

// related are what rtj asks to see beside the children.
func (w *world) related() (all []*apiserver.Object) {
	job := w.job()
	for _, kind := range []string{"ClusterQueue", "Job", "LocalQueue", "Pod", "ResourceFlavor", "WorkloadPriorityClass"} {
		for _, o := range w.api.List(kind) {
			switch kind {
			case "LocalQueue":
				if o.Name != "default" && o.Name != job.Text("spec", "queueName") {
					continue
				}
			case "Job", "Pod":
				if o.Label(v1beta1.LabelUID) != job.UID || kind == "Pod" && !isLeader(o) {
					continue
				}
			}
			all = append(all, o)
		}
	}
	return all
}

// isLeader reports whether the hooks get to see a pod.
func isLeader(o *apiserver.Object) bool {
	return o.Label("jobset.sigs.k8s.io/job-index") == "0" && o.Label("batch.kubernetes.io/job-completion-index") == "0"
}

// request is what a runner sends now.
func (w *world) request() (*contract.SyncRequest, error) {
	job := w.job()
	o := &scenario.Observed{Now: &w.now, Finalizing: job.Deleting(), Parent: job.Body}
	for _, child := range w.children() {
		o.Children = append(o.Children, child.Body)
	}
	for _, related := range w.related() {
		o.Related = append(o.Related, related.Body)
	}
	return o.Request()
}

// collect has the garbage collector do what there is to do: what a deleted object
// owned goes, but for pods, which their kubelets end.
func (w *world) collect() {
	for {
		var first *event.Event
		w.collector.Events(func(e event.Event) {
			if first == nil {
				first = &e
			}
		})
		if first == nil {
			return
		}
		first.Do()
	}
}

// runCluster has JobSet, the Jobs and the kubelets do all that there is to do.
func (w *world) runCluster() {
	for before := int64(-1); before != w.api.Revision(); {
		before = w.api.Revision()
		w.cluster.Settle()
		w.collect()
	}
}

// find returns an object by Kind/name; nil when there is none.
func (w *world) find(place string) *apiserver.Object {
	kind, name, _ := strings.Cut(place, "/")
	if o := w.api.Get(kind, namespace, name); o != nil {
		return o
	}
	return w.api.Get(kind, "", name)
}

func place(o *apiserver.Object) string { return o.Kind + "/" + o.Name }

// newest returns the child of a kind with the greatest number at the end of its name.
func (w *world) newest(kind string) (*apiserver.Object, error) {
	job := w.job()
	if job == nil {
		return nil, fmt.Errorf("there is no job")
	}
	var newest *apiserver.Object
	for _, o := range w.api.Owned(kind, job.UID) {
		if newest == nil || suffix(o.Name) >= suffix(newest.Name) {
			newest = o
		}
	}
	if newest == nil {
		return nil, fmt.Errorf("there is no %s", kind)
	}
	return newest, nil
}

// suffix is the number at the end of a name.
func suffix(name string) int {
	n, _ := strconv.Atoi(strings.TrimLeft(name[strings.LastIndex(name, "-")+1:], "w"))
	return n
}

var (
	uid          = regexp.MustCompile(`\buid-\d+\b`)
	checkpointID = regexp.MustCompile(`\b(\d{6}-\d{12})-[0-9a-f]{12}-[0-9a-f]{16}\b`)
)

// plain is a text as scripts show it: UIDs are numbered as they come up, and of the
// ids of checkpoints only attempt and step are shown.
func (w *world) plain(text string) string {
	text = uid.ReplaceAllStringFunc(text, func(uid string) string {
		i := slices.Index(w.uids, uid)
		if i < 0 {
			i = len(w.uids)
			w.uids = append(w.uids, uid)
		}
		return fmt.Sprint("uid-", i+1)
	})
	return checkpointID.ReplaceAllStringFunc(text, func(id string) string {
		shown := shownID(id)
		w.checkpoints[shown] = id
		return shown
	})
}

func shownID(id string) string {
	return checkpointID.ReplaceAllString(id, "$1-000000000000-0000000000000000")
}

// below returns the mapping at a key and makes it if it is not there.
func below(o object, keys ...string) object {
	for _, key := range keys {
		next, ok := o[key].(object)
		if !ok {
			next = object{}
			o[key] = next
		}
		o = next
	}
	return o
}

func metadata(o object) object { return below(o, "metadata") }

func conditionOf(o object, kind string) object { return apiserver.Of(o).Condition(kind) }

// copyOf is a deep copy, with numbers as the API machinery has them.
func copyOf(o object) object {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // JSON values always encode.
	}
	plain, err := scenario.Parse(data)
	if err != nil {
		panic(err)
	}
	return plain
}
