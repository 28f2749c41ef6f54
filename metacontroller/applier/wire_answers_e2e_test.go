//go:build e2e

package applier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

// failing answers with a status and a body that would be applied.
func failing(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		if code != http.StatusNoContent && code != http.StatusNotModified {
			_, _ = w.Write(rawYAML(`{status: {phase: Bad}, children: [` + configMapA + `]}`))
		}
	}
}

// timeout sets the timeout of the sync hook.
func timeout(d time.Duration) func(*applier.CompositeController) {
	return func(c *applier.CompositeController) {
		c.Spec.Hooks.Sync.Webhook = &applier.Webhook{Timeout: &metav1.Duration{Duration: d}}
	}
}

// retries returns the delays of the log's lines "sync failed", in order.
func (w *world) retries() []time.Duration {
	w.t.Helper()
	var delays []time.Duration
	for _, match := range regexp.MustCompile(`msg="sync failed".* retryIn=(\S+)`).FindAllStringSubmatch(w.logs.String(), -1) {
		delay, err := time.ParseDuration(match[1])
		if err != nil {
			w.t.Fatal(err)
		}
		delays = append(delays, delay)
	}
	return delays
}

func TestStatement06OnlyStatus200Succeeds(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, answer := range map[string]http.HandlerFunc{
		"201": failing(201), "204": failing(204), "302": failing(302, "Location", "/elsewhere"), "304": failing(304),
		"400": failing(400), "404": failing(404), "500": failing(500), "503": failing(503), "hangs": hang,
		"garbage": saying(`"children"`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, told := newWire(t), &eventLog{}
			x.events = told
			x.answers(answer)
			limit := 10 * time.Second
			if name == "hangs" {
				limit = 100 * time.Millisecond
			}
			x.start(timeout(limit))
			x.parent("p", nil)
			x.eventually("it is tried again and again", func() bool { return len(x.retries()) >= 4 })
			if p := x.get(trains, "p"); p.Object["status"] != nil || x.get(configMaps, "a") != nil {
				t.Errorf("something was applied: status %v", p.Object["status"])
			}
			reason := "SyncError"
			if name == "garbage" {
				reason = "ResponseRefused"
			}
			if !told.has("p Warning "+reason, "sync hook: POST "+x.url+"/sync: ") {
				t.Errorf("events: %q", told.seen)
			}
			// Each delay is twice the one before, and up to a fifth more.
			for i, delay := range x.retries() {
				if least := 100 * time.Millisecond << i; delay < least || delay > least+least/5+time.Millisecond {
					t.Errorf("attempt %d is followed by a delay of %s, want %s", i+1, delay, least)
				}
			}
			x.answers(saying(`{status: {phase: Good}}`))
			x.eventually("it succeeds in the end", func() bool { return field(x.get(trains, "p"), "status", "phase") == "Good" })
		})
	}
}

// deadlines are hooks that note how much time they are given.
type deadlines struct {
	*world
	given chan time.Duration
}

func (d deadlines) Sync(ctx context.Context, r *contract.SyncRequest) (*contract.SyncResponse, error) {
	deadline, _ := ctx.Deadline()
	select {
	case d.given <- time.Until(deadline):
	default:
	}
	return d.world.Sync(ctx, r)
}

func TestStatement06TimeoutIsTenSecondsByDefault(t *testing.T) {
	w := newWorld(t)
	w.onSync(always(answer("")))
	d := deadlines{w, make(chan time.Duration, 1)}
	w.runWith(controller(t, w.namespace), d)
	w.parent("p", nil)
	if given := <-d.given; given > 10*time.Second || given <= 0 {
		t.Errorf("the hook was given %s", given)
	}
}

