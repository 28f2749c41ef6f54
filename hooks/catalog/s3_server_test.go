package catalog

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog/catalogtest"
)

// s3Program finds the local cluster's S3 server: RTJ_S3SERVER, else the newest
// in the cache of its programs.
func s3Program(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv("RTJ_S3SERVER"); path != "" {
		return path
	}
	cache := os.Getenv("RTJ_CACHE")
	if cache == "" {
		if base, err := os.UserCacheDir(); err == nil {
			cache = filepath.Join(base, "rtj")
		}
	}
	found, _ := filepath.Glob(filepath.Join(cache, "bin", "*", "versitygw"))
	if len(found) == 0 {
		tb.Skip("no S3 server: set RTJ_S3SERVER to versitygw, or build the local cluster's programs first")
	}
	return found[len(found)-1]
}

// s3Server runs a real S3 server with a bucket named bucket until the test ends.
func s3Server(tb testing.TB) (endpoint string, keys Credentials) {
	tb.Helper()
	program, dir := s3Program(tb), tb.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bucket"), 0o755); err != nil {
		tb.Fatal(err)
	}
	keys = Credentials{AccessKeyID: "test-access", SecretAccessKey: "test-secret"}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()

	var output bytes.Buffer
	server := exec.Command(program, "--port", address, "--quiet", "--health", "/health", "posix", "--sidecar", tb.TempDir(), dir)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY_ID="+keys.AccessKeyID, "ROOT_SECRET_ACCESS_KEY="+keys.SecretAccessKey)
	server.Stdout, server.Stderr = &output, &output
	if err := server.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	tb.Cleanup(func() {
		_ = server.Process.Kill()
		<-ended
	})
	endpoint = "http://" + address
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		response, err := http.Get(endpoint + "/health")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return endpoint, keys
			}
		}
		select {
		case err := <-ended:
			ended <- err
			tb.Fatalf("the S3 server ended: %v\n%s", err, output.String())
		default:
		}
		if time.Now().After(until) {
			tb.Fatal("the S3 server does not answer")
		}
	}
}

// uploads returns a Put into the bucket.
func uploads(tb testing.TB, endpoint string, keys Credentials, prefix string) (*minio.Client, catalogtest.Put) {
	tb.Helper()
	client, err := minio.New(strings.TrimPrefix(endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(keys.AccessKeyID, keys.SecretAccessKey, ""), Region: "us-east-1"})
	if err != nil {
		tb.Fatal(err)
	}
	return client, func(key string, data []byte) {
		if _, err := client.PutObject(tb.Context(), "bucket", prefix+key, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{}); err != nil {
			tb.Fatal(err)
		}
	}
}

