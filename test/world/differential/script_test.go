//go:build e2e

package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rtj.dev/rtj/test/world/event"
)

type object = map[string]any

// part is what scripts are about.
type part struct {
	// actors are those of a new simulated world, or, with of, the same ones in a clone.
	actors func(s *simulated, of []event.Actor) []event.Actor
	// memory takes up what the actors remember.
	memory func(actors []event.Actor, m *memory)
	// skip names the events that a script makes happen itself.
	skip func(name string) bool
	// missable names the events that need not happen for all to be at rest.
	missable func(name string) bool
	// state is how an object reads, by its kind. Kinds that are not in it are not seen.
	state map[string]func(o object) string
	// traced are the kinds whose states are compared one by one; of the others only
	// where they come to rest.
	traced []string
}

// lockstep is a script's namespace on a cluster, and the simulated worlds in which what
// was seen there could have happened.
type lockstep struct {
	*testing.T
	part   part
	real   *real
	models []*simulated
	// acts were done on the cluster since it was last at rest.
	acts []act
	step int
}

// act is what a script did, to be done in a simulated world.
type act struct {
	what string
	do   func(s *simulated) error
	// refused is whether the cluster refused it.
	refused bool
}

// run runs a script in a namespace of its own.
func (p part) run(t *testing.T, c *realCluster, script func(l *lockstep)) {
	t.Helper()
	namespace := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	script(&lockstep{T: t, part: p, real: newReal(t, p, c, namespace), models: []*simulated{newSimulated(p, namespace)}})
}

// namespace of the script; what has no namespace carries it in its name.
func (l *lockstep) namespace() string { return l.real.ns }

// do does an act on the cluster, and, at the next rest, in the model.
func (l *lockstep) do(what string, err error, model func(s *simulated) error) error {
	l.Helper()
	refused := apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
	if err != nil && !refused {
		l.Fatalf("%s: %v", what, err)
	}
	l.acts = append(l.acts, act{what, model, refused})
	return err
}

// create makes an object; its apiVersion is that of its kind.
func (l *lockstep) create(body object) error {
	l.Helper()
	what := fmt.Sprintf("create %v %v", body["kind"], at(body, "metadata", "name"))
	return l.do(what, l.real.create(body), func(s *simulated) error { return s.create(body) })
}

// patch makes a JSON merge patch; subresource is empty or "status".
func (l *lockstep) patch(kind, name string, patch object, subresource string) error {
	l.Helper()
	return l.do(fmt.Sprintf("patch %s %s", kind, name), l.real.patch(kind, name, patch, subresource),
		func(s *simulated) error { return s.patch(kind, name, patch, subresource) })
}

// update makes a merge patch of what it finds, guarded by the version it found.
func (l *lockstep) update(kind, name, subresource string, change func(o object, now time.Time) (patch object)) error {
	l.Helper()
	return l.do(fmt.Sprintf("update %s %s", kind, name), l.real.update(kind, name, subresource, change),
		func(s *simulated) error { return s.patch(kind, name, change(s.get(kind, name), s.clock), subresource) })
}

func (l *lockstep) delete(kind, name string) error {
	l.Helper()
	return l.do(fmt.Sprintf("delete %s %s", kind, name), l.real.delete(kind, name), func(s *simulated) error { return s.delete(kind, name) })
}

// second lets a second pass: what is made after it is younger.
func (l *lockstep) second() {
	l.real.second()
	l.acts = append(l.acts, act{what: "a second passes", do: func(s *simulated) error { s.second(); return nil }})
}

// rest waits until the cluster is at rest, and has the model come there.
func (l *lockstep) rest() {
	l.Helper()
	l.follow(l.real.rest(l.T, false), false)
}

// due waits until something happens by the passing of time.
func (l *lockstep) due() {
	l.Helper()
	l.follow(l.real.rest(l.T, true), true)
}

// follow finds the worlds in which what was seen can have happened.
func (l *lockstep) follow(seen []change, passing bool) {
	l.Helper()
	l.step++
	f := &search{part: l.part, acts: l.acts, seen: seen, passing: passing, show: l.real.show(l.T), been: map[string]bool{}}
	for _, m := range l.models {
		f.from(m, 0, 0)
	}
	if len(f.found) == 0 {
		l.Fatalf("rest %d: the model cannot do what the cluster did.\n%s", l.step, f.explain())
	}
	l.models, l.acts = f.found, nil
}

// apiVersions of the kinds in scripts.
var apiVersions = map[string]string{
	"Namespace": "v1", "ConfigMap": "v1", "Pod": "v1",
	"Job": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2",
	"Workload": "kueue.x-k8s.io/v1beta2", "LocalQueue": "kueue.x-k8s.io/v1beta2", "ClusterQueue": "kueue.x-k8s.io/v1beta2",
	"ResourceFlavor": "kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass": "kueue.x-k8s.io/v1beta2", "AdmissionCheck": "kueue.x-k8s.io/v1beta2",
}

// everywhere are the kinds without namespaces.
var everywhere = []string{"Namespace", "ClusterQueue", "ResourceFlavor", "WorkloadPriorityClass", "AdmissionCheck"}

func namespaced(kind string) bool { return !slices.Contains(everywhere, kind) }

// kinds that are seen.
func (p part) kinds() []string { return slices.Sorted(maps.Keys(p.state)) }

// show is all that is seen at one time, a line for each object.
func (p part) show(list func(kind string) []object) (text string) {
	for _, kind := range p.kinds() {
		for _, o := range list(kind) {
			text += fmt.Sprintf("  %s %v: %s\n", kind, at(o, "metadata", "name"), p.state[kind](o))
		}
	}
	return text
}

// at returns the value at a path of keys; nil when there is none.
func at(body object, path ...string) any {
	var value any = body
	for _, key := range path {
		m, ok := value.(object)
		if !ok {
			return nil
		}
		value = m[key]
	}
	return value
}

func items(value any) (list []object) {
	all, _ := value.([]any)
	for _, item := range all {
		if m, ok := item.(object); ok {
			list = append(list, m)
		}
	}
	return list
}

// conditions reads as "Admitted=True/Admitted@1", by type; @ is the observed generation.
func conditions(o object) string {
	var list []string
	for _, c := range items(at(o, "status", "conditions")) {
		line := fmt.Sprintf("%v=%v/%v", c["type"], c["status"], c["reason"])
		if g := c["observedGeneration"]; g != nil {
			line += fmt.Sprintf("@%v", g)
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}
