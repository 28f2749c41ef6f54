package kueue

import (
	"slices"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// observeClasses: a class that is new, or has another value, is written to every
// Workload that names it. Until then, and after it, a Workload may have any priority.
func (k *Kueue) observeClasses() {
	now := k.API.List(workloadClasses)
	for _, o := range now {
		i := slices.IndexFunc(k.classes, func(old *apiserver.Object) bool { return old.Name == o.Name })
		if i >= 0 && k.classes[i].UID == o.UID && k.classes[i].Int("value") == o.Int("value") {
			continue
		}
		if !slices.Contains(k.rewrite, o.Name) {
			k.rewrite = append(slices.Clip(k.rewrite), o.Name)
		}
	}
	k.classes = now
}

func (k *Kueue) classEvents(add func(event.Event)) {
	var due []string
	for _, name := range k.rewrite {
		if len(k.others(name)) == 0 {
			continue
		}
		due = append(due, name)
		add(event.Event{Name: "kueue: rewrite the priority of class " + name, Do: func() { k.rewriteClass(name) }})
	}
	k.rewrite = due
}

// others are the Workloads of a class that have another priority.
func (k *Kueue) others(class string) (list []*apiserver.Object) {
	c := k.API.Get(workloadClasses, "", class)
	if c == nil {
		return nil
	}
	for _, o := range k.API.List("Workload") {
		if o.Text("spec", "priorityClassRef", "kind") == workloadClasses && className(o) == class && priorityOf(o) != c.Int("value") {
			list = append(list, o)
		}
	}
	return list
}

func (k *Kueue) rewriteClass(class string) {
	for _, o := range k.others(class) {
		_, _ = k.API.Update(by, o, "", func(body map[string]any) {
			below(body, "spec")["priority"] = k.API.Get(workloadClasses, "", class).Int("value")
		})
	}
	k.rewrite = slices.DeleteFunc(slices.Clone(k.rewrite), func(name string) bool { return name == class })
}
