package lifecycle

import (
	"fmt"
	"math"
	"strings"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/patch"
	"rtj.dev/rtj/metacontroller/applier/plan"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// byUs is the instance of rtj that decides, and signs what it writes.
const byUs = "rtj"

// maxRequests is how many requests a change may take to settle.
const maxRequests = 100

// settle has rtj sync until it writes nothing any more, and tells what was decided and
// written.
func (w *world) settle() (string, error) {
	if w.job() == nil {
		return "there is no job\n", nil
	}
	w.told.Reset()
	settled := int64(-1)
	for range maxRequests {
		e := w.next()
		switch now := w.api.Revision(); {
		case e != nil:
			if err := w.do(e); err != nil {
				return "", err
			}
		case now == settled:
			return w.tell()
		default:
			settled = now
			w.runner.Enqueue(namespace, jobName)
		}
	}
	return "", fmt.Errorf("still writing after %d requests:\n%s", maxRequests, w.told.String())
}

// tell returns what was told, and when rtj comes again.
func (w *world) tell() (string, error) {
	if w.fault != nil {
		return "", w.fault
	}
	if w.told.Len() == 0 {
		w.told.WriteString("nothing\n")
	}
	if after := w.runner.ResyncAfter(namespace, jobName); after > 0 {
		fmt.Fprintf(&w.told, "again in %gs\n", math.Round(10*after.Seconds())/10)
	}
	return w.told.String(), nil
}

// next is what rtj does next: what a sync decided is written, and its patches are made,
// before the next sync begins.
func (w *world) next() (next *event.Event) {
	w.runner.Events(func(e event.Event) {
		if next == nil || isSync(next) && !isSync(&e) {
			next = &e
		}
	})
	return next
}

func isSync(e *event.Event) bool { return strings.HasPrefix(e.Name, byUs+": sync ") }

// do has rtj send a request, and tells what was written. An event is named after what
// it does: "rtj: create JobSet team-a/llama-1", "rtj: patch claim team-a/llama-w1".
func (w *world) do(e *event.Event) error {
	what := strings.Fields(strings.TrimPrefix(e.Name, byUs+": "))
	if len(what) != 3 {
		e.Do()
		return nil
	}
	verb, kind, name := what[0], what[1], strings.TrimPrefix(what[2], namespace+"/")
	before := map[string]*apiserver.Object{}
	for _, k := range written {
		before[k] = w.api.Get(k, namespace, name)
	}
	e.Do()
	for _, k := range written {
		was, is := before[k], w.api.Get(k, namespace, name)
		if was == is {
			continue
		}
		text, err := tellWrite(verb, kind, k, was, is)
		if err != nil {
			return err
		}
		w.told.WriteString(text)
		w.collect()
		return nil
	}
	if verb == string(plan.Create) {
		fmt.Fprintf(&w.told, "create %s/%s: refused\n", kind, name)
	}
	return nil
}

// written are the kinds of what rtj writes.
var written = []string{"Workload", "JobSet", "ConfigMap", "Pod", v1beta1.Kind}

// decided is told of every decision, before anything of it is written.
func (w *world) decided(_ string, _ *compose.Observation, d *compose.Decision) {
	if w.asked != nil {
		request, err := w.request()
		if err != nil {
			w.fault = err
			return
		}
		w.asked(request)
	}
	w.told.WriteString(w.tellRules(d.Rules))
}

// patched is told of every patch that was tried.
func (w *world) patched(name string, result patch.Result) {
	if text := "patch " + name + ": not made, pods are left\n"; result == patch.PodsLeft && !strings.HasSuffix(w.told.String(), text) {
		w.told.WriteString(text)
	}
}

// remove deletes an object in the background. What it owned goes after it; pods stay
// until their kubelets have ended them.
func (w *world) remove(place, by string) error {
	o := w.find(place)
	if o == nil {
		return fmt.Errorf("there is no %s", place)
	}
	err := w.api.Delete(by, o.Kind, o.Namespace, o.Name, apiserver.Deletion{UID: o.UID})
	w.collect()
	return err
}
