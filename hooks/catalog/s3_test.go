package catalog

import (
	"context"
	"encoding/xml"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog/catalogtest"
)

// wireServer speaks as much of the S3 protocol as a reader needs, in pages of
// one object, and answers with what a test puts in its way.
type wireServer struct {
	mu       sync.Mutex
	objects  map[string][]byte // by "/bucket/key"
	requests []string
	// answer takes over a request when it returns true.
	answer func(w http.ResponseWriter, r *http.Request) bool
}

type listResult struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name                  string
	Prefix                string
	KeyCount              int
	MaxKeys               int
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listEntry
}

type listEntry struct {
	Key          string
	LastModified string
	ETag         string
	Size         int
}

func s3Error(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>%s</Message><RequestId>1</RequestId></Error>", code, message)
}

func (s *wireServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	if s.answer != nil && s.answer(w, r) {
		return
	}
	query := r.URL.Query()
	if query.Get("list-type") != "2" {
		data, ok := s.objects[r.URL.Path]
		if !ok {
			s3Error(w, http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
			return
		}
		w.Header().Set("ETag", `"`+catalogtest.ETag(data)+`"`)
		w.Header().Set("Last-Modified", noon.Format(http.TimeFormat))
		_, _ = w.Write(data)
		return
	}
	bucket := strings.TrimSuffix(r.URL.Path, "/") + "/"
	var keys []string
	for path := range s.objects {
		if key := strings.TrimPrefix(path, bucket); strings.HasPrefix(key, query.Get("prefix")) && key > query.Get("continuation-token") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	result := listResult{Name: strings.Trim(bucket, "/"), Prefix: query.Get("prefix"), MaxKeys: 1, IsTruncated: len(keys) > 1}
	if len(keys) > 0 {
		data := s.objects[bucket+keys[0]]
		result.KeyCount = 1
		result.NextContinuationToken = keys[0]
		result.Contents = []listEntry{{keys[0], noon.Format(time.RFC3339), `"` + catalogtest.ETag(data) + `"`, len(data)}}
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(result)
}

// wire starts a server with a run in s3://bucket/some/prefix.
func wire(t *testing.T) (*wireServer, *catalogtest.Run, Run) {
	t.Helper()
	server := &wireServer{objects: map[string][]byte{}}
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	files := &catalogtest.Run{Namespace: "team-a", Name: "llama", RunID: "run-1", Ranks: 2,
		Put: func(key string, data []byte) { server.objects["/bucket/some/prefix/"+key] = data }}
	return server, files, Run{
		Namespace: "team-a", Name: "llama", RunID: "run-1",
		Location:    Location{URI: "s3://bucket/some/prefix", Endpoint: listener.URL},
		Credentials: &Credentials{AccessKeyID: "AKIATESTKEY", SecretAccessKey: "hush-hush", SessionToken: "session-token"},
	}
}

func TestS3IsReadPageByPage(t *testing.T) {
	_, files, run := wire(t)
	files.Start(1, "")
	first := files.Save(1, 100)
	second := files.Save(1, 200)
	s := NewReader(OpenS3(S3Options{}), Options{Now: func() time.Time { return noon }}).Read(t.Context(), run, Ask{})
	if s.Failure != nil {
		t.Fatal(s.Failure.Message)
	}
	if len(s.Manifests) != 2 || find(t, s, first).Incomplete != "" || find(t, s, second).Incomplete != "" || s.Attempts[1].Start == nil {
		t.Errorf("%+v", s)
	}
	if m := s.Manifests[0]; m.ID != second || !m.CommittedAt.Equal(noon) {
		t.Errorf("%+v", m)
	}
}

func TestS3SendsNoRequestThatItNeedNot(t *testing.T) {
	server, files, run := wire(t)
	files.Start(1, "")
	reader := NewReader(OpenS3(S3Options{}), Options{})
	reader.Read(t.Context(), run, Ask{})
	server.mu.Lock()
	defer server.mu.Unlock()
	lists, gets := 0, []string{}
	for _, r := range server.requests {
		if strings.Contains(r, "list-type=2") {
			lists++
		} else {
			gets = append(gets, r)
		}
	}
	if diff := cmp.Diff([]string{"GET /bucket/some/prefix/team-a/llama/run-1/attempts/1/start.json"}, gets); diff != "" || lists != 3 {
		t.Errorf("%d listings; %s", lists, diff)
	}
}

func TestS3TellsWhatIsWrong(t *testing.T) {
	always := func(status int, code, message string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			s3Error(w, status, code, message)
			return true
		}
	}
	onGet := func(then func(http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("list-type") == "2" {
				return false
			}
			then(w)
			return true
		}
	}
	for _, c := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request) bool
		kind   checkpoint.FailureKind
		want   string
	}{
		{"no such bucket", always(404, "NoSuchBucket", "The specified bucket does not exist"), checkpoint.BucketNotFound,
			"listing team-a/llama/run-1/attempts/: the bucket does not exist"},
		{"access denied", always(403, "AccessDenied", "Access Denied."), checkpoint.AccessDenied, "AccessDenied (HTTP 403): Access Denied."},
		{"a key that is not known", always(403, "InvalidAccessKeyId", "AKIATESTKEY is not known"), checkpoint.AccessDenied,
			"InvalidAccessKeyId (HTTP 403): *** is not known"},
		{"a secret that is wrong", always(403, "SignatureDoesNotMatch", "signed with hush-hush and session-token"), checkpoint.AccessDenied,
			"signed with *** and ***"},
		{"a server that is overloaded", always(503, "SlowDown", "Please reduce your request rate."), checkpoint.Unreachable,
			"SlowDown (HTTP 503): Please reduce your request rate."},
		{"a server error", always(500, "InternalError", "oops"), checkpoint.Unreachable, "InternalError (HTTP 500): oops"},
		{"a proxy's page", func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte("<html>bad gateway</html>"))
			return true
		}, checkpoint.Unreachable, "502"},
		{"a listing that is no XML", func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte("hello"))
			return true
		}, checkpoint.Unreachable, "listing team-a/llama/run-1/attempts/"},
		{"an object that is refused", onGet(func(w http.ResponseWriter) { s3Error(w, 403, "AccessDenied", "no") }), checkpoint.AccessDenied,
			"reading team-a/llama/run-1/attempts/1/progress.json: AccessDenied"},
		{"an object that breaks off", onGet(func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Last-Modified", noon.Format(http.TimeFormat))
			_, _ = w.Write([]byte("{"))
		}), checkpoint.Unreachable, "reading team-a/llama/run-1/attempts/1/progress.json: unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, files, run := wire(t)
			files.Start(1, "")
			files.Progress(1, 100)
			files.Save(1, 100)
			server.answer = c.answer
			s := NewReader(OpenS3(S3Options{}), Options{}).Read(t.Context(), run, Ask{})
			if s.Failure == nil || s.Failure.Kind != c.kind || !strings.Contains(s.Failure.Message, c.want) {
				t.Fatalf("%+v, want %s with %q", s.Failure, c.kind, c.want)
			}
			for _, secret := range []string{"hush-hush", "session-token", "AKIATESTKEY", "Signature=", "X-Amz"} {
				if strings.Contains(s.Failure.Message, secret) {
					t.Errorf("the message holds %s: %s", secret, s.Failure.Message)
				}
			}
			if !strings.Contains(s.Failure.Message, "bucket bucket at http://127.0.0.1") {
				t.Error("the message does not say where:", s.Failure.Message)
			}
			// It passes, and the reading is as if nothing had been.
			server.mu.Lock()
			server.answer = nil
			server.mu.Unlock()
			if s := NewReader(OpenS3(S3Options{}), Options{}).Read(t.Context(), run, Ask{}); s.Failure != nil || len(s.Manifests) != 1 {
				t.Errorf("%+v", s.Failure)
			}
		})
	}
}

