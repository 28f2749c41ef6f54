package catalog

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"rtj.dev/rtj/compose/checkpoint"
)

func TestWithoutASecretTheEnvironmentSigns(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	server, files, run := wire(t)
	files.Save(1, 100)
	run.Credentials = nil
	signed := 0
	server.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.Header.Get("Authorization"), "Credential=AKIAENVIRONMENT/") {
			signed++
		}
		return false
	}
	if s := NewReader(OpenS3(S3Options{}), Options{}).Read(t.Context(), run, Ask{}); s.Failure != nil || len(s.Manifests) != 1 {
		t.Fatalf("%+v", s.Failure)
	}
	if signed != len(server.requests) {
		t.Errorf("%d of %d requests are signed by the environment's key", signed, len(server.requests))
	}

	server.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		s3Error(w, 403, "AccessDenied", "no")
		return true
	}
	s := NewReader(OpenS3(S3Options{}), Options{}).Read(t.Context(), run, Ask{})
	if s.Failure == nil || s.Failure.Kind != checkpoint.AccessDenied || !strings.Contains(s.Failure.Message, "the environment's credentials were used") {
		t.Errorf("%+v", s.Failure)
	}
}

// metadata is a provider that has credentials from the third time on.
type metadata struct{ asked int }

func (m *metadata) IsExpired() bool                      { return false }
func (m *metadata) Retrieve() (credentials.Value, error) { return m.RetrieveWithCredContext(nil) }
func (m *metadata) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	if m.asked++; m.asked < 3 {
		return credentials.Value{}, errors.New("no metadata service")
	}
	return credentials.Value{AccessKeyID: "k"}, nil
}

func TestAMetadataServiceThatIsNotThereIsLeftAlone(t *testing.T) {
	now, service := noon, &metadata{}
	p := &patient{Provider: service, now: func() time.Time { return now }}
	for range 100 {
		if _, err := p.RetrieveWithCredContext(nil); err == nil {
			t.Fatal("credentials from nowhere")
		}
	}
	if service.asked != 1 {
		t.Errorf("asked %d times", service.asked)
	}
	now = now.Add(patience)
	_, _ = p.RetrieveWithCredContext(nil)
	now = now.Add(patience)
	if v, err := p.RetrieveWithCredContext(nil); err != nil || v.AccessKeyID != "k" || service.asked != 3 {
		t.Errorf("%v, asked %d times", err, service.asked)
	}
	// Credentials that expire are asked for again at once.
	if _, err := p.RetrieveWithCredContext(nil); err != nil || service.asked != 4 {
		t.Errorf("%v, asked %d times", err, service.asked)
	}
}
