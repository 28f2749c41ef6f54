package webhook

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"rtj.dev/rtj/metacontroller/applier"
)

var discard = log.New(io.Discard, "", 0)

// secret makes a Secret in namespace ns.
func secret(name string, values ...string) *unstructured.Unstructured {
	data := map[string]any{}
	for i := 0; i < len(values); i += 2 {
		data[values[i]] = base64.StdEncoding.EncodeToString([]byte(values[i+1]))
	}
	return objectIn("Secret", name, data)
}

func configMap(name string, values ...string) *unstructured.Unstructured {
	data := map[string]any{}
	for i := 0; i < len(values); i += 2 {
		data[values[i]] = values[i+1]
	}
	return objectIn("ConfigMap", name, data)
}

func objectIn(kind, name string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": "ns"}, "data": data,
	}}
}

func clusterOf(objects ...*unstructured.Unstructured) *dynamicfake.FakeDynamicClient {
	list := make([]runtime.Object, len(objects))
	for i, o := range objects {
		list[i] = o
	}
	return dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), list...)
}

func withObjects(objects ...*unstructured.Unstructured) func(*Options) {
	return func(o *Options) { o.Client = clusterOf(objects...) }
}

func TestAuthorization(t *testing.T) {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:pass word"))
	for name, c := range map[string]struct {
		settings string
		object   *unstructured.Unstructured
		want     string
	}{
		"Bearer by default":       {`authorization: {secretRef: {name: s, namespace: ns, key: token}}`, secret("s", "token", "abc"), "Bearer abc"},
		"another type":            {`authorization: {type: Token, secretRef: {name: s, namespace: ns, key: k}}`, secret("s", "k", "abc"), "Token abc"},
		"a line break at the end": {`authorization: {secretRef: {name: s, namespace: ns, key: token}}`, secret("s", "token", "abc\n"), "Bearer abc"},
		"basic":                   {`basicAuth: {secretRef: {name: s, namespace: ns}}`, secret("s", "username", "me", "password", "pass word\n"), basic},
		"basic, other keys":       {`basicAuth: {secretRef: {name: s, namespace: ns}, usernameKey: u, passwordKey: p}`, secret("s", "u", "me", "p", "pass word"), basic},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got = r.Header.Get("Authorization")
				answering(`{}`)(w, r)
			})
			h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`", `+c.settings+`}}}`), withObjects(c.object))
			if _, err := h.Sync(t.Context(), request()); err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if !strings.Contains(h.log.String(), "plain http") {
				t.Error("nothing warns of credentials over plain http")
			}
			for _, word := range []string{"abc", "pass word", c.want} {
				if strings.Contains(h.log.String(), word) {
					t.Errorf("%q is logged", word)
				}
			}
		})
	}
}

