package apiserver

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/test/world/event"
)

// namespaceFinalizer keeps a deleted namespace until it is empty.
const namespaceFinalizer = "kubernetes"

// Collector is the garbage collector and the controller of namespaces.
type Collector struct{ server *Server }

// NewCollector returns the collector of a server. It remembers nothing.
func NewCollector(s *Server) *Collector { return &Collector{s} }

// Next implements event.Actor: time alone collects nothing.
func (c *Collector) Next() time.Time { return time.Time{} }

// Events implements event.Actor: one for each object that is to be collected.
func (c *Collector) Events(add func(event.Event)) {
	s := c.server
	if s.tidy() {
		return
	}
	exists := map[string]bool{}
	blocked := map[string]bool{}
	foreground := map[string]bool{}
	for _, kind := range s.Kinds() {
		for _, o := range s.List(kind) {
			exists[o.UID] = true
			if o.Deleting() && slices.Contains(o.Finalizers(), metav1.FinalizerDeleteDependents) {
				foreground[o.UID] = true
			}
			for _, uid := range o.owners {
				blocked[uid] = true
			}
		}
	}
	for _, kind := range s.Kinds() {
		for _, o := range s.List(kind) {
			switch {
			case foreground[o.UID] && !blocked[o.UID]:
				add(event.Event{Name: "collector: let go " + o.String(), Do: func() { c.letGo(o, metav1.FinalizerDeleteDependents) }})
			case kind == "Namespace" && o.Deleting() && c.empty(o.Name):
				add(event.Event{Name: "collector: let go " + o.String(), Do: func() { c.letGo(o, namespaceFinalizer) }})
			case o.Deleting():
			case c.ownerless(o, exists):
				add(event.Event{Name: "collector: collect " + o.String(), Do: func() { c.delete(o, Background) }})
			case slices.ContainsFunc(o.owners, func(uid string) bool { return foreground[uid] }):
				add(event.Event{Name: "collector: collect " + o.String(), Do: func() { c.delete(o, Foreground) }})
			case o.Namespace != "" && c.ends(o.Namespace):
				add(event.Event{Name: "namespace: delete " + o.String(), Do: func() { c.delete(o, Background) }})
			}
		}
	}
}

// tidy: nothing is being deleted, and all owners exist; so nothing is to be collected.
func (s *Server) tidy() bool {
	for _, h := range s.kinds {
		for _, o := range h.now() {
			if o.deleting {
				return false
			}
			for _, uid := range o.owners {
				if !s.exists(uid) {
					return false
				}
			}
		}
	}
	return true
}

func (s *Server) exists(uid string) bool {
	for _, h := range s.kinds {
		if slices.ContainsFunc(h.now(), func(o *Object) bool { return o.UID == uid }) {
			return true
		}
	}
	return false
}

func (c *Collector) ownerless(o *Object, exists map[string]bool) bool {
	owners := o.owners
	return len(owners) > 0 && !slices.ContainsFunc(owners, func(uid string) bool { return exists[uid] })
}

func (c *Collector) ends(namespace string) bool {
	ns := c.server.Get("Namespace", "", namespace)
	return ns != nil && ns.Deleting()
}

func (c *Collector) empty(namespace string) bool {
	for _, kind := range c.server.Kinds() {
		if slices.ContainsFunc(c.server.List(kind), func(o *Object) bool { return o.Namespace == namespace }) {
			return false
		}
	}
	return true
}

// delete and letGo do nothing where somebody was faster, as the real ones do.
func (c *Collector) delete(o *Object, p Propagation) {
	_ = c.server.Delete("collector", o.Kind, o.Namespace, o.Name, Deletion{UID: o.UID, Propagation: p})
}

func (c *Collector) letGo(o *Object, finalizer string) {
	now := c.server.Get(o.Kind, o.Namespace, o.Name)
	if now == nil || now.UID != o.UID {
		return
	}
	_, _ = c.server.Update("collector", now, "", func(body map[string]any) {
		meta := body["metadata"].(map[string]any)
		list, _ := meta["finalizers"].([]any)
		meta["finalizers"] = slices.DeleteFunc(list, func(f any) bool { return f == finalizer })
	})
}
