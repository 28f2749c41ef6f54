package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/test/benchmark"
	"rtj.dev/rtj/test/lifecycle"
)

// recorder keeps the patches that are handed over.
type recorder struct {
	mu      sync.Mutex
	patches []compose.Patch
}

func (r *recorder) Submit(_ *v1beta1.ResumableTrainingJob, patches []compose.Patch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.patches = append(r.patches, patches...)
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.patches)
}

// fixture is a server over hooks whose store was read.
type fixture struct {
	handler http.Handler
	patches *recorder
	moment  *lifecycle.Moment
	log     *bytes.Buffer
}

// newFixture serves hooks for a job whose decision contains a patch: the run id is
// not written yet.
func newFixture(t testing.TB, change func(*Options)) *fixture {
	t.Helper()
	m, err := lifecycle.After("apply")
	if err != nil {
		t.Fatal(err)
	}
	m.Request.Parent = bytes.Replace(m.Request.Parent, []byte(v1beta1.AnnotationRunID), []byte("other"), 1)
	f := &fixture{patches: &recorder{}, moment: m, log: &bytes.Buffer{}}
	h := hooks.New(hooks.Options{Store: given{m.Catalog}, Observer: "rtj", Patches: f.patches, Now: func() time.Time { return m.Now }})
	t.Cleanup(h.Close)
	o := Options{Hooks: h, Logger: slog.New(slog.NewTextHandler(f.log, nil))}
	if change != nil {
		change(&o)
	}
	if f.handler, err = NewHandler(o); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) body(t testing.TB) []byte {
	t.Helper()
	body, err := benchmark.Body(f.moment.Request, true)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func (f *fixture) post(path string, body []byte, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w
}

func TestSyncAnswersAsTheContractSays(t *testing.T) {
	f := newFixture(t, nil)
	w := f.post("/sync", f.body(t))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	response, err := contract.DecodeSyncResponse(w.Body.Bytes())
	if err != nil {
		t.Fatalf("a runner refuses the answer: %v\n%s", err, w.Body)
	}
	if len(response.Children) != 1 || contract.IsNull(response.Status) {
		t.Errorf("answer %s", w.Body)
	}
	if strings.Contains(w.Body.String(), "managedFields") {
		t.Error("managedFields are returned")
	}
}

func TestFinalizeLetsAJobGoThatRunsNothing(t *testing.T) {
	f := newFixture(t, nil)
	f.moment.Request.Finalizing = true
	f.moment.Request.Children = contract.ObjectMap{}
	w := f.post("/finalize", f.body(t))
	response, err := contract.DecodeSyncResponse(w.Body.Bytes())
	if w.Code != http.StatusOK || err != nil || !response.Finalized {
		t.Errorf("%d %s %v", w.Code, w.Body, err)
	}
}

func TestCustomizeAnswersRules(t *testing.T) {
	f := newFixture(t, nil)
	body, err := json.Marshal(contract.CustomizeRequest{Controller: f.moment.Request.Controller, Parent: f.moment.Request.Parent})
	if err != nil {
		t.Fatal(err)
	}
	w := f.post("/customize", body)
	response, err := contract.DecodeCustomizeResponse(w.Body.Bytes())
	if w.Code != http.StatusOK || err != nil || len(response.RelatedResources) == 0 {
		t.Errorf("%d %s %v", w.Code, w.Body, err)
	}
}

func TestBadInputGetsAReason(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxBytes = 64 << 10 })
	good := string(f.body(t))
	for name, c := range map[string]struct {
		path string
		body string
		code int
		says string
	}{
		"not JSON":               {"/sync", "hello", 400, "want an object, got 'h'"},
		"nothing":                {"/sync", "", 400, "want an object, got nothing"},
		"cut off":                {"/sync", good[:len(good)/2], 400, "not JSON"},
		"null":                   {"/sync", "null", 400, "got null"},
		"an unknown field":       {"/sync", `{"surprise":1,` + good[1:], 400, `unknown field "surprise"`},
		"a missing field":        {"/sync", `{"controller":{},"parent":{},"children":{},"related":{}}`, 400, "finalizing: missing"},
		"null children":          {"/sync", `{"controller":{},"parent":{},"children":null,"related":{},"finalizing":false}`, 400, "children: want an object, got null"},
		"a null child":           {"/sync", `{"controller":{},"parent":{},"children":{"Pod.v1":{"a/b":null}},"related":{},"finalizing":false}`, 400, `children["Pod.v1"]["a/b"]: want an object, got null`},
		"too large":              {"/sync", good + strings.Repeat(" ", 64<<10), 413, "larger than 65536 bytes"},
		"a parent of any kind":   {"/sync", `{"controller":{},"parent":{},"children":{},"related":{},"finalizing":false}`, 400, "parent: want ResumableTrainingJob"},
		"sync sent to finalize":  {"/finalize", good, 400, "finalizing: is false"},
		"customize with a child": {"/customize", `{"controller":{},"parent":{},"children":{}}`, 400, `unknown field "children"`},
		"an unknown path":        {"/snyc", good, 404, "/sync, /finalize and /customize"},
	} {
		t.Run(name, func(t *testing.T) {
			w := f.post(c.path, []byte(c.body))
			var answer struct{ Error string }
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatalf("the answer is no JSON: %s", w.Body)
			}
			if w.Code != c.code || !strings.Contains(answer.Error, c.says) {
				t.Errorf("%d %s\nwant %d %s", w.Code, answer.Error, c.code, c.says)
			}
		})
	}
}

