//go:build e2e

package applier_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/hooks/contract"
)

// eventLog keeps events as text.
type eventLog struct {
	mu   sync.Mutex
	seen []string
}

func (l *eventLog) Event(o *unstructured.Unstructured, eventType, reason, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, o.GetName()+" "+eventType+" "+reason+" "+message)
}

func (l *eventLog) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.seen {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return true
		}
	}
	return false
}

// Whoever looks at a parent finds what went wrong with it, and what became of it.
func TestEventsTellWhatWentWrong(t *testing.T) {
	w := newWorld(t)
	log := &eventLog{}
	w.events = log
	w.create(configMaps, w.namespace, object("v1", "ConfigMap", "taken", nil))
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		switch parentName(r) {
		case "fails":
			return nil, errors.New("out of ideas")
		case "refused":
			return answer("", `{apiVersion: v1, kind: Secret, metadata: {name: s}}`), nil
		case "conflict":
			return answer("", `{apiVersion: v1, kind: ConfigMap, metadata: {name: taken}}`), nil
		case "rejected":
			return answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: bad}, spec: {color: 7}}`), nil
		default:
			return answer(`{phase: Fine}`), nil
		}
	})
	for _, name := range []string{"fails", "refused", "conflict", "rejected", "fine"} {
		w.parent(name, nil)
	}
	for _, want := range [][]string{
		{"fails Warning SyncError", "sync hook: out of ideas"},
		{"refused Warning ResponseRefused", "children[0]", "kind not declared in childResources"},
		{"conflict Warning OwnershipConflict", "ConfigMap.v1 " + w.namespace + "/taken: exists already"},
		{"rejected Warning SyncError", "Part.exp.dev/v1 " + w.namespace + "/bad: creating", "spec.color"},
	} {
		w.eventually("there is an event "+strings.Join(want, " ... "), func() bool { return log.has(want...) })
	}
	w.quiet()
	if log.has("fine ") {
		t.Errorf("a parent that is fine has an event: %q", log.seen)
	}
}