func TestCredentialsThatCannotBeUsed(t *testing.T) {
	ca := newAuthority(t)
	certificate, _ := ca.issue("one")
	_, key := ca.issue("another")
	for name, c := range map[string]struct {
		settings string
		object   *unstructured.Unstructured
		want     string
	}{
		"no Secret":        {`authorization: {secretRef: {name: s, namespace: ns, key: token}}`, secret("other"), "authorization.secretRef: there is no Secret ns/s"},
		"no key":           {`authorization: {secretRef: {name: s, namespace: ns, key: token}}`, secret("s", "x", "abc"), `authorization.secretRef: Secret ns/s: has no key "token"`},
		"empty":            {`authorization: {secretRef: {name: s, namespace: ns, key: token}}`, secret("s", "token", ""), `authorization.secretRef: Secret ns/s: key "token" is empty`},
		"white space":      {`authorization: {secretRef: {name: s, namespace: ns, key: token}}`, secret("s", "token", "\n"), `authorization.secretRef: is empty`},
		"two lines":        {`authorization: {secretRef: {name: s, namespace: ns, key: token}}`, secret("s", "token", "a\nX-Other: b"), `authorization.secretRef: has a line break or another control character in the middle`},
		"no password":      {`basicAuth: {secretRef: {name: s, namespace: ns}}`, secret("s", "username", "me"), `basicAuth.passwordKey: Secret ns/s: has no key "password"`},
		"a colon":          {`basicAuth: {secretRef: {name: s, namespace: ns}}`, secret("s", "username", "m:e", "password", "p"), `basicAuth.usernameKey: a user name cannot have a colon`},
		"no bundle":        {`caBundle: {configMapRef: {name: s, namespace: ns}}`, configMap("s", "ca.pem", ca.pem), `caBundle: ConfigMap ns/s: has no key "ca.crt"`},
		"no ConfigMap":     {`caBundle: {configMapRef: {name: s, namespace: ns}}`, secret("s", "ca.crt", ca.pem), `caBundle: there is no ConfigMap ns/s`},
		"not PEM":          {`caBundle: {secretRef: {name: s, namespace: ns}}`, secret("s", "ca.crt", "x"), `caBundle: has no certificate in PEM form`},
		"keys that differ": {`clientTLS: {secretRef: {name: s, namespace: ns}}`, secret("s", "tls.crt", certificate, "tls.key", key), `clientTLS: tls: private key does not match public key`},
		"no private key":   {`clientTLS: {secretRef: {name: s, namespace: ns}, privateKeyKey: k}`, secret("s", "tls.crt", certificate, "tls.key", key), `clientTLS.privateKeyKey: Secret ns/s: has no key "k"`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "https://127.0.0.1:1", `+c.settings+`}}}`), withObjects(c.object))
			_, err := h.Sync(t.Context(), request())
			if err == nil || err.Error() != c.want || causeOf(t, err) != applier.CauseCredentials {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	pair := ca.pair("server")
	certificate, key := ca.issue("applier")
	foreign, foreignKey := other.issue("somebody")
	objects := withObjects(
		secret("tls", "ca.crt", ca.pem, "tls.crt", certificate, "tls.key", key, "bundle", ca.pem),
		secret("foreign", "ca.crt", other.pem, "tls.crt", foreign, "tls.key", foreignKey),
		configMap("bundle", "ca.crt", ca.pem, "other", other.pem),
	)
	const clientTLS = `, clientTLS: {secretRef: {name: tls, namespace: ns}}`
	for name, c := range map[string]struct {
		settings string
		mutual   bool
		want     string // a pattern of the error
	}{
		"inline":         {`caBundle: {inline: "` + strings.ReplaceAll(ca.pem, "\n", `\n`) + `"}`, false, ""},
		"Secret":         {`caBundle: {secretRef: {name: tls, namespace: ns}}`, false, ""},
		"Secret, key":    {`caBundle: {secretRef: {name: tls, namespace: ns, key: bundle}}`, false, ""},
		"ConfigMap":      {`caBundle: {configMapRef: {name: bundle, namespace: ns}}`, false, ""},
		"mutual":         {`caBundle: {configMapRef: {name: bundle, namespace: ns}}` + clientTLS, true, ""},
		"foreign bundle": {`caBundle: {configMapRef: {name: bundle, namespace: ns, key: other}}`, false, "certificate signed by unknown authority"},
		"system roots":   {`timeout: 10s`, false, "certificate"},
		// A server that closes before all is sent takes its alert with it.
		"no client's":      {`caBundle: {configMapRef: {name: bundle, namespace: ns}}`, true, "tls: |broken pipe|connection reset|could not be established|EOF"},
		"a foreign client": {`caBundle: {configMapRef: {name: bundle, namespace: ns}}, clientTLS: {secretRef: {name: foreign, namespace: ns}}`, true, "tls: |perhaps the hook does not accept the certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			clients := ca
			if !c.mutual {
				clients = nil
			}
			who := ""
			server := serveTLS(t, func() tls.Certificate { return pair }, clients, func(w http.ResponseWriter, r *http.Request) {
				if len(r.TLS.PeerCertificates) > 0 {
					who = r.TLS.PeerCertificates[0].Subject.CommonName
				}
				answering(`{}`)(w, r)
			})
			h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`/sync", `+c.settings+`}}}`), objects)
			_, err := h.Sync(t.Context(), request())
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want == "" && c.mutual && who != "applier":
				t.Errorf("the hook saw %q", who)
			case c.want != "":
				if !regexp.MustCompile("^POST " + server.URL + "/sync: .*(" + c.want + ")").MatchString(fmt.Sprint(err)) {
					t.Errorf("got  %v\nwant ... %s", err, c.want)
				} else if cause := causeOf(t, err); cause != applier.CauseTLS && strings.Contains(err.Error(), "tls: ") {
					t.Errorf("counted as %s", cause)
				}
			}
		})
	}
}

func TestOldTLSIsNotSpoken(t *testing.T) {
	ca := newAuthority(t)
	server := httptest.NewUnstartedServer(answering(`{}`))
	server.Config.ErrorLog = discard
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.pair("server")}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	server.StartTLS()
	t.Cleanup(server.Close)
	h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`", caBundle: {secretRef: {name: tls, namespace: ns}}}}}`), withObjects(secret("tls", "ca.crt", ca.pem)))
	if _, err := h.Sync(t.Context(), request()); causeOf(t, err) != applier.CauseTLS || !strings.Contains(err.Error(), "version") {
		t.Errorf("got %v", err)
	}
}

