package live

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
)

// clientOf is a client of a server that answers by the function.
func clientOf(t *testing.T, answer func(r *http.Request, body string) (int, string)) dynamic.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		code, text := answer(r, string(body))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func failure(code int, reason metav1.StatusReason, message string) string {
	body, _ := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reason, Code: int32(code), Message: message})
	return string(body)
}

func TestSecretsSayWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		code int
		body string
		kind checkpoint.FailureKind
		says string
	}{
		"missing":        {404, failure(404, metav1.StatusReasonNotFound, `secrets "store" not found`), checkpoint.SecretNotFound, "Secret store does not exist in namespace team-a"},
		"lacks the id":   {200, secret(`"AWS_SECRET_ACCESS_KEY":"aGlkZGVu"`), checkpoint.SecretIncomplete, "AWS_ACCESS_KEY_ID"},
		"lacks the key":  {200, secret(`"AWS_ACCESS_KEY_ID":"aWQ="`), checkpoint.SecretIncomplete, "AWS_SECRET_ACCESS_KEY"},
		"an empty value": {200, secret(`"AWS_ACCESS_KEY_ID":"","AWS_SECRET_ACCESS_KEY":"aGlkZGVu"`), checkpoint.SecretIncomplete, "AWS_ACCESS_KEY_ID"},
		"not allowed":    {403, failure(403, metav1.StatusReasonForbidden, "no"), checkpoint.Unreachable, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Secrets{Client: clientOf(t, func(*http.Request, string) (int, string) { return c.code, c.body })}
			credentials, failure := s.Get(context.Background(), "team-a", "store")
			if failure == nil || failure.Kind != c.kind || !strings.Contains(failure.Message, c.says) {
				t.Errorf("got %v, %+v", credentials, failure)
			}
			if strings.Contains(fmt.Sprintf("%+v", failure), "hidden") {
				t.Errorf("the value is told: %+v", failure)
			}
		})
	}
}

func secret(data string) string {
	return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"store"},"data":{` + data + `}}`
}

func TestASecretIsReadEveryThirtySeconds(t *testing.T) {
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	reads := 0
	s := &Secrets{Now: func() time.Time { return now }, Client: clientOf(t, func(r *http.Request, _ string) (int, string) {
		reads++
		if r.Method != http.MethodGet || r.URL.Path != "/api/v1/namespaces/team-a/secrets/store" || r.URL.RawQuery != "" {
			t.Errorf("%s %s: want a plain read of one Secret", r.Method, r.URL)
		}
		return 200, secret(`"AWS_ACCESS_KEY_ID":"aWQ=","AWS_SECRET_ACCESS_KEY":"aGlkZGVu","AWS_SESSION_TOKEN":"dG9rZW4="`)
	})}
	get := func() {
		t.Helper()
		c, failure := s.Get(context.Background(), "team-a", "store")
		if failure != nil || c.AccessKeyID != "id" || c.SecretAccessKey != "hidden" || c.SessionToken != "token" {
			t.Fatalf("got %+v", failure)
		}
		if text := fmt.Sprintf("%v %+v %#v", c, c, *c); strings.Contains(text, "hidden") {
			t.Errorf("prints as %s", text)
		}
	}
	get()
	now = now.Add(29 * time.Second)
	get()
	if reads != 1 {
		t.Errorf("%d reads within 30 s", reads)
	}
	now = now.Add(2 * time.Second)
	get()
	if reads != 2 {
		t.Errorf("%d reads after 31 s", reads)
	}
	s.Forget("team-a", "store")
	get()
	if reads != 3 {
		t.Errorf("%d reads after it was forgotten", reads)
	}
}

func TestDryRunTellsWhatTheServerSays(t *testing.T) {
	parent := &v1beta1.ResumableTrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "llama", UID: "u-1"}}
	child := &compose.Child{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "llama-2", New: map[string]any{"metadata": map[string]any{"name": "llama-2"}, "spec": map[string]any{"suspend": true}}}
	exists := func(owner string) func(*http.Request, string) (int, string) {
		return func(r *http.Request, _ string) (int, string) {
			if r.Method == http.MethodPost {
				return 409, failure(409, metav1.StatusReasonAlreadyExists, "exists")
			}
			return 200, `{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","metadata":{"name":"llama-2"` + owner + `}}`
		}
	}
	always := func(code int, reason metav1.StatusReason, message string) func(*http.Request, string) (int, string) {
		return func(*http.Request, string) (int, string) { return code, failure(code, reason, message) }
	}
	for name, c := range map[string]struct {
		answer func(*http.Request, string) (int, string)
		want   *compose.LaunchProbe
	}{
		"accepted":           {func(_ *http.Request, body string) (int, string) { return 201, body }, &compose.LaunchProbe{JobSet: "llama-2"}},
		"over quota":         {always(403, metav1.StatusReasonForbidden, "exceeded quota: x"), &compose.LaunchProbe{JobSet: "llama-2", Refused: "exceeded quota: x"}},
		"invalid":            {always(422, metav1.StatusReasonInvalid, "spec.x: Invalid value"), &compose.LaunchProbe{JobSet: "llama-2", Refused: "spec.x: Invalid value"}},
		"ours, seen late":    {exists(`,"ownerReferences":[{"apiVersion":"training.rtj.dev/v1beta1","kind":"ResumableTrainingJob","name":"llama","uid":"u-1","controller":true}]`), &compose.LaunchProbe{JobSet: "llama-2"}},
		"of another":         {exists(`,"ownerReferences":[{"apiVersion":"v1","kind":"Other","name":"o","uid":"u-9","controller":true}]`), &compose.LaunchProbe{JobSet: "llama-2", Foreign: true, Refused: "a JobSet llama-2 exists and belongs to Other o"}},
		"of nobody":          {exists(""), &compose.LaunchProbe{JobSet: "llama-2", Foreign: true, Refused: "a JobSet llama-2 exists and is controlled by nobody"}},
		"the server is down": {always(503, metav1.StatusReasonServiceUnavailable, "later"), nil},
		"too many requests":  {always(429, metav1.StatusReasonTooManyRequests, "later"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := Launcher{Client: clientOf(t, func(r *http.Request, body string) (int, string) {
				if r.Method == http.MethodPost {
					if r.URL.Query().Get("dryRun") != "All" {
						t.Errorf("%s is no dry run", r.URL)
					}
					if !strings.Contains(body, `"uid":"u-1"`) {
						t.Errorf("the owner is missing in %s", body)
					}
				}
				return c.answer(r, body)
			})}
			got, err := l.DryRun(context.Background(), parent, child)
			if (c.want == nil) != (err != nil) {
				t.Fatalf("got %+v, %v", got, err)
			}
			if c.want != nil && *got != *c.want {
				t.Errorf("got  %+v\nwant %+v", *got, *c.want)
			}
		})
	}
}

func TestALongRefusalIsTrimmed(t *testing.T) {
	text := trim(strings.Repeat("ä", 1000))
	if len(text) > maxRefusal || !strings.HasSuffix(text, "ä…") {
		t.Errorf("%d bytes, ends %q", len(text), text[len(text)-8:])
	}
	if trim("short") != "short" {
		t.Error("a short one is changed")
	}
}
