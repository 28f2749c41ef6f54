//go:build e2e

package applier_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

var decidesPartStatus = annotated(applier.ChildStatusAnnotation, "parts.exp.dev")

func TestStatement30StatusOfAChildIsAppliedSeparately(t *testing.T) {
	for name, changes := range map[string][]func(*applier.CompositeController){
		"partial": {decidesPartStatus}, "complete": {decidesPartStatus, complete}, "OnDelete": {decidesPartStatus, method(applier.OnDelete)},
	} {
		t.Run(name, func(t *testing.T) {
			part := func(status string) *contract.SyncResponse {
				return answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red, size: 3}, status: `+status+`}`)
			}
			w := newWorld(t).run(always(part(`{phase: Ready, detail: {count: 1}}`)), changes...)
			w.parent("p", nil)
			w.eventually("the status is there", func() bool { return field(w.get(parts, "a"), "status", "detail", "count") == "1" })
			w.quiet()
			for _, entry := range w.get(parts, "a").GetManagedFields() {
				ofStatus := strings.Contains(entry.FieldsV1.GetRawString(), "f:status")
				separate := entry.Subresource == "status" && entry.Operation == metav1.ManagedFieldsOperationApply && strings.HasSuffix(entry.Manager, "-status")
				if ofStatus != separate {
					t.Errorf("%s (%s of %q) owns %s", entry.Manager, entry.Operation, entry.Subresource, entry.FieldsV1.GetRawString())
				}
			}

			w.patch(parts, "a", `{"status":{"phase":"Broken","foreign":"yes"}}`, "status")
			w.eventually("drift is repaired", func() bool { return field(w.get(parts, "a"), "status", "phase") == "Ready" })
			w.quiet()
			w.onSync(always(part(`{phase: Done}`)))
			w.applier.Enqueue(w.namespace, "p")
			w.eventually("the new status is there", func() bool { return field(w.get(parts, "a"), "status", "phase") == "Done" })
			w.quiet()
			if diff := cmp.Diff(map[string]any{"phase": "Done", "foreign": "yes"}, w.get(parts, "a").Object["status"]); diff != "" {
				t.Errorf("fields of others or dropped fields: %s", diff)
			}
			w.applier.Enqueue(w.namespace, "p")
			if idle := w.quiet(); len(idle) > 0 {
				t.Errorf("idle requests: %v", idle)
			}

			w.onSync(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red, size: 3}}`)))
			w.applier.Enqueue(w.namespace, "p")
			if writes := w.quiet(); len(writes) > 0 || field(w.get(parts, "a"), "status", "phase") != "Done" {
				t.Errorf("an answer without a status touched it: %v", writes)
			}
		})
	}
}

func TestStatement30NeverWithoutOptIn(t *testing.T) {
	w := newWorld(t).run(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red}, status: {phase: Ready}}`)))
	w.parent("p", nil)
	w.eventually("the child exists", func() bool { return w.get(parts, "a") != nil })
	w.quiet()
	if status := w.get(parts, "a").Object["status"]; status != nil {
		t.Errorf("status is %v", status)
	}
	for _, r := range w.requests.all {
		if strings.HasSuffix(r, "a/status") {
			t.Errorf("request %s", r)
		}
	}
}

func TestStatement30StatusUponAnOlderChildIsRefused(t *testing.T) {
	w := newWorld(t).run(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red, size: 3}, status: {phase: One}}`)), decidesPartStatus)
	w.parent("p", nil)
	w.eventually("the status is there", func() bool { return field(w.get(parts, "a"), "status", "phase") == "One" })
	w.quiet()
	// Two is decided for what is red only.
	w.onSync(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		color, phase := "red", "Two"
		if strings.Contains(string(r.Children.Get("Part.exp.dev/v1", w.namespace+"/a")), "green") {
			color, phase = "green", "Three"
		}
		return answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: `+color+`, size: 3}, status: {phase: `+phase+`}}`), nil
	})
	raced := w.beforeFirst("PATCH", "/parts/a/status", func() { w.patch(parts, "a", `{"spec":{"color":"green"}}`) })
	w.applier.Enqueue(w.namespace, "p")
	w.eventually("what is decided upon the newer child stands", func() bool { return field(w.get(parts, "a"), "status", "phase") == "Three" })
	if !raced.Load() {
		t.Error("no race was run")
	}
	if n := w.metric("rtj_applier_writes_total", "verb", "apply-status", "result", "conflict"); n != 1 {
		t.Errorf("%v conflicts", n)
	}
}

func TestStatement30WhatCannotBeIsRefused(t *testing.T) {
	c := controller(t, "x", annotated(applier.ChildStatusAnnotation, "configmaps"))
	a, err := applier.New(applier.Options{Config: server.config, Controller: c, Hooks: &world{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "configmaps has no status subresource") {
		t.Errorf("a kind without status: %v", err)
	}
	c.Annotations[applier.ChildStatusAnnotation] = "parts.exp.dev, jobs.batch"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "jobs.batch: not among spec.childResources") {
		t.Errorf("a kind that is no child: %v", err)
	}
	w := newWorld(t).run(always(answer("", configMapA, `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, status: fine}`)), decidesPartStatus)
	w.parent("p", nil)
	w.eventually("a status that is no object is refused", func() bool {
		return strings.Contains(w.logs.String(), "children[1]: Part.exp.dev/v1 "+w.namespace+"/a: status is not an object")
	})
	if w.get(configMaps, "a") != nil {
		t.Error("the rest of the answer was applied")
	}
}
