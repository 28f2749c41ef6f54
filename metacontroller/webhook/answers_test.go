package webhook

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/hooks/contract"
)

// etagServer answers with the phase it is told, and 304 or 412 if the caller has
// that answer already.
type etagServer struct {
	phase  string
	status int
	etags  bool
	body   string
	// asked are the values of If-None-Match, one a request, and what was answered.
	asked []string
}

func (s *etagServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tag := `"` + s.phase + `"`
	known := r.Header.Get("If-None-Match")
	s.asked = append(s.asked, known)
	if s.etags {
		w.Header().Set("ETag", tag)
		if known == tag {
			w.WriteHeader(s.status)
			return
		}
	}
	if s.body != "" {
		_, _ = io.WriteString(w, s.body)
		return
	}
	_, _ = fmt.Fprintf(w, `{"status":{"phase":%q}}`, s.phase)
}

func requestOf(uid string) *contract.SyncRequest {
	r := request()
	r.Parent = json.RawMessage(`{"metadata":{"name":"p","namespace":"n","uid":"` + uid + `"}}`)
	return r
}

// expectSync calls sync for a parent and compares the phase and what was sent as
// If-None-Match.
func (f *fixture) expectSync(t *testing.T, s *etagServer, uid, phase, ifNoneMatch string) {
	t.Helper()
	n := len(s.asked)
	got, err := f.Sync(t.Context(), requestOf(uid))
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Status) != `{"phase":"`+phase+`"}` {
		t.Errorf("got %s, want phase %s", got.Status, phase)
	}
	if len(s.asked) != n+1 || s.asked[n] != ifNoneMatch {
		t.Errorf("asked with %q, want %q", s.asked[n:], ifNoneMatch)
	}
}

func etagFixture(t *testing.T, s *etagServer, etag string) (*fixture, *time.Time) {
	server := serve(t, s.ServeHTTP)
	hook := `{version: v2, webhook: {url: "` + server.URL + `", etag: ` + etag + `}}`
	f := newFixture(t, controllerOf(t, `{sync: `+hook+`, finalize: `+hook+`}`))
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	f.sync.now = func() time.Time { return now }
	f.finalize.now = f.sync.now
	return f, &now
}

func TestNotModified(t *testing.T) {
	for _, status := range []int{http.StatusNotModified, http.StatusPreconditionFailed} {
		s := &etagServer{phase: "One", status: status, etags: true}
		f, _ := etagFixture(t, s, `{enabled: true}`)
		f.expectSync(t, s, "u1", "One", "")
		f.expectSync(t, s, "u1", "One", `"One"`)
		f.expectSync(t, s, "u1", "One", `"One"`)
		s.phase = "Two"
		f.expectSync(t, s, "u1", "Two", `"One"`)
		f.expectSync(t, s, "u1", "Two", `"Two"`)
	}
}

func TestAnswersAreKeptByHookAndUID(t *testing.T) {
	s := &etagServer{phase: "One", status: 304, etags: true}
	f, _ := etagFixture(t, s, `{enabled: true}`)
	f.expectSync(t, s, "u1", "One", "")
	// A parent of the same name that was made again.
	f.expectSync(t, s, "u2", "One", "")
	f.expectSync(t, s, "u2", "One", `"One"`)
	f.expectSync(t, s, "u1", "One", `"One"`)
	// Another hook.
	if _, err := f.Finalize(t.Context(), requestOf("u1")); err != nil {
		t.Fatal(err)
	}
	if got := s.asked[len(s.asked)-1]; got != "" {
		t.Errorf("finalize asked with %q", got)
	}
	// A parent without a uid is not known again.
	f.expectSync(t, s, "", "One", "")
	f.expectSync(t, s, "", "One", "")
}

func TestAnswersAreForgotten(t *testing.T) {
	s := &etagServer{phase: "One", status: 304, etags: true}
	f, now := etagFixture(t, s, `{enabled: true, cacheTimeoutSeconds: 60}`)
	f.expectSync(t, s, "u1", "One", "")
	*now = now.Add(59 * time.Second)
	f.expectSync(t, s, "u1", "One", `"One"`)
	// "Not modified" does not make it newer.
	*now = now.Add(time.Second)
	f.expectSync(t, s, "u1", "One", "")

	kept := f.sync.kept
	f.expectSync(t, s, "u2", "One", "")
	*now = now.Add(time.Minute)
	kept.sweep(*now)
	if len(kept.byKey) != 0 || kept.used.Len() != 0 || kept.bytes != 0 {
		t.Errorf("left: %d answers, %d bytes", len(kept.byKey), kept.bytes)
	}
}

func TestNothingIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		etag   string
		server etagServer
	}{
		"not enabled":   {`{cacheTimeoutSeconds: 60}`, etagServer{phase: "One", status: 304, etags: true}},
		"disabled":      {`{enabled: false}`, etagServer{phase: "One", status: 304, etags: true}},
		"no ETag given": {`{enabled: true}`, etagServer{phase: "One"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := etagFixture(t, &c.server, c.etag)
			f.expectSync(t, &c.server, "u1", "One", "")
			f.expectSync(t, &c.server, "u1", "One", "")
		})
	}
}

// A hook that stops giving ETags, or that answers nonsense, leaves nothing to fall
// back upon by mistake.
func TestOnlyWhatWasUnderstoodIsKept(t *testing.T) {
	s := &etagServer{phase: "One", status: 304, etags: true, body: `{"children":[null]}`}
	f, _ := etagFixture(t, s, `{enabled: true}`)
	if _, err := f.Sync(t.Context(), requestOf("u1")); err == nil {
		t.Fatal("nonsense was accepted")
	}
	s.body = ""
	f.expectSync(t, s, "u1", "One", "")
	s.etags = false
	f.expectSync(t, s, "u1", "One", `"One"`)
	f.expectSync(t, s, "u1", "One", "")
}

// 304 is an answer only to a question.
func TestNotModifiedUnasked(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	f := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`", etag: {enabled: true}}}}`))
	if _, err := f.Sync(t.Context(), request()); err == nil || !strings.Contains(err.Error(), "status 304 Not Modified") {
		t.Errorf("got %v", err)
	}
}

func TestETagDurations(t *testing.T) {
	for etag, want := range map[string][2]time.Duration{
		`{enabled: true}`:                                                   {defaultKeep, defaultKeep},
		`{enabled: true, cacheTimeoutSeconds: 60}`:                          {time.Minute, time.Minute},
		`{enabled: true, cacheCleanupSeconds: 60}`:                          {defaultKeep, time.Minute},
		`{enabled: true, cacheTimeoutSeconds: 0, cacheCleanupSeconds: 0}`:   {defaultKeep, defaultKeep},
		`{enabled: true, cacheTimeoutSeconds: 60, cacheCleanupSeconds: 30}`: {time.Minute, 30 * time.Second},
	} {
		f := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "http://127.0.0.1:1", etag: `+etag+`}}}`))
		if f.sync.keep != want[0] || f.sync.cleanup != want[1] || f.cleanup() != want[1] {
			t.Errorf("%s: %s, %s", etag, f.sync.keep, f.sync.cleanup)
		}
	}
}

func TestKeptAnswersAreBounded(t *testing.T) {
	now := time.Now()
	answerOf := func(uid string, n int) *answer {
		return &answer{key: answerKey{"sync", uid}, etag: "e", body: make([]byte, n), expires: now.Add(time.Hour)}
	}
	one := answerOf("a", 1000).size()
	c := newAnswers(3 * one)
	for _, uid := range []string{"a", "b", "c"} {
		c.put(answerOf(uid, 1000))
	}
	c.get(answerKey{"sync", "a"}, now) // b is now the one used longest ago
	c.put(answerOf("d", 1000))
	for uid, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if got := c.get(answerKey{"sync", uid}, now) != nil; got != want {
			t.Errorf("%s is kept: %v", uid, got)
		}
	}
	c.put(answerOf("d", 1)) // in place of the other one
	c.put(answerOf("huge", 4*one))
	if c.get(answerKey{"sync", "huge"}, now) != nil || len(c.byKey) != 3 {
		t.Errorf("%d answers are kept", len(c.byKey))
	}
	for uid := range map[string]bool{"a": true, "c": true, "d": true} {
		c.drop(answerKey{"sync", uid})
	}
	if c.bytes != 0 || c.used.Len() != 0 {
		t.Errorf("%d bytes are left", c.bytes)
	}
}

func TestCloseEndsWhatRuns(t *testing.T) {
	server := serve(t, answering(`{}`))
	h, err := New(Options{Controller: controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`", etag: {enabled: true}}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Sync(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	h.Close()
	buffer := make([]byte, 1<<20)
	if stacks := string(buffer[:runtime.Stack(buffer, true)]); strings.Contains(stacks, "sweepEvery") {
		t.Error("the sweeper still runs")
	}
}
