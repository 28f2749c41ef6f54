package hooks_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/contract"
)

// cluster is what one moment shows, in which the answers' writes are made. Nothing
// else happens in it, and no time passes.
type cluster struct {
	t       *testing.T
	moment  moment
	parent  object
	objects map[string]object          // by kind as requests write it, and place
	child   map[string]bool            // of which objects are children
	text    map[string]json.RawMessage // of those objects that have not changed
	version int
	// made are all writes, in their order.
	made []string
	// starts are those of JobSets, and lived the attempts that may have run before.
	starts []start
	lived  map[int64]bool
}

func newCluster(t *testing.T, m *moment) *cluster {
	t.Helper()
	c := &cluster{t: t, moment: *m, parent: parsed(t, m.request.Parent), objects: map[string]object{}, child: map[string]bool{}, text: map[string]json.RawMessage{}, version: 1000}
	for i, from := range []contract.ObjectMap{m.request.Children, m.request.Related} {
		for kind, objects := range from {
			for place, raw := range objects {
				c.objects[kind+" "+place] = parsed(t, raw)
				c.child[kind+" "+place] = i == 0
				c.text[kind+" "+place] = raw
			}
		}
	}
	c.noteLives()
	return c
}

// now is the moment that everybody sees.
func (c *cluster) now() *moment {
	m := c.moment
	r := *m.request
	r.Parent = encoded(c.t, c.parent)
	r.Children, r.Related = contract.ObjectMap{}, contract.ObjectMap{}
	for id, o := range c.objects {
		if c.text[id] == nil {
			c.text[id] = encoded(c.t, o)
		}
		kind, place, _ := strings.Cut(id, " ")
		if c.child[id] {
			r.Children.Set(kind, place, c.text[id])
		} else {
			r.Related.Set(kind, place, c.text[id])
		}
	}
	m.request = &r
	return &m
}

// apply makes the writes of an answer to the request, whose view may be an older
// one: the API server refuses what was decided upon an object that has changed.
func (c *cluster) apply(r *contract.SyncRequest, d *compose.Decision, response *contract.SyncResponse) {
	c.t.Helper()
	wanted := map[string]bool{}
	for _, raw := range response.Children {
		o := parsed(c.t, raw)
		kind, place := contract.KindKey(o["apiVersion"].(string), o["kind"].(string)), contract.ObjectKey(text(o, "metadata", "namespace"), text(o, "metadata", "name"))
		wanted[kind+" "+place] = true
		c.applyChild(kind, place, r.Children.Get(kind, place), o)
	}
	for kind, objects := range r.Children {
		for place := range objects {
			if id := kind + " " + place; !wanted[id] && c.objects[id] != nil {
				delete(c.objects, id)
				c.note("delete " + id)
			}
		}
	}
	c.applyStatus(r, response)
	for _, p := range d.Patches {
		c.applyPatch(p)
	}
}

// applyChild creates a child that was not seen, and updates one that is still as it
// was seen.
func (c *cluster) applyChild(kind, place string, seen json.RawMessage, want object) {
	id := kind + " " + place
	is := c.objects[id]
	if seen == nil {
		if is != nil {
			return
		}
		m := want["metadata"].(object)
		m["uid"], m["generation"], m["creationTimestamp"] = fmt.Sprintf("uid-%d", c.version), int64(1), c.moment.now.UTC().Format(time.RFC3339)
		c.objects[id], c.child[id] = want, true
		c.touch(id, want)
		c.note("create " + id)
		return
	}
	if is == nil || text(is, "metadata", "resourceVersion") != text(parsed(c.t, seen), "metadata", "resourceVersion") {
		return
	}
	next := maps.Clone(want)
	metadata := maps.Clone(want["metadata"].(object))
	next["metadata"] = metadata
	// What no child carries back stays.
	for _, path := range compose.NotReturned() {
		carry(is, next, path)
	}
	if equal(is, next) {
		return
	}
	c.note("update " + id + " " + string(encoded(c.t, want)))
	if !equal(is["spec"], next["spec"]) {
		generation, _ := metadata["generation"].(int64)
		metadata["generation"] = generation + 1
	}
	c.noteStart(is, next)
	c.objects[id] = next
	c.touch(id, next)
}

