package webhook

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestRedirects(t *testing.T) {
	const token = `, authorization: {secretRef: {name: s, namespace: ns, key: token}}`
	for name, c := range map[string]struct {
		code      int
		elsewhere bool
		settings  string
		query     string
		followed  bool
	}{
		"307, same host":                   {307, false, "", "", true},
		"308, same host, with credentials": {308, false, token, "", true},
		"307, elsewhere":                   {307, true, "", "", true},
		"307, elsewhere, with credentials": {307, true, token, "", false},
		"307, elsewhere, with a query":     {307, true, "", "?key=1", false},
		// Followed, these would become a GET.
		"301": {301, false, "", "", false},
		"302": {302, false, "", "", false},
		"303": {303, false, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			arrived := ""
			target := func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				arrived = r.Method + " " + string(body[:2])
				answering(`{}`)(w, r)
			}
			other := serve(t, target)
			var server *httptest.Server
			server = serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/there" {
					target(w, r)
					return
				}
				to := server.URL
				if c.elsewhere {
					to = other.URL
				}
				w.Header().Set("Location", strings.Replace(to, "//", "//user:secret@", 1)+"/there?key=secret")
				w.WriteHeader(c.code)
			})
			h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+"/sync"+c.query+`"`+c.settings+`}}}`), withObjects(secret("s", "token", "abc")))
			_, err := h.Sync(t.Context(), request())
			if c.followed {
				if err != nil || arrived != `POST {"` {
					t.Errorf("%v, arrived: %s", err, arrived)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "/there, which is not followed: only 307 and 308") || strings.Contains(err.Error(), "secret") || arrived != "" {
				t.Errorf("%v, arrived: %s", err, arrived)
			}
		})
	}
}

// A client certificate is a credential too, and an https hook does not lead to http.
func TestRedirectsOverTLS(t *testing.T) {
	ca := newAuthority(t)
	pair := ca.pair("server")
	certificate, key := ca.issue("applier")
	objects := withObjects(secret("tls", "ca.crt", ca.pem, "tls.crt", certificate, "tls.key", key))
	const bundle = `caBundle: {secretRef: {name: tls, namespace: ns}}`
	for name, c := range map[string]struct {
		settings string
		plain    bool
		followed bool
	}{
		"no credentials":     {bundle, false, true},
		"client certificate": {bundle + `, clientTLS: {secretRef: {name: tls, namespace: ns}}`, false, false},
		"to plain http":      {bundle, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			arrived := false
			arrival := func(w http.ResponseWriter, r *http.Request) {
				arrived = true
				answering(`{}`)(w, r)
			}
			other := serveTLS(t, func() tls.Certificate { return pair }, nil, arrival)
			if c.plain {
				other = serve(t, arrival)
			}
			server := serveTLS(t, func() tls.Certificate { return pair }, nil, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
			})
			h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`", `+c.settings+`}}}`), objects)
			if _, err := h.Sync(t.Context(), request()); (err == nil) != c.followed || arrived != c.followed {
				t.Errorf("%v, arrived: %v", err, arrived)
			}
		})
	}
}

func TestRedirectLoop(t *testing.T) {
	n := 0
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
	})
	h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`/sync"}}}`))
	if _, err := h.Sync(t.Context(), request()); err == nil || n != 10 {
		t.Errorf("%v after %d requests", err, n)
	}
}

// Proxies are those of the environment, as for every program that uses net/http,
// Metacontroller among them. The environment is read once in a process, so this
// needs one of its own.
func TestProxyOfTheEnvironment(t *testing.T) {
	if os.Getenv("WEBHOOK_TEST_PROXIED") != "" {
		h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "http://hook.example/sync"}}}`))
		if _, err := h.Sync(t.Context(), request()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(h.log.String(), "through a proxy") || strings.Contains(h.log.String(), "proxy-secret") {
			t.Errorf("log: %s", h.log)
		}
		return
	}
	got := ""
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Method + " " + r.URL.String()
		answering(`{}`)(w, r)
	})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxyOfTheEnvironment$")
	cmd.Env = append(os.Environ(), "WEBHOOK_TEST_PROXIED=1", "NO_PROXY=", "no_proxy=",
		"HTTP_PROXY="+strings.Replace(proxy.URL, "http://", "http://user:proxy-secret@", 1), "http_proxy=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got != "POST http://hook.example/sync" {
		t.Errorf("the proxy got %q", got)
	}
}