// A body whose length is not announced is bounded too.
func TestTheSizeIsBoundedWhileReading(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxBytes = 1000 })
	r := httptest.NewRequest(http.MethodPost, "/sync", io.NopCloser(strings.NewReader(strings.Repeat("a", 2000))))
	r.ContentLength = -1
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestUnknownFieldsInObjectsDoNoHarm(t *testing.T) {
	f := newFixture(t, nil)
	f.moment.Request.Parent = bytes.Replace(f.moment.Request.Parent, []byte(`"spec":{`), []byte(`"spec":{"ofTheNextVersion":[1],`), 1)
	if w := f.post("/sync", f.body(t)); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Patches are only carried out for a runner that is known; others get their
// answer all the same, and one line in the log says what is missing.
func TestPatchesAreForKnownRunners(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := NewTokenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		runners Authenticator
		header  []string
		code    int
		patches int
		warns   bool
	}{
		"nobody can be known":  {nil, []string{"Authorization", "Bearer sesame"}, 200, 0, true},
		"no token is sent":     {token, nil, 200, 0, true},
		"the token":            {token, []string{"Authorization", "Bearer sesame"}, 200, 1, false},
		"another token":        {token, []string{"Authorization", "Bearer open"}, 401, 0, false},
		"another scheme":       {token, []string{"Authorization", "Basic sesame"}, 401, 0, false},
		"any of several":       {AnyOf(ClientCertificate{}, token), []string{"Authorization", "Bearer sesame"}, 200, 1, false},
		"no certificate":       {ClientCertificate{}, nil, 200, 0, true},
		"wrong for any of two": {AnyOf(ClientCertificate{}, token), []string{"Authorization", "Bearer open"}, 401, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *Options) { o.Runners = c.runners })
			for range 2 {
				if w := f.post("/sync", f.body(t), c.header...); w.Code != c.code {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
			if n := f.patches.count(); n != 2*c.patches {
				t.Errorf("%d patches in two syncs", n)
			}
			if n := strings.Count(f.log.String(), "patches are not carried out"); (n == 1) != c.warns {
				t.Errorf("the log says it %d times:\n%s", n, f.log)
			}
			if strings.Contains(f.log.String(), "sesame") {
				t.Errorf("the token is logged: %s", f.log)
			}
		})
	}
}