func TestAgainstARealS3Server(t *testing.T) {
	endpoint, keys := s3Server(t)
	client, put := uploads(t, endpoint, keys, "teams/")
	files := &catalogtest.Run{Namespace: "team-a", Name: "llama", RunID: "run-1", Ranks: 2, Put: put}
	run := Run{Namespace: "team-a", Name: "llama", RunID: "run-1",
		Location: Location{URI: "s3://bucket/teams", Endpoint: endpoint}, Credentials: &keys}
	reader := NewReader(OpenS3(S3Options{PageSize: 2}), Options{})
	read := func() *checkpoint.Snapshot {
		t.Helper()
		s := reader.Read(t.Context(), run, Ask{})
		if s.Failure != nil {
			t.Fatalf("%s: %s", s.Failure.Kind, s.Failure.Message)
		}
		return s
	}

	if s := read(); !checkpoint.Select(s, checkpoint.Query{RunID: "run-1"}).Empty {
		t.Error("a run without objects is not empty")
	}
	files.Start(1, "")
	first := files.Save(1, 100)
	second := files.Save(1, 200)
	files.Start(2, second)
	files.Progress(2, 250)
	if s := read(); find(t, s, first).Incomplete != "" || find(t, s, second).Incomplete != "" || s.Attempts[2].Progress.Step != 250 {
		t.Errorf("%+v", s)
	}
	third := files.Save(2, 300)
	if err := client.RemoveObject(t.Context(), "bucket", "teams/"+files.Key("checkpoints/2/300-000000000003/01/r1-0"), minio.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	s := read()
	if got := find(t, s, third).Incomplete; !strings.Contains(got, "01/r1-0 is missing") {
		t.Errorf("%q", got)
	}
	if c := checkpoint.Select(s, checkpoint.Query{RunID: "run-1", WorldSize: 2}); c.Selected == nil || c.Selected.ID != second {
		t.Errorf("%+v", c)
	}

	for name, c := range map[string]struct {
		change func(*Run)
		kind   checkpoint.FailureKind
	}{
		"another bucket": {func(r *Run) { r.Location.URI = "s3://nowhere/teams" }, checkpoint.BucketNotFound},
		"another secret": {func(r *Run) {
			r.Credentials = &Credentials{AccessKeyID: keys.AccessKeyID, SecretAccessKey: "wrong-secret"}
		}, checkpoint.AccessDenied},
		"another access key": {func(r *Run) { r.Credentials = &Credentials{AccessKeyID: "nobody", SecretAccessKey: "wrong-secret"} }, checkpoint.AccessDenied},
	} {
		other := run
		c.change(&other)
		s := reader.Read(t.Context(), other, Ask{})
		if s.Failure == nil || s.Failure.Kind != c.kind || strings.Contains(s.Failure.Message, "wrong-secret") {
			t.Errorf("%s: %+v", name, s.Failure)
		}
	}
}

// BenchmarkRead reads a run of 64 checkpoints, 8 ranks each, from a real S3
// server on this machine.
func BenchmarkRead(b *testing.B) {
	endpoint, keys := s3Server(b)
	_, put := uploads(b, endpoint, keys, "")
	files := &catalogtest.Run{Namespace: "team-a", Name: "llama", RunID: "run-1", Ranks: 8, Put: put}
	last := ""
	for attempt := int32(1); attempt <= 16; attempt++ {
		files.Start(attempt, last)
		for k := range int64(4) {
			last = files.Save(attempt, int64(attempt)*1000+k)
		}
	}
	files.Progress(16, 16_010)
	run := Run{Namespace: "team-a", Name: "llama", RunID: "run-1",
		Location: Location{URI: "s3://bucket", Endpoint: endpoint}, Credentials: &keys}
	counted := &countingTransport{next: http.DefaultTransport}
	open := OpenS3(S3Options{Transport: counted})
	read := func(b *testing.B, reader *Reader, ask Ask) {
		b.Helper()
		if s := reader.Read(b.Context(), run, ask); s.Failure != nil || len(s.Manifests) != 64 {
			b.Fatal(s.Failure)
		}
	}
	b.Run("64 checkpoints of 8 ranks/cold", func(b *testing.B) {
		b.ReportAllocs()
		before := counted.requests.Load()
		for b.Loop() {
			read(b, NewReader(open, Options{}), Ask{})
		}
		b.ReportMetric(float64(counted.requests.Load()-before)/float64(b.N), "requests/op")
	})
	warm := NewReader(open, Options{})
	read(b, warm, Ask{})
	for name, ask := range map[string]Ask{"nothing new": {}, "one checked again": {Recheck: []string{last}}} {
		b.Run("64 checkpoints of 8 ranks/"+name, func(b *testing.B) {
			b.ReportAllocs()
			before := counted.requests.Load()
			for b.Loop() {
				read(b, warm, ask)
			}
			b.ReportMetric(float64(counted.requests.Load()-before)/float64(b.N), "requests/op")
		})
	}
}

// countingTransport counts requests.
type countingTransport struct {
	next     http.RoundTripper
	requests atomic.Int64
}

func (c *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.next.RoundTrip(r)
}
