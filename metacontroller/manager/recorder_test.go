package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
)

func train(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "exp.dev/v1", "kind": "Train"}}
	o.SetNamespace("ns")
	o.SetName(name)
	o.SetUID("uid")
	return o
}

// recorded runs a recorder and returns the events that are there in the end.
func recorded(t *testing.T, record func(*Recorder)) (events []corev1.Event, dropped float64) {
	t.Helper()
	client := fake.NewClientset()
	registry := prometheus.NewRegistry()
	r, err := newRecorder(RecorderOptions{Component: "rtj", Host: "h", Registerer: registry}, client.CoreV1())
	if err != nil {
		t.Fatal(err)
	}
	record(r)
	for len(r.queue) > 0 {
		time.Sleep(time.Millisecond)
	}
	r.Close()
	list, err := client.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == "dropped" {
			dropped = m.GetCounter().GetValue()
		}
	}
	return list.Items, dropped
}

func TestRecorderWritesEvents(t *testing.T) {
	events, _ := recorded(t, func(r *Recorder) {
		r.Event(train("a"), "Warning", "SyncError", "sync hook: down")
		cluster := train("c")
		cluster.SetNamespace("")
		r.Event(cluster, "Normal", "Started", "runs")
	})
	var got []string
	for _, e := range events {
		o := e.InvolvedObject
		got = append(got, fmt.Sprintf("%s: %s %s %s/%s %s %s %s %s x%d", e.Namespace, o.APIVersion, o.Kind, o.Namespace, o.Name, e.Source.Component, e.Type, e.Reason, e.Message, e.Count))
	}
	slices.Sort(got)
	want := []string{
		"default: exp.dev/v1 Train /c rtj Normal Started runs x1",
		"ns: exp.dev/v1 Train ns/a rtj Warning SyncError sync hook: down x1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// The same event again is a count, not another event.
func TestRecorderCountsWhatRepeats(t *testing.T) {
	events, _ := recorded(t, func(r *Recorder) {
		for range 7 {
			r.Event(train("a"), "Warning", "SyncError", "down")
		}
	})
	if len(events) != 1 || events[0].Count != 7 {
		t.Errorf("got %d events: %+v", len(events), events)
	}
}

// One reason with ever different messages becomes one event after the tenth, and
// ends at the limit of the object; another object is not touched by that.
func TestRecorderBoundsOneObject(t *testing.T) {
	events, _ := recorded(t, func(r *Recorder) {
		for i := range 10 * objectBurst {
			if i >= overallBurst-1 {
				break
			}
			r.Event(train("loops"), "Warning", "SyncError", fmt.Sprint("down ", i))
		}
		r.Event(train("other"), "Warning", "SyncError", "down")
	})
	byObject := map[string]int{}
	counted := int32(0)
	for _, e := range events {
		byObject[e.InvolvedObject.Name]++
		if e.InvolvedObject.Name == "loops" {
			counted += e.Count
		}
	}
	if byObject["loops"] != 10 || byObject["other"] != 1 {
		t.Errorf("events by object: %v", byObject)
	}
	if counted != objectBurst {
		t.Errorf("%d writes for one object, want %d", counted, objectBurst)
	}
}

// The process as a whole is bounded too, and says how much it drops.
func TestRecorderBoundsAll(t *testing.T) {
	const all = overallBurst + 200
	events, dropped := recorded(t, func(r *Recorder) {
		for i := range all {
			r.Event(train(fmt.Sprint("t", i)), "Normal", "Started", "runs")
		}
	})
	// The bucket fills again while the test runs, so only sums are sure.
	if len(events)+int(dropped) != all || dropped == 0 {
		t.Errorf("%d events and %.0f dropped of %d", len(events), dropped, all)
	}
}

func TestEventsHoldNoSecrets(t *testing.T) {
	for text, want := range map[string]string{
		`Post "https://u:p4ss@host/sync": refused`:                        `Post "https://[hidden]@host/sync": refused`,
		`Post "https://host/sync?key=abc&x=1": refused`:                   `Post "https://host/sync?[hidden]": refused`,
		`answered 401 to Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.x`:    `answered 401 to Authorization: Bearer [hidden]`,
		`sent Authorization: Basic dTpw`:                                  `sent Authorization: Basic [hidden]`,
		`body: {"password": "p4ss", "user": "u"}`:                         `body: {"password": "[hidden]", "user": "u"}`,
		`token=abc rejected`:                                              `token=[hidden] rejected`,
		`Secret s3-keys: key is missing; basic authentication is not set`: `Secret s3-keys: key is missing; basic authentication is not set`,
		`https://host/sync?`:                                              `https://host/sync?`,
	} {
		if got := withoutSecrets(text); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	events, _ := recorded(t, func(r *Recorder) { r.Event(train("a"), "Warning", "SyncError", "token=abc") })
	if strings.Contains(events[0].Message, "abc") {
		t.Error(events[0].Message)
	}
}
