package faultproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiServer takes note of what it is asked, answers with a version that grows, and
// keeps watches open.
type apiServer struct {
	mu    sync.Mutex
	asked []string
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.Method+" "+r.URL.RequestURI())
	n := len(a.asked)
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if !r.URL.Query().Has("watch") {
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"%d"}}`, n)
		return
	}
	fmt.Fprintf(w, `{"type":"ADDED"}`+"\n")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func (a *apiServer) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// serve puts a proxy between a client and an API server, as a relay does, over
// HTTP/2.
func serve(t *testing.T, seed uint64, rates Rates) (*Proxy, *apiServer, func(method, path, body string) (*http.Response, error)) {
	t.Helper()
	api := &apiServer{}
	behind := httptest.NewServer(api)
	t.Cleanup(behind.Close)
	target, err := url.Parse(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := New(Options{Seed: seed, APIServer: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}})
	p.minWatch, p.maxWatch = 20*time.Millisecond, 40*time.Millisecond
	p.Set(rates)
	server := httptest.NewUnstartedServer(p)
	server.Config.ConnContext = p.ConnContext
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return p, api, func(method, path, body string) (*http.Response, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return server.Client().Do(r)
	}
}

const (
	onePod  = "/api/v1/namespaces/story-1a2b3/pods/a"
	allPods = "/api/v1/namespaces/story-1a2b3/pods"
)

func TestFaultsOfARequest(t *testing.T) {
	for _, c := range []struct {
		fault        Fault
		method, path string
		body         string
		// code of the answer; 0: there is none.
		code int
		// carriedOut is how often.
		carriedOut int
	}{
		{Conflict, "PATCH", onePod, "{}", 409, 0},
		{Conflict, "POST", allPods, "{}", 200, 1},
		{Conflict, "GET", onePod, "", 200, 1},
		{TooManyRequests, "GET", onePod, "", 429, 0},
		{TooManyRequestsBare, "PATCH", onePod, "{}", 429, 0},
		{InternalError, "DELETE", onePod, "{}", 500, 0},
		{Unavailable, "GET", allPods, "", 503, 0},
		{Reset, "PATCH", onePod, "{}", 0, 0},
		{LostAnswer, "PATCH", onePod, "{}", 0, 1},
		{ErrorAfter, "POST", allPods, "{}", 500, 1},
		{ErrorAfter, "GET", onePod, "", 200, 1},
		{Duplicate, "PATCH", onePod, "{}", 200, 2},
		{Duplicate, "POST", allPods, `{"metadata":{"name":"a"}}`, 200, 2},
		{Duplicate, "POST", allPods, `{"metadata":{"generateName":"a-"}}`, 200, 1},
		{Latency, "GET", onePod, "", 200, 1},
		{NoWatchList, "GET", allPods + "?watch=true&sendInitialEvents=true", "", 422, 0},
	} {
		t.Run(string(c.fault)+" "+c.method, func(t *testing.T) {
			p, api, ask := serve(t, 1, Rates{c.fault: 1})
			response, err := ask(c.method, c.path, c.body)
			if (err != nil) != (c.code == 0) {
				t.Fatal(err)
			}
			if got := len(api.requests()); got != c.carriedOut {
				t.Errorf("carried out %d times: %v", got, api.requests())
			}
			happens := 1
			if c.code == 200 && c.fault != Duplicate && c.fault != Latency || c.fault == Duplicate && c.carriedOut == 1 {
				happens = 0
			}
			if got := p.Counts()[c.fault]; got != happens {
				t.Errorf("counted %d times, want %d", got, happens)
			}
			if err != nil {
				return
			}
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if response.StatusCode != c.code {
				t.Errorf("answered %d: %s", response.StatusCode, body)
			}
			if c.code >= 400 {
				isStatus(t, body, int32(c.code))
			}
			if got := response.Header.Get("Retry-After"); (got != "") != (c.fault == TooManyRequests) {
				t.Errorf("Retry-After is %q", got)
			}
			if c.fault == Duplicate && c.carriedOut == 2 && !strings.Contains(string(body), `"2"`) {
				t.Errorf("the second answer counts, this is %s", body)
			}
		})
	}
}

// isStatus checks that clients understand a refusal.
func isStatus(t *testing.T, body []byte, code int32) {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal(body, &s); err != nil || s.Kind != "Status" || s.Code != code || s.Reason == "" {
		t.Errorf("not a Status of %d: %s", code, body)
	}
}

func TestFaultsOfAWatch(t *testing.T) {
	for fault, want := range map[Fault]struct {
		broken bool
		last   string
	}{
		WatchCut:     {false, "ADDED"},
		WatchReset:   {true, "ADDED"},
		WatchExpired: {false, "ERROR"},
	} {
		t.Run(string(fault), func(t *testing.T) {
			p, _, ask := serve(t, 1, Rates{fault: 1, WatchLag: 1})
			response, err := ask("GET", allPods+"?watch=1", "")
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			var last struct {
				Type   string
				Object metav1.Status
			}
			lines := bufio.NewScanner(response.Body)
			for lines.Scan() {
				if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
					t.Errorf("%v: %s", err, lines.Bytes())
				}
			}
			if broken := lines.Err() != nil; broken != want.broken {
				t.Errorf("ended with %v", lines.Err())
			}
			// An event that is held back when the watch ends is not sent.
			if last.Type != want.last && last.Type != "" {
				t.Errorf("the last event is %q", last.Type)
			}
			if last.Type == "ERROR" && !apierrors.IsResourceExpired(&apierrors.StatusError{ErrStatus: last.Object}) {
				t.Errorf("%+v", last.Object)
			}
			if counts := p.Counts(); counts[fault] != 1 || counts[WatchLag] != 1 {
				t.Errorf("counted %v", counts)
			}
		})
	}
}

// Only a list of any version is stale, and it is of a state that was.
func TestStaleListIsOfAnEarlierState(t *testing.T) {
	p, api, ask := serve(t, 1, Rates{StaleList: 1})
	list := func(query string) string {
		response, err := ask("GET", allPods+query, "")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		all := api.requests()
		return all[len(all)-1]
	}
	if got := list("?resourceVersion=0"); strings.Contains(got, "Exact") {
		t.Errorf("no state is known, and it asks for one: %s", got)
	}
	p.history.states = append(p.history.states, state{time.Now().Add(-maxStaleness), "7"})
	if got, want := list("?limit=500&resourceVersion=0"), "GET "+allPods+"?resourceVersion=7&resourceVersionMatch=Exact"; got != want {
		t.Errorf("asks for %s, want %s", got, want)
	}
	for _, query := range []string{"", "?resourceVersion=9", "?limit=1"} {
		if got := list(query); got != "GET "+allPods+query {
			t.Errorf("a list that may not be stale became %s", got)
		}
	}
	if p.Counts()[StaleList] != 1 {
		t.Errorf("counted %v", p.Counts())
	}
}

func TestWritesTellTheVersionOfTheState(t *testing.T) {
	p, _, ask := serve(t, 1, nil)
	for _, r := range []string{"PATCH", "GET", "DELETE"} {
		response, err := ask(r, onePod, "")
		if err != nil {
			t.Fatal(err)
		}
		// The version is noted when the body passes, which is after the headers.
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	if version, ok := p.history.ago(0); !ok || version != "3" || len(p.history.states) != 2 {
		t.Errorf("want the versions 1 and 3, known are %+v", p.history.states)
	}
}

// A seed gives a request the same fate, whatever other requests there are and
// whatever a run calls its namespaces; another seed gives it another.
func TestSeedDecides(t *testing.T) {
	fate := func(seed uint64, namespace string, others bool) string {
		p, _, ask := serve(t, seed, Rates{InternalError: 0.3, Unavailable: 0.3})
		var codes []string
		for i := range 20 {
			if others {
				for range i % 3 {
					if response, err := ask("GET", "/api/v1/nodes", ""); err == nil {
						response.Body.Close()
					}
				}
			}
			response, err := ask("GET", "/apis/batch/v1/namespaces/story-"+namespace+"/jobs/x", "")
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			codes = append(codes, response.Status)
		}
		if p.Counts()[InternalError] == 0 {
			t.Error("a rate of a third, and nothing happens")
		}
		return strings.Join(codes, ",")
	}
	first := fate(1, "1a2b3", false)
	if again := fate(1, "9f8e7", true); again != first {
		t.Errorf("%s\nis not\n%s", again, first)
	}
	if other := fate(2, "1a2b3", false); other == first {
		t.Errorf("two seeds, one fate: %s", first)
	}
}

func TestNothingHappensUntilSet(t *testing.T) {
	p, api, ask := serve(t, 1, nil)
	for range 50 {
		response, err := ask("PATCH", onePod, "{}")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	if len(p.Counts()) != 0 || len(api.requests()) != 50 {
		t.Errorf("%s; %d were carried out", p, len(api.requests()))
	}
}