func TestStatement07HowStrictlyAnswersAreRead(t *testing.T) {
	mode := func(mode string) func(*applier.CompositeController) {
		return func(c *applier.CompositeController) {
			c.Spec.Hooks.Sync.Webhook = &applier.Webhook{ResponseUnMarshallMode: &mode}
		}
	}
	none := func(*applier.CompositeController) {}
	const unknown = `{"status":{"phase":"Fine"},"children":[],"labels":{"a":"b"}}`
	const double = `{"status":{"phase":"Bad"},"status":{"phase":"Fine"},"children":[]}`
	for _, c := range []struct {
		version string
		mode    func(*applier.CompositeController)
		body    string
		want    string // of the log; "" where the answer is applied
	}{
		{"v2", none, unknown, `unknown field`},
		{"v2", none, double, `occurs twice`},
		{"v1", none, unknown, ""},
		{"v1", none, double, ""},
		{"", none, unknown, ""},
		{"v2", mode("loose"), unknown, ""},
		{"v1", mode("strict"), double, `occurs twice`},
	} {
		t.Run(fmt.Sprintf("%s %.30s %s", c.version, c.body, c.want), func(t *testing.T) {
			x := newWire(t)
			x.answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(c.body)) })
			x.start(version(c.version), c.mode)
			x.parent("p", nil)
			if c.want == "" {
				x.eventually("the answer is applied", func() bool { return field(x.get(trains, "p"), "status", "phase") == "Fine" })
				return
			}
			x.eventually("the answer is refused", func() bool { return strings.Contains(x.logs.String(), c.want) })
			if status := x.get(trains, "p").Object["status"]; status != nil {
				t.Errorf("it was applied: %v", status)
			}
		})
	}
}

func TestStatement26ThrottledIsNotAskedAtOnce(t *testing.T) {
	t.Run("without Retry-After", func(t *testing.T) {
		x := newWire(t)
		x.answers(failing(http.StatusTooManyRequests))
		x.start()
		x.parent("p", nil)
		x.eventually("it is tried again", func() bool { return len(x.retries()) >= 2 })
		for _, delay := range x.retries() {
			if delay < time.Second {
				t.Errorf("tried again after %s", delay)
			}
		}
		x.answers(saying(`{status: {phase: Good}}`))
		x.eventually("it succeeds in the end", func() bool { return field(x.get(trains, "p"), "status", "phase") == "Good" })
	})
	for name, header := range map[string]string{
		"seconds": "3600", "a date": time.Now().Add(3 * time.Hour).UTC().Format(http.TimeFormat),
	} {
		t.Run(name, func(t *testing.T) {
			x := newWire(t)
			x.answers(failing(http.StatusTooManyRequests, "Retry-After", header))
			x.start()
			x.parent("p", nil)
			x.last("/sync")
			// No event makes it sooner.
			x.patch(trains, "p", `{"spec":{"x":1}}`)
			x.quiet()
			x.applier.Enqueue(x.namespace, "p")
			x.quiet()
			if n := len(x.to("/sync")); n != 1 {
				t.Errorf("%d requests", n)
			}
			if delays := x.retries(); len(delays) != 1 || delays[0] < time.Hour {
				t.Errorf("delays are %v", delays)
			}
		})
	}
}

