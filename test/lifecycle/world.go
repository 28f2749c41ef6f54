package lifecycle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/test/scenario"
)

// object is a Kubernetes object as JSON values.
type object = map[string]any

// world is what a script has set, and what the hooks made of it.
type world struct {
	now   time.Time
	hooks *hooks.Hooks
	store *store

	// parent is nil before it was applied and once it is gone.
	parent   object
	children map[string]object // by Kind/name
	related  map[string]object // by Kind/name
	// refusal is what the API server says to the creation of a JobSet.
	refusal string

	version int64
	number  int64
	patches []compose.Patch
	said    map[string]string // the rule of each table, as shown last

	// asked gets every request before it is answered; it may be nil.
	asked func(*contract.SyncRequest)
}

var start = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

func newWorld() *world {
	w := &world{now: start, store: newStore(), children: map[string]object{}, related: map[string]object{}, said: map[string]string{}}
	w.store.now = func() time.Time { return w.now }
	w.hooks = hooks.New(hooks.Options{
		Store: w.store, Patches: w, Launcher: w, Observer: "rtj", PodIntegration: true,
		Now: func() time.Time { return w.now },
		// Readings are instantaneous in a script; a person at a debugger is not.
		InlineRead: time.Hour,
	})
	return w
}

func (w *world) close() { w.hooks.Close() }

// timestamp is a time as objects have it.
func (w *world) timestamp() string { return w.now.Format(time.RFC3339) }

// touch gives an object a new resourceVersion.
func (w *world) touch(o object) {
	w.version++
	metadata(o)["resourceVersion"] = strconv.FormatInt(w.version, 10)
}

// create fills in what the API server does.
func (w *world) create(o object) {
	w.number++
	m := metadata(o)
	m["namespace"] = metadata(w.parent)["namespace"]
	m["uid"] = fmt.Sprintf("uid-%d", w.number)
	m["creationTimestamp"] = w.timestamp()
	m["generation"] = int64(1)
	w.touch(o)
}

func metadata(o object) object { return below(o, "metadata") }

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

func id(o object) string { return fmt.Sprintf("%v/%v", o["kind"], metadata(o)["name"]) }

// newest returns the child of a kind, the one with the greatest number at the end of its name.
func (w *world) newest(kind string) (object, error) {
	var newest object
	for _, o := range w.ordered(w.children) {
		if o["kind"] == kind && (newest == nil || suffix(o) >= suffix(newest)) {
			newest = o
		}
	}
	if newest == nil {
		return nil, fmt.Errorf("there is no %s", kind)
	}
	return newest, nil
}

// suffix is the number at the end of a name.
func suffix(o object) int {
	name, _ := metadata(o)["name"].(string)
	n, _ := strconv.Atoi(strings.TrimLeft(name[strings.LastIndex(name, "-")+1:], "w"))
	return n
}

func (w *world) ordered(objects map[string]object) []object {
	var list []object
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		list = append(list, objects[key])
	}
	return list
}

// setCondition sets a condition as controllers do: the time of the transition
// changes with the status.
func (w *world) setCondition(o object, kind, status, reason, message string) {
	s := below(o, "status")
	list, _ := s["conditions"].([]any)
	c := object{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": w.timestamp()}
	for i, item := range list {
		old := item.(object)
		if old["type"] != kind {
			continue
		}
		if old["status"] == status {
			c["lastTransitionTime"] = old["lastTransitionTime"]
		}
		list[i] = c
		return
	}
	s["conditions"] = append(list, c)
}

func conditionOf(o object, kind string) object {
	list, _ := below(o, "status")["conditions"].([]any)
	for _, item := range list {
		if c := item.(object); c["type"] == kind {
			return c
		}
	}
	return object{}
}

// request is what a runner sends now.
func (w *world) request() (*contract.SyncRequest, error) {
	deleting := metadata(w.parent)["deletionTimestamp"] != nil
	o := &scenario.Observed{Now: &w.now, Finalizing: deleting, Parent: w.parent, Children: w.ordered(w.children)}
	for _, related := range w.ordered(w.related) {
		if related["kind"] != "Pod" || isLeader(related) {
			o.Related = append(o.Related, related)
		}
	}
	return o.Request()
}

// copyOf is a deep copy.
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
