package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
)

// apiServer answers requests of the writer and keeps them.
type apiServer struct {
	mu       sync.Mutex
	requests []string
	// answer gives the status code and body for a request.
	answer func(r *http.Request) (int, string)
	// begun and proceed, if set, hold each request until it may go on.
	begun, proceed chan struct{}
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL, body)))
	answer := s.answer
	s.mu.Unlock()
	if s.begun != nil {
		s.begun <- struct{}{}
		<-s.proceed
	}
	code, text := http.StatusOK, ok
	if answer != nil {
		code, text = answer(r)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	io.WriteString(w, text)
}

func (s *apiServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

const ok = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`

// failure is the body of an error of the API server.
func failureBody(code int, reason metav1.StatusReason) string {
	body, _ := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reason, Code: int32(code), Message: "said the server"})
	return string(body)
}

// harness is a writer, what it counted and whom it wanted synced again.
type harness struct {
	*Writer
	server *apiServer
	counts chan string
	again  chan string
	log    *bytes.Buffer
}

func newHarness(t *testing.T, server *apiServer) *harness {
	t.Helper()
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: listener.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{server: server, counts: make(chan string, 100), again: make(chan string, 100), log: &bytes.Buffer{}}
	h.Writer = New(Options{
		Client:    client,
		SyncAgain: func(namespace, name string) { h.again <- namespace + "/" + name },
		Count:     func(name string, result Result) { h.counts <- name + " " + string(result) },
		Logger:    slog.New(slog.NewTextHandler(h.log, nil)),
	})
	t.Cleanup(h.Close)
	return h
}

var parent = &v1beta1.ResumableTrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "llama", UID: "u-1"}}

// workloadPatch is decided upon a state of the Workload that no patch of another
// name was decided upon.
func workloadPatch(name string) compose.Patch {
	version := "7"
	if name != "release" {
		version = "7-" + name
	}
	return compose.Patch{
		Name:   name,
		Target: compose.Target{APIVersion: "kueue.x-k8s.io/v1beta2", Resource: "workloads", Subresource: "status", Namespace: "team-a", Name: "llama-w1"},
		Body:   json.RawMessage(`{"metadata":{"resourceVersion":"` + version + `"},"status":{"admission":null}}`),
	}
}

// expect fails unless the next counts are these.
func (h *harness) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := <-h.counts; got != w {
			t.Errorf("counted %q, want %q", got, w)
		}
	}
}

func TestPatchesAreMadeInOrder(t *testing.T) {
	h := newHarness(t, &apiServer{})
	notice := compose.Patch{
		Name:   "notice",
		Target: compose.Target{APIVersion: "v1", Resource: "pods", Namespace: "team-a", Name: "leader"},
		Body:   json.RawMessage(`{"metadata":{"annotations":{"a":"b"}}}`),
	}
	h.Submit(parent, []compose.Patch{workloadPatch("release"), notice})
	h.expect(t, "release done", "notice done")
	want := []string{
		`PATCH /apis/kueue.x-k8s.io/v1beta2/namespaces/team-a/workloads/llama-w1/status?fieldManager=rtj {"metadata":{"resourceVersion":"7"},"status":{"admission":null}}`,
		`PATCH /api/v1/namespaces/team-a/pods/leader?fieldManager=rtj {"metadata":{"annotations":{"a":"b"}}}`,
	}
	for i, got := range h.server.seen() {
		if got != want[i] {
			t.Errorf("request %d\ngot  %s\nwant %s", i, got, want[i])
		}
	}
}

func TestAPatchIsLostToAnotherAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		live string
		want string
	}{
		"the attempt stands":          {`{"metadata":{"name":"llama","uid":"u-1"},"status":{"attempt":3}}`, "claim done"},
		"status names another":        {`{"metadata":{"name":"llama","uid":"u-1"},"status":{"attempt":4}}`, "claim lost"},
		"status names none":           {`{"metadata":{"name":"llama","uid":"u-1"}}`, "claim lost"},
		"the job was made anew since": {`{"metadata":{"name":"llama","uid":"u-2"},"status":{"attempt":3}}`, "claim lost"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, &apiServer{answer: func(r *http.Request) (int, string) {
				if r.Method == http.MethodGet {
					return http.StatusOK, `{"apiVersion":"training.rtj.dev/v1beta1","kind":"ResumableTrainingJob",` + c.live[1:]
				}
				return http.StatusOK, ok
			}})
			p := workloadPatch("claim")
			attempt := int32(3)
			p.StatusAttempt = &attempt
			h.Submit(parent, []compose.Patch{p})
			h.expect(t, c.want)
			for _, r := range h.server.seen() {
				if strings.HasPrefix(r, "PATCH") && strings.HasSuffix(c.want, "lost") {
					t.Errorf("written all the same: %s", r)
				}
			}
		})
	}
}

func TestQuotaIsNotReleasedWhilePodsAreLeft(t *testing.T) {
	pods := `{"metadata":{"name":"zombie"}}`
	var lists int
	h := newHarness(t, &apiServer{answer: func(r *http.Request) (int, string) {
		if r.Method != http.MethodGet {
			return http.StatusOK, ok
		}
		list := `{"apiVersion":"v1","kind":"PodList","metadata":%s,"items":[%s]}`
		if strings.HasSuffix(r.URL.Path, "/jobs") {
			return http.StatusOK, fmt.Sprintf(list, `{}`, "")
		}
		lists++
		switch {
		case lists == 1:
			return http.StatusOK, fmt.Sprintf(list, `{}`, pods)
		case r.URL.Query().Get("continue") == "":
			// No pod on the first page, and there are more pages: no proof.
			return http.StatusOK, fmt.Sprintf(list, `{"continue":"next"}`, "")
		case lists == 3:
			return http.StatusOK, fmt.Sprintf(list, `{}`, pods)
		default:
			return http.StatusOK, fmt.Sprintf(list, `{}`, "")
		}
	}})
	p := workloadPatch("release")
	p.NoLivePods = &compose.NoLivePods{Namespace: "team-a", LabelSelector: "training.rtj.dev/uid=u-1", FieldSelector: "status.phase!=Succeeded,status.phase!=Failed"}
	for _, want := range []string{"release pods-left", "release pods-left", "release done"} {
		h.Submit(parent, []compose.Patch{p})
		h.expect(t, want)
		if want == "release pods-left" {
			if got := <-h.again; got != "team-a/llama" {
				t.Errorf("synced again: %s", got)
			}
		}
	}
	seen := h.server.seen()
	if want := "GET /apis/batch/v1/namespaces/team-a/jobs?labelSelector=training.rtj.dev%2Fuid%3Du-1&limit=100"; seen[0] != want {
		t.Errorf("the LIST of Jobs\ngot  %s\nwant %s", seen[0], want)
	}
	first := seen[1]
	if want := "GET /api/v1/namespaces/team-a/pods?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed&labelSelector=training.rtj.dev%2Fuid%3Du-1&limit=1"; first != want {
		t.Errorf("the LIST\ngot  %s\nwant %s", first, want)
	}
}

// A Job that is not suspended, finished or going may make a pod after the LIST of pods.
func TestQuotaIsNotReleasedWhileAJobMayMakePods(t *testing.T) {
	for _, c := range []struct{ what, job, want string }{
		{"runs", `{"metadata":{"name":"w"},"spec":{"suspend":false},"status":{}}`, "release pods-left"},
		{"says nothing of suspension", `{"metadata":{"name":"w"},"spec":{}}`, "release pods-left"},
		{"is ending", `{"metadata":{"name":"w"},"spec":{},"status":{"conditions":[{"type":"FailureTarget","status":"True"},{"type":"Failed","status":"False"}]}}`, "release pods-left"},
		{"is suspended", `{"metadata":{"name":"w"},"spec":{"suspend":true}}`, "release done"},
		{"is complete", `{"metadata":{"name":"w"},"spec":{},"status":{"conditions":[{"type":"Complete","status":"True"}]}}`, "release done"},
		{"failed", `{"metadata":{"name":"w"},"spec":{},"status":{"conditions":[{"type":"Failed","status":"True"}]}}`, "release done"},
		{"goes", `{"metadata":{"name":"w","deletionTimestamp":"2026-11-29T10:00:00Z"},"spec":{}}`, "release done"},
	} {
		t.Run(c.what, func(t *testing.T) {
			h := newHarness(t, &apiServer{answer: func(r *http.Request) (int, string) {
				items := ""
				if strings.HasSuffix(r.URL.Path, "/jobs") {
					items = c.job
				}
				if r.Method != http.MethodGet {
					return http.StatusOK, ok
				}
				return http.StatusOK, fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"JobList","metadata":{},"items":[%s]}`, items)
			}})
			p := workloadPatch("release")
			p.NoLivePods = &compose.NoLivePods{Namespace: "team-a", LabelSelector: "training.rtj.dev/uid=u-1", FieldSelector: "status.phase!=Succeeded,status.phase!=Failed"}
			h.Submit(parent, []compose.Patch{p})
			h.expect(t, c.want)
		})
	}
}

