package world

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// people are those who apply, edit and delete jobs, and who reach into what is not
// theirs.
type people struct {
	api *apiserver.Server
	// plans are the jobs that they want, by name in order.
	plans []plan
	// acts is how much more they do; done: nothing at all.
	acts int
	done bool
	// deletes and ends: they delete jobs, and the namespace. meddles: and reach into
	// what rtj made.
	deletes, ends, meddles bool
	// rollbacks names checkpoints of a job that it may be rolled back to.
	rollbacks func(name string) []string
}

// peopleLookAt are the kinds of objects that people act upon.
var peopleLookAt = []string{jobKind, "Workload", "JobSet", "ConfigMap", "ClusterQueue", "LocalQueue", "Namespace"}

// plan is a job that somebody wants.
type plan struct {
	name string
	spec map[string]any
	// again is how often it is created anew after it was deleted.
	again int
}

func (p *people) clone(api *apiserver.Server, rollbacks func(string) []string) *people {
	c := *p
	c.api, c.rollbacks = api, rollbacks
	c.plans = append([]plan(nil), p.plans...)
	return &c
}

// Next implements event.Actor: people do not wait.
func (p *people) Next() time.Time { return time.Time{} }

// Events implements event.Actor.
func (p *people) Events(add func(event.Event)) {
	if p.done {
		return
	}
	for i := range p.plans {
		plan := &p.plans[i]
		job := p.api.Get(jobKind, namespace, plan.name)
		key := namespace + "/" + plan.name
		if job == nil {
			if plan.again > 0 {
				add(event.Event{Name: "user: create " + key, Weight: 5, Do: func() { p.create(plan) }})
			}
			continue
		}
		if p.acts <= 0 {
			continue
		}
		p.edits(job, key, add)
		if p.deletes && !job.Deleting() {
			add(event.Event{Name: "user: delete " + key, Do: func() { p.delete(job, apiserver.Background) }})
			add(event.Event{Name: "user: delete in the foreground " + key, Do: func() { p.delete(job, apiserver.Foreground) }})
		}
		if p.meddles {
			p.meddle(job, add)
		}
	}
	if p.acts > 0 {
		p.administer(add)
	}
	if ns := p.api.Get("Namespace", "", namespace); p.ends && p.acts > 0 && ns != nil && !ns.Deleting() {
		add(event.Event{Name: "user: delete namespace " + namespace, Do: func() { p.delete(ns, apiserver.Background) }})
	}
}

func (p *people) create(plan *plan) {
	if _, err := p.api.Create("user", newJob(plan.name, runtime.DeepCopyJSON(plan.spec))); err == nil {
		plan.again--
	}
}

// edits are those that the API allows at any time.
func (p *people) edits(job *apiserver.Object, key string, add func(event.Event)) {
	spec := func(name string, changes func() map[string]any) {
		add(event.Event{Name: "user: " + name + " " + key, Do: func() { p.patch(job, map[string]any{"spec": changes()}) }})
	}
	if job.Bool("spec", "suspend") {
		spec("resume", func() map[string]any { return map[string]any{"suspend": false} })
	} else {
		spec("pause", func() map[string]any { return map[string]any{"suspend": true} })
	}
	spec("edit the image of", func() map[string]any {
		return map[string]any{"template": template(job, func(replicated map[string]any) {
			container(replicated)["image"] = fmt.Sprintf("registry.example/llama:%d", job.Generation+1)
		})}
	})
	pods, _ := job.List("spec", "template", "spec", "replicatedJobs")[0].(map[string]any)["replicas"].(int64)
	other := 3 - pods // 1 or 2
	spec("resize to "+strconv.FormatInt(other, 10)+" pods", func() map[string]any {
		return map[string]any{"template": template(job, func(replicated map[string]any) { replicated["replicas"] = other })}
	})
	if job.Text("spec", "resume", "from") != "" {
		spec("drop the rollback of", func() map[string]any { return map[string]any{"resume": map[string]any{"from": nil}} })
	} else {
		for _, id := range p.rollbacks(job.Name) {
			spec("roll back to "+id, func() map[string]any { return map[string]any{"resume": map[string]any{"from": id}} })
		}
	}
}

// template is that of a job with a change of its first replicatedJob.
func template(job *apiserver.Object, change func(replicated map[string]any)) map[string]any {
	t := runtime.DeepCopyJSONValue(job.At("spec", "template")).(map[string]any)
	jobs, _ := t["spec"].(map[string]any)["replicatedJobs"].([]any)
	change(jobs[0].(map[string]any))
	return t
}