func TestHTTPWhereHTTPSIsExpected(t *testing.T) {
	server := serve(t, answering(`{}`))
	h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+strings.Replace(server.URL, "http:", "https:", 1)+`"}}}`))
	if _, err := h.Sync(t.Context(), request()); causeOf(t, err) != applier.CauseTLS {
		t.Errorf("got %v", err)
	}
}

// rotation is a hook that knows one token, a Secret that has one, and a clock.
type rotation struct {
	*fixture
	t       *testing.T
	cluster *dynamicfake.FakeDynamicClient
	mu      sync.Mutex
	token   string
	now     time.Time
}

func newRotation(t *testing.T) *rotation {
	r := &rotation{t: t, token: "one", now: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC), cluster: clusterOf(secret("s", "token", "one"))}
	server := serve(t, func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if request.Header.Get("Authorization") != "Bearer "+r.token {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, "not %s", request.Header.Get("Authorization"))
			return
		}
		answering(`{}`)(w, request)
	})
	hook := `{webhook: {url: "` + server.URL + `", authorization: {secretRef: {name: s, namespace: ns, key: token}}}}`
	r.fixture = newFixture(t, controllerOf(t, `{sync: `+hook+`, finalize: `+hook+`}`), func(o *Options) { o.Client = r.cluster })
	r.sync.connection.now = func() time.Time { return r.now }
	return r
}

// put writes what the Secret has.
func (r *rotation) put(values ...string) {
	r.t.Helper()
	if err := r.cluster.Tracker().Update(secrets, secret("s", values...), "ns"); err != nil {
		r.t.Fatal(err)
	}
}

// reads counts the requests for the Secret.
func (r *rotation) reads() int {
	n := 0
	for _, a := range r.cluster.Actions() {
		if a.GetVerb() == "get" {
			n++
		}
	}
	return n
}

// expect calls sync; want is a part of the error, or empty.
func (r *rotation) expect(want string, reads int) {
	r.t.Helper()
	_, err := r.Sync(r.t.Context(), request())
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		r.t.Errorf("got %v, want %q", err, want)
	}
	if err != nil && strings.Contains(err.Error(), "Bearer one") {
		r.t.Errorf("a token is shown: %v", err)
	}
	if got := r.reads(); got != reads {
		r.t.Errorf("read %d times, want %d", got, reads)
	}
}

func (r *rotation) after(d time.Duration) { r.now = r.now.Add(d) }

func TestRotation(t *testing.T) {
	t.Run("is seen within a minute", func(t *testing.T) {
		r := newRotation(t)
		r.expect("", 1)
		r.put("token", "two")
		r.after(59 * time.Second)
		r.expect("", 1)
		r.after(time.Second)
		r.expect("status 401 Unauthorized: not Bearer [redacted]", 2) // it has the new one, the hook not yet
		r.token = "two"
		r.expect("", 3) // a refusal has it read anew
		r.expect("", 3)
	})
	t.Run("is seen at once when the hook refuses", func(t *testing.T) {
		r := newRotation(t)
		r.expect("", 1)
		r.after(time.Second)
		r.put("token", "two")
		r.token = "two"
		r.expect("status 401", 1)
		r.expect("", 2)
	})
	t.Run("a hook that always refuses causes few reads", func(t *testing.T) {
		r := newRotation(t)
		r.token = "never"
		r.expect("status 401", 1)
		for range 100 {
			r.expect("status 401", 2)
		}
		r.after(rereadAfterFailure)
		r.expect("status 401", 2)
		r.expect("status 401", 3)
	})
	t.Run("hooks with the same settings share what is read", func(t *testing.T) {
		r := newRotation(t)
		r.expect("", 1)
		if _, err := r.Finalize(t.Context(), request()); err != nil || r.reads() != 1 {
			t.Errorf("%v, %d reads", err, r.reads())
		}
	})
	t.Run("an API server that does not answer is no reason to stop", func(t *testing.T) {
		r := newRotation(t)
		r.expect("", 1)
		var failing error = errors.New("the server is on fire")
		r.cluster.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return failing != nil, nil, failing })
		r.after(time.Minute)
		r.expect("", 2)
		if !strings.Contains(r.log.String(), "what was read last is used") {
			t.Error("it is not logged")
		}
		r.expect("", 2)
		failing = nil
		r.put("token", "two")
		r.token = "two"
		r.after(rereadAfterFailure)
		r.expect("", 3)
	})
	t.Run("an API server that does not answer at first", func(t *testing.T) {
		r := newRotation(t)
		failing := errors.New("the server is on fire")
		r.cluster.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return failing != nil, nil, failing })
		r.expect("authorization.secretRef: reading Secret ns/s: the server is on fire", 1)
		r.expect("authorization.secretRef: reading Secret ns/s: the server is on fire", 1)
		failing = nil
		r.after(rereadAfterFailure)
		r.expect("", 2)
	})
	t.Run("a Secret that cannot be used", func(t *testing.T) {
		r := newRotation(t)
		r.expect("", 1)
		r.put("other", "x")
		r.after(time.Minute)
		r.expect(`has no key "token"`, 2)
		r.expect(`has no key "token"`, 2)
		r.put("token", "one")
		r.after(rereadAfterFailure)
		r.expect("", 3)
	})
}

