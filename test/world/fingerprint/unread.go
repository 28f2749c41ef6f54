package fingerprint

import (
	"maps"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/stated"
)

// as is how much of the times in a field decides anything that is still to come.
type as struct {
	// what is it: nothing at all, that there is one, its order among others, or also
	// its distance from now, up to an age.
	what what
	age  time.Duration
	// pool names the times that it is compared with; empty: none.
	pool string
}

type what int8

const (
	distance what = iota // up to an age; the order too, if it has a pool
	order
	presence
	nothing
	observer // the name of a process: whether that still runs
)

// rule says how a field of a kind's objects is taken up. In a field * stands for any
// key and for each item of a list; what lies below the field is taken up alike.
type rule struct {
	kind, field string
	as          as
	// when limits the rule to some objects; parent is the job that one belongs to, nil
	// if that is gone.
	when func(o, parent *apiserver.Object) bool
	why  string
}

// rules say how fields are taken up, and why; of several for one field the first whose
// condition holds counts. Times that no rule is for are taken up by their distance from
// now, up to [Horizon].
var rules = []rule{
	{"Workload", "metadata.creationTimestamp", as{what: order, pool: "queue"}, nil, "Kueue orders Workloads by it, and reads nothing else of it"},
	{"JobSet", "metadata.creationTimestamp", as{what: order, pool: "creation"}, ran, "that of a JobSet that has not run may be since when a write waits; later children are ordered by it"},
	{"", "metadata.creationTimestamp", as{what: order, pool: "creation"}, ofAJob, "children that are deleted are ordered by it"},
	{"", "metadata.creationTimestamp", as{what: nothing}, nil, "nobody reads it"},

	{"Job", "metadata.generation", as{what: nothing}, nil, "nobody reads it"},
	{"JobSet", "metadata.generation", as{what: nothing}, nil, "nobody reads it"},
	{"Pod", "metadata.generation", as{what: nothing}, nil, "nobody reads it"},
	{"ConfigMap", "metadata.generation", as{what: nothing}, nil, "nobody reads it"},

	{v1beta1.Kind, "status.conditions", as{what: presence}, over, "a job that ended keeps them"},
	{v1beta1.Kind, "status.conditions", as{what: nothing}, nil, "they are made anew at each sync, of what is taken up elsewhere"},
	{v1beta1.Kind, "status.ledger", as{what: presence}, nil, "times in accounts are written once, of now or of what is taken up elsewhere; what is read is whether they are there"},
	{v1beta1.Kind, "status.admission", as{what: nothing}, nil, "it is copied from the Workload, for people"},
	{v1beta1.Kind, "status.checkpoint", as{what: presence}, nil, "times are information only"},
	{v1beta1.Kind, "status.progress", as{age: 65 * time.Second}, nil, "it is written again after a minute; the rest is information"},
	{v1beta1.Kind, "status.totals", as{what: nothing}, nil, "sums for people"},
	{v1beta1.Kind, "status.preemptions", as{what: nothing}, nil, "a number for people"},
	{v1beta1.Kind, "status.workers", as{what: nothing}, nil, "made anew at each sync"},
	{v1beta1.Kind, "status.lastEnd.at", as{what: presence}, beganAgain, "an attempt began since, whose end replaces it"},
	{v1beta1.Kind, "status.lastEnd.at", as{age: 65 * time.Second}, ended, "the store has to be read after it, with a margin; what waits for pods counts from later events"},
	{v1beta1.Kind, "status.lastEnd.observedBy", as{what: observer}, nil, "what is read is whether that is the process that reads"},
	{v1beta1.Kind, "status.hold", as{age: Horizon, pool: "store"}, nil, "a reading of the store that is as late lifts a hold"},
	{v1beta1.Kind, "status.yield", as{what: presence}, yieldOver, "the attempt that was asked has ended"},

	{"ConfigMap", "data", as{what: presence}, documentOver, "the attempt that was asked has ended"},

	{"Workload", "metadata.annotations", as{what: order, pool: "reservation"}, podsReady, "the startup deadline is met; the reservation is told by its time"},
	{"Workload", "metadata.annotations." + v1beta1.AnnotationClaim, as{what: nothing}, staleClaim, "it is of another reservation, and no number in it is new"},
	{"Workload", "metadata.annotations." + v1beta1.AnnotationClaim, as{age: 20 * time.Minute, pool: "reservation"}, nil, "the startup deadline counts from it"},
	{"Workload", "status.conditions.*.lastTransitionTime", as{what: order, pool: "queue"}, unreserved, "Kueue orders by them; what counts from a reservation begins with the next"},
	{"Workload", "status.conditions.*.lastTransitionTime", as{what: order, pool: "reservation"}, podsReady, "what counts from a reservation is over once pods are ready; what counts from then on begins later"},
	{"Workload", "status.conditions.*.lastTransitionTime", as{age: Horizon, pool: "reservation"}, nil, "Kueue's deadlines count from them, and a reservation is told by its time"},
	{"Workload", "status.conditions.*.message", as{what: nothing}, undisturbed, "words about what was; only those about an eviction are read"},
	{"Workload", "status.accumulatedPastExecutionTimeSeconds", as{what: nothing}, nil, "the jobs have no maximum"},
	{"Workload", "status.conditions.*.observedGeneration", as{what: presence}, nil, "no time"},

	{"JobSet", "metadata.annotations." + v1beta1.AnnotationReservation, as{what: order, pool: "reservation"}, nil, "the reservation is told by its time"},
	{"JobSet", "metadata.annotations." + v1beta1.AnnotationStarted, as{age: 20 * time.Second, pool: "suspended"}, nil, "Jobs are waited for from then on, for 15 seconds; later it is compared with when they were suspended"},
	{"JobSet", "status", as{what: presence}, endedAttempt, "that it ended stands in the job's status"},
	{"Job", "status.conditions.*.lastTransitionTime", as{what: order, pool: "suspended"}, nil, "since when it is suspended is compared with when its JobSet was started; which Job failed first counts too"},
	{"Job", "status", as{what: presence}, nil, "the Jobs have no deadline"},
	{"Pod", "status", as{what: presence}, nil, "what counts from the start of a pod is with the kubelet"},
	{"Pod", "metadata.deletionTimestamp", as{age: time.Minute}, nil, "a leader is waited for 10 seconds after it; what the kubelet counts is with it"},
	{"Node", "status", as{what: presence}, nil, "what counts is since when the node is tainted"},
	{"ClusterQueue", "status", as{what: presence}, nil, "nobody reads since when"},
	{"LocalQueue", "status", as{what: presence}, nil, "nobody reads since when"},
}