// A cache that does not show yet what was written makes for the same patch
// again, or another one of the same state; neither is sent.
func TestAPatchThatWasMadeIsNotSentAgain(t *testing.T) {
	h := newHarness(t, &apiServer{})
	notice := compose.Patch{
		Name:   "notice",
		Target: compose.Target{APIVersion: "v1", Resource: "pods", Namespace: "team-a", Name: "leader"},
		Body:   json.RawMessage(`{"metadata":{"annotations":{"a":"1"}}}`),
	}
	h.Submit(parent, []compose.Patch{workloadPatch("release"), notice})
	h.expect(t, "release done", "notice done")
	claim := workloadPatch("release")
	claim.Name, claim.Target.Subresource = "claim", ""
	h.Submit(parent, []compose.Patch{claim, notice})
	h.expect(t, "claim lost", "notice lost")
	notice.Body = json.RawMessage(`{"metadata":{"annotations":{"a":"2"}}}`)
	h.Submit(parent, []compose.Patch{workloadPatch("later"), notice})
	h.expect(t, "later done", "notice done")
	if sent := len(h.server.seen()); sent != 4 {
		t.Errorf("%d requests were sent, want 4", sent)
	}
}

// A conflict and an object that is gone are lost races: nothing is said and
// nothing retried, since the change brings a new decision.
func TestALostRaceIsQuiet(t *testing.T) {
	for code, reason := range map[int]metav1.StatusReason{http.StatusConflict: metav1.StatusReasonConflict, http.StatusNotFound: metav1.StatusReasonNotFound} {
		h := newHarness(t, &apiServer{answer: func(*http.Request) (int, string) { return code, failureBody(code, reason) }})
		h.Submit(parent, []compose.Patch{workloadPatch("release")})
		h.expect(t, "release lost")
		h.Close()
		if len(h.again) > 0 || h.log.Len() > 0 {
			t.Errorf("%d: synced again %d times, said %s", code, len(h.again), h.log)
		}
	}
}