// A hook gets a certificate of another authority, and the bundle follows.
func TestRotationOfAuthorities(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	var mu sync.Mutex
	pair := first.pair("server")
	server := serveTLS(t, func() tls.Certificate {
		mu.Lock()
		defer mu.Unlock()
		return pair
	}, nil, answering(`{}`))
	cluster := clusterOf(configMap("bundle", "ca.crt", first.pem))
	h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`", caBundle: {configMapRef: {name: bundle, namespace: ns}}}}}`), func(o *Options) { o.Client = cluster })
	if _, err := h.Sync(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	pair = second.pair("server")
	mu.Unlock()
	if err := cluster.Tracker().Update(configMaps, configMap("bundle", "ca.crt", second.pem), "ns"); err != nil {
		t.Fatal(err)
	}
	server.CloseClientConnections()
	// A connection that was cut may be an error of its own.
	var err error
	for range 3 {
		if _, err = h.Sync(t.Context(), request()); err != nil && causeOf(t, err) == applier.CauseTLS {
			break
		}
	}
	if err == nil {
		t.Fatal("the new certificate was accepted with the old bundle")
	}
	if _, err = h.Sync(t.Context(), request()); err != nil {
		t.Errorf("the new bundle is not used: %v", err)
	}
}

// A hook wants a certificate of another authority, and the Secret follows.
func TestRotationOfClientCertificates(t *testing.T) {
	ca, first, second := newAuthority(t), newAuthority(t), newAuthority(t)
	pair := ca.pair("server")
	server := serveTLS(t, func() tls.Certificate { return pair }, second, answering(`{}`))
	values := func(a *authority) *unstructured.Unstructured {
		certificate, key := a.issue("applier")
		return secret("tls", "ca.crt", ca.pem, "tls.crt", certificate, "tls.key", key)
	}
	cluster := clusterOf(values(first))
	h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`", caBundle: {secretRef: {name: tls, namespace: ns}}, clientTLS: {secretRef: {name: tls, namespace: ns}}}}}`),
		func(o *Options) { o.Client = cluster })
	if _, err := h.Sync(t.Context(), request()); err == nil {
		t.Fatal("a foreign certificate was accepted")
	}
	if n := len(cluster.Actions()); n != 1 {
		t.Errorf("the Secret was read %d times", n)
	}
	if err := cluster.Tracker().Update(secrets, values(second), "ns"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Sync(t.Context(), request()); err != nil {
		t.Errorf("the new certificate is not used: %v", err)
	}
}

// Many workers call at once, before anything was read and while it changes.
func TestCredentialsAreReadOnceForAll(t *testing.T) {
	r := newRotation(t)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := r.Sync(t.Context(), request()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if r.reads() != 1 {
		t.Errorf("read %d times", r.reads())
	}
}

// What the hook repeats of a credential is not shown.
func TestSecretsAreNotShown(t *testing.T) {
	for name, c := range map[string]struct {
		settings string
		object   *unstructured.Unstructured
	}{
		"token": {`authorization: {secretRef: {name: s, namespace: ns, key: token}}`, secret("s", "token", strings.Repeat("top-secret", 600))},
		"basic": {`basicAuth: {secretRef: {name: s, namespace: ns}}`, secret("s", "username", "me", "password", "top-secret")},
	} {
		for _, code := range []int{200, 401, 500} {
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, password, _ := r.BasicAuth()
				w.WriteHeader(code)
				_, _ = fmt.Fprintf(w, `{"%s":"", "%s":"", "x`+password+`":1`, r.Header.Get("Authorization"), r.Header.Get("Authorization"))
			})
			h := newFixture(t, controllerOf(t, `{sync: {version: v2, webhook: {url: "`+server.URL+`", `+c.settings+`}}}`), withObjects(c.object))
			_, err := h.Sync(t.Context(), request())
			if err == nil {
				t.Fatalf("%s, %d: no error", name, code)
			}
			for _, part := range []string{"top-secret", base64.StdEncoding.EncodeToString([]byte("me:top-secret"))} {
				if strings.Contains(err.Error(), part) || strings.Contains(h.log.String(), part) {
					t.Errorf("%s, %d: %q is shown: %v\n%s", name, code, part, err, h.log)
				}
			}
			if len(err.Error()) > 4096 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		}
	}
}