// carry takes the value at a path over.
func carry(from, into object, path []string) {
	for _, key := range path[:len(path)-1] {
		below, ok := from[key].(object)
		if !ok {
			return
		}
		next, _ := into[key].(object)
		if next = maps.Clone(next); next == nil {
			next = object{}
		}
		into[key] = next
		from, into = below, next
	}
	last := path[len(path)-1]
	if v, ok := from[last]; ok {
		into[last] = v
	}
}

// applyStatus is refused for a parent that has changed.
func (c *cluster) applyStatus(r *contract.SyncRequest, response *contract.SyncResponse) {
	if text(parsed(c.t, r.Parent), "metadata", "resourceVersion") != text(c.parent, "metadata", "resourceVersion") {
		return
	}
	status := parsed(c.t, response.Status)
	if equal(c.parent["status"], status) || len(status) == 0 && c.parent["status"] == nil {
		return
	}
	c.parent["status"] = status
	c.touch("", c.parent)
	c.note("status " + string(response.Status))
}

// applyPatch makes a patch whose preconditions hold; no pod is left.
func (c *cluster) applyPatch(p compose.Patch) {
	if p.StatusAttempt != nil && int64(*p.StatusAttempt) != number(c.parent, "status", "attempt") {
		return
	}
	target, id := c.parent, ""
	if p.Target.Resource != "resumabletrainingjobs" {
		kind := map[string]string{"workloads": "Workload", "pods": "Pod"}[p.Target.Resource]
		id = contract.KindKey(p.Target.APIVersion, kind) + " " + contract.ObjectKey(p.Target.Namespace, p.Target.Name)
		target = c.objects[id]
	}
	body := parsed(c.t, p.Body)
	guard := body["metadata"].(object)
	for _, key := range []string{"uid", "resourceVersion"} {
		if want, ok := guard[key]; ok && (target == nil || want != text(target, "metadata", key)) {
			return
		}
	}
	delete(guard, "resourceVersion")
	c.note("patch " + p.Name + " " + p.Target.Name + " " + string(encoded(c.t, body)))
	if target == nil {
		return
	}
	mergeInto(target, body)
	c.touch(id, target)
}

// mergeInto is RFC 7386.
func mergeInto(o, body object) {
	for key, value := range body {
		switch v := value.(type) {
		case nil:
			delete(o, key)
		case object:
			below, ok := o[key].(object)
			if !ok {
				below = object{}
				o[key] = below
			}
			mergeInto(below, v)
		default:
			o[key] = v
		}
	}
}

// touch gives an object that was changed another version; the parent has no id.
func (c *cluster) touch(id string, o object) {
	delete(c.text, id)
	c.version++
	o["metadata"].(object)["resourceVersion"] = strconv.Itoa(c.version)
}

func (c *cluster) note(write string) { c.made = append(c.made, write) }

// read answers a wish for a reading: the store holds what it held.
func (c *cluster) read() { c.moment = *c.moment.readAgain() }

// running are the JobSets whose pods may run, by name.
func (c *cluster) running() (names []string) {
	for id, o := range c.objects {
		suspend, _ := below(o, "spec")["suspend"].(bool)
		if strings.HasPrefix(id, "JobSet.") && !suspend && !isTrue(o, "Completed") && !isTrue(o, "Failed") {
			names = append(names, text(o, "metadata", "name"))
		}
	}
	slices.Sort(names)
	return names
}

func below(o object, keys ...string) object {
	for _, key := range keys {
		o, _ = o[key].(object)
	}
	return o
}

func text(o object, path ...string) string {
	s, _ := below(o, path[:len(path)-1]...)[path[len(path)-1]].(string)
	return s
}

func number(o object, path ...string) int64 {
	n, _ := below(o, path[:len(path)-1]...)[path[len(path)-1]].(int64)
	return n
}

func isTrue(o object, kind string) bool {
	list, _ := below(o, "status")["conditions"].([]any)
	return slices.ContainsFunc(list, func(item any) bool {
		c, _ := item.(object)
		return c["type"] == kind && c["status"] == "True"
	})
}