func TestS3ErrorsThatPassAreTriedAgain(t *testing.T) {
	server, files, run := wire(t)
	files.Start(1, "")
	files.Save(1, 100)
	failures := 2
	server.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if failures--; failures < 0 {
			return false
		}
		s3Error(w, 503, "SlowDown", "slow")
		return true
	}
	if s := NewReader(OpenS3(S3Options{}), Options{}).Read(t.Context(), run, Ask{}); s.Failure != nil {
		t.Error(s.Failure.Message)
	}
}

func TestS3ThatHangsIsUnreachable(t *testing.T) {
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-released:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(released)
	run := Run{Namespace: "n", Name: "n", RunID: "r", Location: Location{URI: "s3://bucket", Endpoint: server.URL}, Credentials: &Credentials{AccessKeyID: "a", SecretAccessKey: "b"}}
	s := NewReader(OpenS3(S3Options{}), Options{Timeout: 200 * time.Millisecond}).Read(t.Context(), run, Ask{})
	if s.Failure == nil || s.Failure.Kind != checkpoint.Unreachable || !strings.Contains(s.Failure.Message, "no answer in time (no reading within 200ms)") {
		t.Errorf("%+v", s.Failure)
	}
}

func TestS3ThatIsNotThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	credentials := &Credentials{AccessKeyID: "a", SecretAccessKey: "b"}
	for endpoint, want := range map[string]string{
		"http://" + address:           "connection refused",
		"http://no-such-host.invalid": "",
	} {
		run := Run{Namespace: "n", Name: "n", RunID: "r", Location: Location{URI: "s3://bucket/p", Endpoint: endpoint}, Credentials: credentials}
		s := NewReader(OpenS3(S3Options{}), Options{}).Read(t.Context(), run, Ask{})
		if s.Failure == nil || s.Failure.Kind != checkpoint.Unreachable || !strings.Contains(s.Failure.Message, want) || strings.Contains(s.Failure.Message, "list-type") {
			t.Errorf("%s: %+v", endpoint, s.Failure)
		}
	}
}

func TestALocationThatIsNone(t *testing.T) {
	for _, l := range []Location{
		{URI: "file:///etc"}, {URI: "s3://"}, {URI: "bucket/prefix"}, {},
		{URI: "s3://bucket", Endpoint: "127.0.0.1:9000"},
		{URI: "s3://bucket", Endpoint: "http://user:hush@127.0.0.1:9000"},
		{URI: "s3://bucket", Endpoint: "http://127.0.0.1:9000/path"},
	} {
		_, err := OpenS3(S3Options{})(l, &Credentials{AccessKeyID: "a", SecretAccessKey: "b"})
		if err == nil || !strings.Contains(err.Error(), "storage.") || strings.Contains(err.Error(), "hush") {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

func TestAListingMayBeLeftInTheMiddle(t *testing.T) {
	server, files, run := wire(t)
	files.Save(1, 100)
	store, err := OpenS3(S3Options{})(run.Location, run.Credentials)
	if err != nil {
		t.Fatal(err)
	}
	for o, err := range store.List(context.Background(), "team-a/") {
		if err != nil || o.Key == "" {
			t.Fatal(o, err)
		}
		break
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if len(server.requests) > 2 {
		t.Errorf("%d pages were asked for after the loop ended", len(server.requests))
	}
}