func ofAJob(o, parent *apiserver.Object) bool { return parent != nil && o.Owner() == parent.UID }

func ran(o, _ *apiserver.Object) bool {
	return !o.Bool("spec", "suspend") || o.Annotation(v1beta1.AnnotationStarted) != ""
}

func beganAgain(o, _ *apiserver.Object) bool {
	return o.Int("status", "attempt") > o.Int("status", "lastEnd", "attempt")
}

// judged: the attempt ended, and how is known.
func judged(parent *apiserver.Object, attempt int64) bool {
	end, _ := parent.At("status", "lastEnd").(map[string]any)
	n, _ := end["attempt"].(int64)
	outcome, _ := end["outcome"].(string)
	return n > attempt || n == attempt && outcome != ""
}

func yieldOver(o, _ *apiserver.Object) bool { return judged(o, o.Int("status", "yield", "attempt")) }

func documentOver(_, parent *apiserver.Object) bool {
	return parent != nil && judged(parent, parent.Int("status", "attempt"))
}

func over(o, _ *apiserver.Object) bool { return stated.Ended(o) }

// ended: the newest attempt did, and how is known, and nothing waits for its pods.
func ended(o, _ *apiserver.Object) bool {
	return judged(o, o.Int("status", "attempt")) && !stated.Ended(o)
}

