package webhook

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

// controllerOf makes a CompositeController of the YAML of its hooks, in flow form,
// and of further fields of its spec.
func controllerOf(t testing.TB, hooks string, fields ...string) *applier.CompositeController {
	t.Helper()
	list, err := applier.Parse([]byte(`
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: c}
spec:
  parentResource: {apiVersion: exp.dev/v1, resource: trains}
  generateSelector: true
  hooks: ` + hooks + "\n  " + strings.Join(fields, "\n  ")))
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// fixture are hooks, and what was logged about them.
type fixture struct {
	*Hooks
	log *logged
}

func newFixture(t testing.TB, c *applier.CompositeController, changes ...func(*Options)) *fixture {
	t.Helper()
	f := &fixture{log: &logged{}}
	o := Options{Controller: c, Logger: slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, change := range changes {
		change(&o)
	}
	var err error
	if f.Hooks, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

type logged struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

// serve starts a hook server for one test.
func serve(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server
}

// answers always the same.
func answering(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func request() *contract.SyncRequest {
	return &contract.SyncRequest{
		Controller: json.RawMessage(`{"kind":"CompositeController"}`),
		Parent:     json.RawMessage(`{"kind":"Train","metadata":{"name":"p","namespace":"n","uid":"u1"}}`),
		Children: contract.ObjectMap{
			"ConfigMap.v1":    {"n/b": json.RawMessage(`{"b":1}`), "n/a": json.RawMessage(`{"a":"<1>"}`)},
			"Part.exp.dev/v1": {},
		},
		Related: contract.ObjectMap{
			"ConfigMap.v1": {"n/a": json.RawMessage(`{}`), "other/a": json.RawMessage(`{}`)},
			"Node.v1":      {"node": json.RawMessage(`{}`)},
		},
	}
}

func TestWhatIsSent(t *testing.T) {
	clusterScoped := json.RawMessage(`{"kind":"Train","metadata":{"name":"p","uid":"u1"}}`)
	const head = `{"controller":{"kind":"CompositeController"},"parent":{"kind":"Train","metadata":{"name":"p","namespace":"n","uid":"u1"}},`
	const clusterHead = `{"controller":{"kind":"CompositeController"},"parent":{"kind":"Train","metadata":{"name":"p","uid":"u1"}},`
	const v2 = `"children":{"ConfigMap.v1":{"n/a":{"a":"<1>"},"n/b":{"b":1}},"Part.exp.dev/v1":{}},` +
		`"related":{"ConfigMap.v1":{"n/a":{},"other/a":{}},"Node.v1":{"node":{}}},`
	for name, c := range map[string]struct {
		hook   string
		change func(*contract.SyncRequest)
		want   string
	}{
		"v2": {"version: v2, ", func(*contract.SyncRequest) {}, head + v2 + `"finalizing":false}`},
		// In v1 the key of an object is its name, so what is elsewhere has no key.
		"v1": {"version: v1, ", func(*contract.SyncRequest) {},
			head + `"children":{"ConfigMap.v1":{"a":{"a":"<1>"},"b":{"b":1}},"Part.exp.dev/v1":{}},"related":{"ConfigMap.v1":{"a":{}},"Node.v1":{}},"finalizing":false}`},
		"no version is v1": {"", func(r *contract.SyncRequest) {
			r.Children, r.Related = contract.ObjectMap{"ConfigMap.v1": {"n/a": json.RawMessage(`{}`)}}, nil
		},
			head + `"children":{"ConfigMap.v1":{"a":{}}},"related":{},"finalizing":false}`},
		// For a cluster-scoped parent both versions have the same keys.
		"v1, cluster-scoped parent": {"version: v1, ", func(r *contract.SyncRequest) { r.Parent = clusterScoped }, clusterHead + v2 + `"finalizing":false}`},
		"v2, cluster-scoped parent": {"version: v2, ", func(r *contract.SyncRequest) { r.Parent = clusterScoped }, clusterHead + v2 + `"finalizing":false}`},
		"finalizing":                {"version: v2, ", func(r *contract.SyncRequest) { r.Finalizing = true }, head + v2 + `"finalizing":true}`},
		"nothing":                   {"version: v2, ", func(r *contract.SyncRequest) { r.Children, r.Related = nil, nil }, head + `"children":{},"related":{},"finalizing":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			var how *http.Request
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got, how = string(body), r
				answering(`{"children":[]}`)(w, r)
			})
			hook := `{` + c.hook + `webhook: {url: "` + server.URL + `/a/path?q=1"}}`
			h := newFixture(t, controllerOf(t, `{sync: `+hook+`, finalize: `+hook+`}`))
			r := request()
			c.change(r)
			before := r.Children["ConfigMap.v1"]
			call := h.Sync
			if r.Finalizing {
				call = h.Finalize
			}
			if _, err := call(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if how.Method != "POST" || how.RequestURI != "/a/path?q=1" || how.Header.Get("Content-Type") != "application/json" || how.ContentLength != int64(len(c.want)) {
				t.Errorf("%s %s %v", how.Method, how.RequestURI, how.Header)
			}
			for _, header := range []string{"Authorization", "If-None-Match"} {
				if how.Header.Get(header) != "" {
					t.Errorf("%s was sent", header)
				}
			}
			if diff := cmp.Diff(before, r.Children["ConfigMap.v1"]); diff != "" {
				t.Errorf("the request was modified: %s", diff)
			}
		})
	}
}

func TestWhatIsReturned(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answering(map[string]string{
			"/sync":      `{"status":{"phase":"Fine"},"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}],"resyncAfterSeconds":0.5}`,
			"/finalize":  ` {"finalized":true}` + "\n",
			"/customize": `{"relatedResources":[{"apiVersion":"v1","resource":"configmaps","names":["a"]}]}`,
		}[r.URL.Path])(w, r)
	})
	hook := func(path string) string {
		return path + `: {version: v2, webhook: {url: "` + server.URL + "/" + path + `"}}`
	}
	h := newFixture(t, controllerOf(t, `{`+hook("sync")+`, `+hook("finalize")+`, `+hook("customize")+`}`))

	synced, err := h.Sync(t.Context(), request())
	want := &contract.SyncResponse{
		Status:             json.RawMessage(`{"phase":"Fine"}`),
		Children:           []json.RawMessage{json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)},
		ResyncAfterSeconds: 0.5,
	}
	if diff := cmp.Diff(want, synced); err != nil || diff != "" {
		t.Errorf("sync: %v %s", err, diff)
	}
	finalized, err := h.Finalize(t.Context(), request())
	if diff := cmp.Diff(&contract.SyncResponse{Finalized: true}, finalized); err != nil || diff != "" {
		t.Errorf("finalize: %v %s", err, diff)
	}
	custom, err := h.Customize(t.Context(), &contract.CustomizeRequest{Controller: json.RawMessage(`{}`), Parent: request().Parent})
	rules := &contract.CustomizeResponse{RelatedResources: []contract.RelatedResourceRule{{APIVersion: "v1", Resource: "configmaps", Names: []string{"a"}}}}
	if diff := cmp.Diff(rules, custom); err != nil || diff != "" {
		t.Errorf("customize: %v %s", err, diff)
	}
}

func TestCustomizeIsSentControllerAndParent(t *testing.T) {
	var got string
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = string(body)
		answering(`{"relatedResources":null}`)(w, r)
	})
	h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "http://127.0.0.1:1"}}, customize: {webhook: {url: "`+server.URL+`"}}}`))
	if _, err := h.Customize(t.Context(), &contract.CustomizeRequest{Controller: json.RawMessage(`{"a":1}`), Parent: json.RawMessage(`{"b":2}`)}); err != nil {
		t.Fatal(err)
	}
	if want := `{"controller":{"a":1},"parent":{"b":2}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHookThatTheControllerDoesNotHave(t *testing.T) {
	h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "http://127.0.0.1:1"}}}`))
	if _, err := h.Finalize(t.Context(), request()); err == nil {
		t.Error("finalize: no error")
	}
	if _, err := h.Customize(t.Context(), &contract.CustomizeRequest{Parent: json.RawMessage(`{}`)}); err == nil {
		t.Error("customize: no error")
	}
}

// v1 is loose and v2 strict, unless responseUnMarshallMode says otherwise.
func TestHowStrictlyAnswersAreRead(t *testing.T) {
	const (
		fine    = `{"status":{"a":1},"children":[]}`
		unknown = `{"status":{"a":1},"children":[],"labels":{}}`
		double  = `{"status":{"a":2},"children":[],"status":{"a":1}}`
		within  = `{"status":{"a":2,"a":1},"children":[]}`
		child   = `{"status":{"a":1},"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"a"}}]}`
	)
	for name, c := range map[string]struct {
		hook   string
		strict bool
	}{
		"none":       {``, false},
		"v1":         {`version: v1, `, false},
		"v2":         {`version: v2, `, true},
		"v1, strict": {`version: v1, webhook: {responseUnMarshallMode: strict, `, true},
		"v2, loose":  {`version: v2, webhook: {responseUnMarshallMode: loose, `, false},
	} {
		t.Run(name, func(t *testing.T) {
			body := ""
			server := serve(t, func(w http.ResponseWriter, r *http.Request) { answering(body)(w, r) })
			hook := c.hook
			if !strings.Contains(hook, "webhook") {
				hook += "webhook: {"
			}
			h := newFixture(t, controllerOf(t, `{sync: {`+hook+`url: "`+server.URL+`"}}}`))
			for what, want := range map[string]string{
				fine:    "",
				unknown: `unknown field "labels"`,
				double:  `"status" occurs twice`,
				within:  `status: "a" occurs twice`,
				child:   `children[0].metadata: "name" occurs twice`,
			} {
				body = what
				_, err := h.Sync(t.Context(), request())
				switch {
				case want == "" || !c.strict:
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
					if want != "" && !strings.Contains(h.log.String(), strings.ReplaceAll(want, `"`, `\"`)) {
						t.Errorf("what was passed over is not logged: %s", want)
					}
				case err == nil || !strings.HasSuffix(err.Error(), want+"; it begins: "+what):
					t.Errorf("%s\ngot  %v\nwant ... %s", what, err, want)
				}
			}
		})
	}
}