func TestStatement26FailuresAreCountedByCause(t *testing.T) {
	const hooks = "rtj_applier_hook_errors_total"
	t.Run("over HTTP", func(t *testing.T) {
		x := newWire(t)
		large := saying(`{status: {message: "` + strings.Repeat("x", 1<<20) + `"}}`)
		causes := map[string]http.HandlerFunc{
			"throttled": failing(429),
			"status":    failing(500),
			"answer":    saying(`{children: [null]}`),
			"too-large": large,
			"timeout":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"connection": func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.Close()
			},
		}
		refusals := map[string]http.HandlerFunc{
			"undeclared":        saying(`{children: [{apiVersion: v1, kind: Secret, metadata: {name: a}}]}`),
			"another-namespace": saying(`{children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}]}`),
		}
		x.answers(func(w http.ResponseWriter, r *http.Request) {
			var request struct {
				Parent struct{ Metadata struct{ Name string } }
			}
			err := json.NewDecoder(r.Body).Decode(&request)
			if err != nil {
				t.Error(err)
			}
			name := request.Parent.Metadata.Name
			if f := causes[name]; f != nil {
				f(w, r)
			} else if f := refusals[name]; f != nil {
				f(w, r)
			} else {
				saying(`{status: {phase: Fine}}`)(w, r)
			}
		})
		x.start(timeout(500 * time.Millisecond))
		x.parent("fine", nil)
		x.eventually("a parent is synced", func() bool { return field(x.get(trains, "fine"), "status", "phase") == "Fine" })
		if n := x.metric(hooks); n != 0 {
			t.Errorf("%v failures are counted", n)
		}
		for cause := range causes {
			x.parent(cause, nil)
			x.eventually("it is counted as "+cause, func() bool { return x.metric(hooks, "hook", "sync", "cause", cause) > 0 })
		}
		for name := range refusals {
			before := x.metric(hooks, "cause", "answer")
			x.parent(name, nil)
			x.eventually(name+" is counted as answer", func() bool { return x.metric(hooks, "cause", "answer") > before })
		}
	})
	t.Run("in process", func(t *testing.T) {
		w := newWorld(t)
		w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
			if parentName(r) == "panic" {
				panic("as told")
			}
			return nil, errors.New("as told")
		})
		for _, cause := range []string{"panic", "hook"} {
			w.parent(cause, nil)
			w.eventually("it is counted as "+cause, func() bool { return w.metric(hooks, "hook", "sync", "cause", cause) > 0 })
		}
	})
}

// In v1 a customize hook of a parent in a namespace reaches that namespace only.
func TestCustomizeV1ReachesTheParentsNamespace(t *testing.T) {
	for name, c := range map[string]struct{ rule, want string }{
		"no namespace":       {`{apiVersion: v1, resource: configmaps, labelSelector: {matchLabels: {seen-by: NS}}}`, ""},
		"its own":            {`{apiVersion: v1, resource: configmaps, namespace: NS, labelSelector: {matchLabels: {seen-by: NS}}}`, ""},
		"another":            {`{apiVersion: v1, resource: configmaps, namespace: default}`, "relatedResources[0]: namespace default: version v1 reaches only the parent's, which is NS"},
		"by namespace label": {`{apiVersion: v1, resource: configmaps, namespaceSelector: {}}`, "relatedResources[0]: namespaceSelector: not in version v1 with a parent in a namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			x, other := newWire(t), newWorld(t)
			x.create(configMaps, x.namespace, labelled("mine", "seen-by", x.namespace))
			x.create(configMaps, other.namespace, labelled("theirs", "seen-by", x.namespace))
			in := strings.NewReplacer("NS", x.namespace)
			x.answers(byPath(map[string]http.HandlerFunc{
				"/sync":      saying(`{}`),
				"/customize": saying(`{relatedResources: [` + in.Replace(c.rule) + `]}`),
			}))
			x.start(withCustomize, func(cc *applier.CompositeController) { cc.Spec.Hooks.Customize.Version = "v1" })
			x.parent("p", nil)
			if c.want != "" {
				x.eventually("the rule is refused", func() bool { return strings.Contains(x.logs.String(), in.Replace(c.want)) })
				return
			}
			// sync is v2 and would show the other one.
			if got, want := strings.Join(x.last("/sync").keys(t, "related"), ", "), "ConfigMap.v1 "+x.namespace+"/mine"; got != want {
				t.Errorf("related are %s, want %s", got, want)
			}
			x.quiet()
			n := len(x.to("/sync"))
			x.create(configMaps, other.namespace, labelled("more", "seen-by", x.namespace))
			x.quiet()
			if len(x.to("/sync")) > n {
				t.Error("an object of another namespace causes a sync")
			}
		})
	}
}