func undisturbed(o, _ *apiserver.Object) bool { return o.True("QuotaReserved") && !o.True("Evicted") }

func unreserved(o, _ *apiserver.Object) bool { return !o.True("QuotaReserved") }

// staleClaim: the claim is not of the reservation that stands, and its attempt is known.
func staleClaim(o, parent *apiserver.Object) bool {
	claim, ok := stated.ClaimOf(o)
	return parent != nil && ok && claim.Attempt <= parent.Int("status", "attempt") && !claim.Stands(o)
}

func podsReady(o, _ *apiserver.Object) bool { return o.True("PodsReady") }

func endedAttempt(o, parent *apiserver.Object) bool {
	return parent != nil && judged(parent, stated.Attempt(o))
}

// ways are the rules below a place in an object.
type ways struct {
	as    *as
	below map[string]*ways
}

// noWays: no rule is for what lies below.
var noWays = &ways{}

// at is what lies below a key.
func (w *ways) at(key string) *ways {
	if w.below == nil {
		return w // what is for all below
	}
	if below := w.below[key]; below != nil {
		return below
	}
	if below := w.below["*"]; below != nil {
		return below
	}
	if w.as != nil {
		return &ways{as: w.as}
	}
	return noWays
}

// chosen are the rules for an object, as bits by their place, of those with conditions.
func chosen(o, parent *apiserver.Object) (bits uint64) {
	for i := range rules {
		r := &rules[i]
		if (r.kind == o.Kind || r.kind == "") && (r.when == nil || r.when(o, parent)) {
			bits |= 1 << i
		}
	}
	return bits
}

// timeless is the bit of objects of jobs that are over: no time in them counts. The
// rules have those below.
const timeless = 1 << 63

// waysOf are the rules that were chosen.
func waysOf(bits uint64) *ways {
	root := &ways{}
	for i := range rules {
		if bits&(1<<i) == 0 {
			continue
		}
		at := root
		for _, key := range keysOf(rules[i].field) {
			if at.below == nil {
				at.below = map[string]*ways{}
			}
			next := at.below[key]
			if next == nil {
				next = &ways{}
				at.below[key] = next
			}
			at = next
		}
		if at.as == nil {
			at.as = &rules[i].as
		}
	}
	return root
}

// keysOf a field; the names of rtj's annotations have dots in them.
func keysOf(field string) []string {
	head, annotation, ok := strings.Cut(field, ".annotations.")
	if ok {
		return append(strings.Split(head, "."), "annotations", annotation)
	}
	return strings.Split(field, ".")
}

// read is what of an object anybody reads, before the rules. A job's accounts of attempts
// that ended, and how is known, are for people; that a JobSet or Job is no longer
// suspended is told by its spec.
func read(o *apiserver.Object) map[string]any {
	switch o.Kind {
	case v1beta1.Kind:
		return without(o, "ledger", func(entry map[string]any) bool {
			n, _ := entry["attempt"].(int64)
			return judged(o, n)
		})
	case "JobSet", "Job":
		return without(o, "conditions", func(c map[string]any) bool { return c["type"] == "Suspended" && c["status"] == "False" })
	}
	return o.Body
}

// without is an object without some items of a list in its status.
func without(o *apiserver.Object, list string, drop func(map[string]any) bool) map[string]any {
	items := o.List("status", list)
	if items == nil {
		return o.Body
	}
	status := maps.Clone(o.Body["status"].(map[string]any))
	items = slices.DeleteFunc(slices.Clone(items), func(item any) bool {
		m, _ := item.(map[string]any)
		return drop(m)
	})
	if status[list] = items; len(items) == 0 {
		delete(status, list)
	}
	body := maps.Clone(o.Body)
	body["status"] = status
	return body
}