// Answers that mean nothing certain are refused in both modes: the applier would
// delete children for want of them.
func TestAnswersThatAreAlwaysRefused(t *testing.T) {
	for _, mode := range []string{"strict", "loose"} {
		body := ""
		server := serve(t, func(w http.ResponseWriter, r *http.Request) { answering(body)(w, r) })
		hook := `{webhook: {responseUnMarshallMode: ` + mode + `, url: "` + server.URL + `"}}`
		h := newFixture(t, controllerOf(t, `{sync: `+hook+`, customize: `+hook+`}`))
		for what, want := range map[string]string{
			``:                             "want an object, got nothing",
			`null`:                         "want an object, got null",
			`[]`:                           "want an object, got a list",
			`<html>busy</html>`:            "want an object, got '<'",
			`{"children":[`:                "children[0]: want an object, got nothing",
			`{"children":[]} {}`:           "data after the end of the message, at offset 16",
			`{"children":[null]}`:          "children[0]: want an object, got null",
			`{"children":[{"kind":"A"}]}`:  "children[0].apiVersion: missing",
			`{"children":{}}`:              "children: want a list, got an object",
			`{"status":[]}`:                "status: want an object, got a list",
			`{"finalized":"true"}`:         "finalized: want a boolean, got a string",
			`{"error":"no such parent"}`:   `unknown field "error"`,
			strings.Repeat(`{"a":`, 10000): "nested deeper than 1000",
			`{"children":[{"apiVersion":"v1","kind":"C","metadata":{"name":"a"}},{"apiVersion":"v1","kind":"C","metadata":{"name":"a"}}]}`: "children[1]: C.v1 a occurs twice",
		} {
			body = what
			_, err := h.Sync(t.Context(), request())
			full := "POST " + server.URL + ": answer not understood: " + want
			if what != "" {
				full += "; it begins: " + what[:min(len(what), 512)]
			}
			if len(what) > 512 {
				full += " ..."
			}
			if err == nil || err.Error() != full || causeOf(t, err) != applier.CauseAnswer {
				t.Errorf("%s: %.100s\ngot  %v\nwant %s", mode, what, err, full)
			}
		}
		for _, what := range []string{``, `null`, `[]`, `{"relatedResources":{}}`, `{"error":"x"}`, `{"relatedResources":[{"resource":"pods"}]}`, `{"relatedResources":[null]}`} {
			body = what
			if _, err := h.Customize(t.Context(), &contract.CustomizeRequest{Controller: json.RawMessage(`{}`), Parent: json.RawMessage(`{}`)}); err == nil {
				t.Errorf("%s: customize accepts %s", mode, what)
			}
		}
	}
}