func container(replicated map[string]any) map[string]any {
	var o any = replicated
	for _, key := range []string{"template", "spec", "template", "spec"} {
		o = o.(map[string]any)[key]
	}
	return o.(map[string]any)["containers"].([]any)[0].(map[string]any)
}

// administer stops and starts queues.
func (p *people) administer(add func(event.Event)) {
	for _, kind := range []string{"ClusterQueue", "LocalQueue"} {
		for _, o := range p.api.List(kind) {
			for _, policy := range []string{"None", "Hold", "HoldAndDrain"} {
				if now := o.Text("spec", "stopPolicy"); now != policy && !(now == "" && policy == "None") {
					add(event.Event{Name: "user: stop " + o.String() + " by " + policy, Do: func() { p.patch(o, map[string]any{"spec": map[string]any{"stopPolicy": policy}}) }})
				}
			}
		}
	}
}

// stopped tells whether a queue is.
func (p *people) stopped() bool {
	for _, kind := range []string{"ClusterQueue", "LocalQueue"} {
		for _, o := range p.api.List(kind) {
			if policy := o.Text("spec", "stopPolicy"); policy != "" && policy != "None" {
				return true
			}
		}
	}
	return false
}

// startQueues starts all queues that somebody stopped.
func (p *people) startQueues() {
	for _, kind := range []string{"ClusterQueue", "LocalQueue"} {
		for _, o := range p.api.List(kind) {
			if policy := o.Text("spec", "stopPolicy"); policy != "" && policy != "None" {
				p.patch(o, map[string]any{"spec": map[string]any{"stopPolicy": "None"}})
			}
		}
	}
}

// putRight is what people do at last: they resume what is paused, activate what is
// deactivated, and start no more from checkpoints of their choice.
func (p *people) putRight() {
	for _, job := range p.api.List(jobKind) {
		if job.Deleting() {
			continue
		}
		for _, o := range p.api.Owned("Workload", job.UID) {
			if o.At("spec", "active") == false {
				p.patch(o, map[string]any{"spec": map[string]any{"active": true}})
			}
		}
		p.patch(job, map[string]any{"spec": map[string]any{"suspend": false, "resume": map[string]any{"from": nil, "onNone": "StartFresh"}}})
	}
}

// meddle is what people do to what rtj made: no fault of theirs may harm a job.
func (p *people) meddle(job *apiserver.Object, add func(event.Event)) {
	for _, kind := range []string{"Workload", "JobSet", "ConfigMap"} {
		for _, o := range p.api.Owned(kind, job.UID) {
			if !o.Deleting() {
				add(event.Event{Name: "user: delete " + o.String(), Fault: true, Do: func() { p.delete(o, apiserver.Background) }})
			}
		}
	}
	for _, o := range p.api.Owned("Workload", job.UID) {
		active := o.At("spec", "active") != false
		name := map[bool]string{true: "user: deactivate ", false: "user: activate "}[active]
		add(event.Event{Name: name + o.String(), Fault: active, Do: func() { p.patch(o, map[string]any{"spec": map[string]any{"active": !active}}) }})
	}
	for _, o := range p.api.Owned("JobSet", job.UID) {
		if o.Bool("spec", "suspend") {
			add(event.Event{Name: "user: start " + o.String(), Fault: true, Do: func() { p.patch(o, map[string]any{"spec": map[string]any{"suspend": false}}) }})
		} else {
			add(event.Event{Name: "user: suspend " + o.String(), Fault: true, Do: func() { p.patch(o, map[string]any{"spec": map[string]any{"suspend": true}}) }})
		}
	}
}

// patch and delete do what people see to be refused, which is no harm.
func (p *people) patch(o *apiserver.Object, body map[string]any) {
	body = maps.Clone(body)
	body["metadata"] = map[string]any{"uid": o.UID}
	if _, err := p.api.Patch("user", o.Kind, o.Namespace, o.Name, body, ""); err == nil {
		p.acts--
	}
}

func (p *people) delete(o *apiserver.Object, how apiserver.Propagation) {
	if err := p.api.Delete("user", o.Kind, o.Namespace, o.Name, apiserver.Deletion{UID: o.UID, Propagation: how}); err == nil {
		p.acts--
	}
}