// Any other error is logged with the object, and the job is synced again.
func TestAFailureIsSaidAndTriedAgain(t *testing.T) {
	h := newHarness(t, &apiServer{answer: func(*http.Request) (int, string) {
		return http.StatusUnprocessableEntity, failureBody(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	}})
	h.Submit(parent, []compose.Patch{workloadPatch("release"), workloadPatch("finish")})
	h.expect(t, "release failed", "finish failed")
	if got := <-h.again; got != "team-a/llama" {
		t.Errorf("synced again: %s", got)
	}
	h.Close()
	for _, want := range []string{"patch=release", "object=workloads/llama-w1", "said the server"} {
		if !strings.Contains(h.log.String(), want) {
			t.Errorf("no %s in %s", want, h.log)
		}
	}
}

// While a round is under way, the newest of those that come replaces the others,
// and two rounds of one job are never made at once.
func TestANewerRoundReplacesOneThatWaits(t *testing.T) {
	h := newHarness(t, &apiServer{begun: make(chan struct{}), proceed: make(chan struct{})})
	h.Submit(parent, []compose.Patch{workloadPatch("first")})
	<-h.server.begun
	h.Submit(parent, []compose.Patch{workloadPatch("dropped")})
	h.Submit(parent, []compose.Patch{workloadPatch("second")})
	if n := len(h.server.seen()); n != 1 {
		t.Fatalf("%d requests while the first round is under way", n)
	}
	h.server.proceed <- struct{}{}
	h.expect(t, "first done")
	<-h.server.begun
	h.server.proceed <- struct{}{}
	h.expect(t, "second done")
}

// A decision without patches takes back those that wait.
func TestNothingReplacesARoundThatWaits(t *testing.T) {
	h := newHarness(t, &apiServer{begun: make(chan struct{}), proceed: make(chan struct{})})
	h.Submit(parent, []compose.Patch{workloadPatch("first")})
	<-h.server.begun
	h.Submit(parent, []compose.Patch{workloadPatch("dropped")})
	h.Submit(parent, nil)
	h.server.proceed <- struct{}{}
	h.expect(t, "first done")
	h.Close()
	if seen := h.server.seen(); len(seen) != 1 {
		t.Errorf("requests %q", seen)
	}
}

func TestJobsDoNotWaitForEachOther(t *testing.T) {
	h := newHarness(t, &apiServer{begun: make(chan struct{}), proceed: make(chan struct{})})
	other := parent.DeepCopy()
	other.UID, other.Name = "u-2", "mistral"
	h.Submit(parent, []compose.Patch{workloadPatch("first")})
	<-h.server.begun
	h.Submit(other, []compose.Patch{workloadPatch("other")})
	<-h.server.begun
	close(h.server.proceed)
	got := map[string]bool{<-h.counts: true, <-h.counts: true}
	if !got["first done"] || !got["other done"] {
		t.Errorf("counted %v", got)
	}
}

// Close waits until nothing is written any more, and nothing is taken afterwards.
func TestClose(t *testing.T) {
	h := newHarness(t, &apiServer{begun: make(chan struct{}, 1), proceed: make(chan struct{})})
	h.Submit(parent, []compose.Patch{workloadPatch("first"), workloadPatch("never")})
	<-h.server.begun
	done := make(chan struct{})
	go func() { h.Close(); close(done) }()
	<-done
	close(h.server.proceed)
	h.Submit(parent, []compose.Patch{workloadPatch("late")})
	if n := len(h.server.seen()); n != 1 {
		t.Errorf("%d requests", n)
	}
	if len(h.queues) > 1 {
		t.Errorf("%d queues", len(h.queues))
	}
}

func TestAJobThatIsQuietLeavesNothingBehind(t *testing.T) {
	h := newHarness(t, &apiServer{})
	for i := range 10 {
		job := parent.DeepCopy()
		job.UID = types.UID(fmt.Sprint("u-", i))
		h.Submit(job, []compose.Patch{workloadPatch("p")})
		h.expect(t, "p done")
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		h.mu.Lock()
		n := len(h.queues)
		h.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d queues are left", n)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestBackOffGrowsToAMinute(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 7: time.Minute, 100: time.Minute} {
		if got := backOff(failures); got != want {
			t.Errorf("%d failures: %s, want %s", failures, got, want)
		}
	}
}