// Nulls in fields of their own say nothing, as if the fields were not there: what
// other languages make of a value that is not set.
func TestNullFieldsAreNone(t *testing.T) {
	server := serve(t, answering(`{"status":null,"children":null,"resyncAfterSeconds":null,"finalized":null}`))
	h := newFixture(t, controllerOf(t, `{sync: {version: v2, webhook: {url: "`+server.URL+`"}}}`))
	got, err := h.Sync(t.Context(), request())
	if err != nil || !contract.IsNull(got.Status) || len(got.Children) > 0 || got.ResyncAfterSeconds != 0 || got.Finalized {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzAnswer(f *testing.F) {
	body := []byte{}
	server := serve(f, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	hooks := map[string]*fixture{}
	for _, mode := range []string{"strict", "loose"} {
		hook := `{webhook: {responseUnMarshallMode: ` + mode + `, url: "` + server.URL + `"}}`
		hooks[mode] = newFixture(f, controllerOf(f, `{sync: `+hook+`, customize: `+hook+`}`))
	}
	for _, seed := range []string{
		``, `null`, `{}`, `{"children":[null]}`, `{"status":{"a":1,"a":2},"children":[{"apiVersion":"v1","kind":"C","metadata":{"name":"a"}}]}`,
		`{"children":[],"x":1}`, `{"relatedResources":[{"apiVersion":"v1","resource":"pods","names":["a"],"x":1}]}`, "\xff\x00", `{"\u0063hildren":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		body = data
		// What is accepted strictly is accepted loosely, as the same.
		strict, err := hooks["strict"].Sync(t.Context(), request())
		loose, looseErr := hooks["loose"].Sync(t.Context(), request())
		if err == nil && (looseErr != nil || cmp.Diff(strict, loose) != "") {
			t.Errorf("strict %+v, loose %+v %v", strict, loose, looseErr)
		}
		if looseErr == nil {
			if _, err := loose.Identities("n"); err != nil && !strings.Contains(err.Error(), "twice") {
				t.Error(err)
			}
			if slices.ContainsFunc(loose.Children, contract.IsNull) {
				t.Error("a null child")
			}
		}
		custom := &contract.CustomizeRequest{Controller: json.RawMessage(`{}`), Parent: json.RawMessage(`{}`)}
		rules, err := hooks["strict"].Customize(t.Context(), custom)
		looseRules, looseErr := hooks["loose"].Customize(t.Context(), custom)
		if err == nil && (looseErr != nil || cmp.Diff(rules, looseRules) != "") {
			t.Errorf("strict %+v, loose %+v %v", rules, looseRules, looseErr)
		}
	})
}