// For a runner that is not known this program's rights are not used: a request may
// name any Secret and any store.
func TestNothingIsReadForUnknownRunners(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		reads := 0
		h := hooks.New(hooks.Options{Observer: "rtj", Store: storeFunc(func() *checkpoint.Snapshot {
			reads++
			return &checkpoint.Snapshot{ListedAt: time.Now()}
		})})
		defer h.Close()
		f := newFixture(t, func(o *Options) {
			o.Hooks = h
			if trusted {
				o.Runners = everyone{}
			}
		})
		f.moment.Request.Children = contract.ObjectMap{}
		w := f.post("/sync", f.body(t))
		if w.Code != http.StatusOK || (reads > 0) != trusted {
			t.Errorf("trusted %v: %d, %d readings\n%s", trusted, w.Code, reads, w.Body)
		}
	}
}

// storeFunc is a store made of a function.
type storeFunc func() *checkpoint.Snapshot

func (f storeFunc) Read(context.Context, catalog.Run, catalog.Ask) *checkpoint.Snapshot { return f() }

// everyone is known.
type everyone struct{}

func (everyone) Authenticate(*http.Request) (bool, error) { return true, nil }

func TestATokenFileIsReadAgainWhenItChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC).Add(age)
		if err := os.Chtimes(file, when, when); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := NewTokenFile(file); err == nil {
		t.Error("a missing file is taken")
	}
	write("  \n", 0)
	if _, err := NewTokenFile(file); err == nil {
		t.Error("an empty file is taken")
	}
	write("old", time.Second)
	token, err := NewTokenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	known := func(text string) bool {
		r := httptest.NewRequest(http.MethodPost, "/sync", nil)
		r.Header.Set("Authorization", "Bearer "+text)
		ok, _ := token.Authenticate(r)
		return ok
	}
	write("new", 2*time.Second)
	if known("old") || !known("new") {
		t.Error("the token of the changed file does not count")
	}
}

// A Metacontroller that applies server-side is told so, and gets no answer that it
// could force upon anything.
func TestServerSideApplyIsRefused(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Runners = everyone{} })
	child := `{"metadata":{"name":"a","namespace":"b","managedFields":[{"operation":"Apply","fieldsV1":{"f:metadata":{"f:ownerReferences":{".":{}}}}}]}}`
	f.moment.Request.Children = contract.ObjectMap{"ConfigMap.v1": {"b/a": json.RawMessage(child)}}
	body, err := json.Marshal(f.moment.Request)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w := f.post("/sync", body)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "ConfigMap.v1 b/a") || !strings.Contains(w.Body.String(), "--apply-strategy") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if f.patches.count() != 0 {
		t.Error("patches are made")
	}
	if n := strings.Count(f.log.String(), "--apply-strategy"); n != 1 {
		t.Errorf("said %d times in the log: %s", n, f.log)
	}
}

// A panic is a 500, and the server goes on.
func TestAPanicIsAnswered(t *testing.T) {
	f := newFixture(t, nil)
	h := &handler{Options: Options{Logger: slog.New(slog.NewTextHandler(f.log, nil))}}
	w := httptest.NewRecorder()
	h.recover(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("out of order") })).
		ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/sync", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "internal error") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(f.log.String(), "out of order") {
		t.Errorf("the log does not say it: %s", f.log)
	}
	if w := f.post("/sync", f.body(t)); w.Code != http.StatusOK {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

func TestHealthReadinessAndMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	var notReady error = io.ErrNoProgress
	f := newFixture(t, func(o *Options) {
		o.Registry = registry
		o.Ready = func() error { return notReady }
	})
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		f.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	if code, _ := get("/healthz"); code != 200 {
		t.Errorf("healthz %d", code)
	}
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, notReady.Error()) {
		t.Errorf("readyz %d %s", code, body)
	}
	notReady = nil
	if code, _ := get("/readyz"); code != 200 {
		t.Errorf("readyz %d", code)
	}
	f.post("/sync", f.body(t))
	f.post("/sync", []byte("x"))
	_, body := get("/metrics")
	for _, want := range []string{`rtj_http_requests_total{code="200",hook="sync"} 1`, `rtj_http_requests_total{code="400",hook="sync"} 1`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
}
