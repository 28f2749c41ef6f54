package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestClientAndServerTrustEachOther(t *testing.T) {
	a := open(t, t.TempDir())
	serving, err := a.Serving("server", "10.96.0.1", "kubernetes.default.svc")
	if err != nil {
		t.Fatal(err)
	}
	client, err := a.Client("kueue", "system:serviceaccount:kueue-system:kueue", "system:serviceaccounts", "g2")
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(read(t, a.CertFile()))

	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := r.TLS.PeerCertificates[0].Subject
		if who.CommonName != "system:serviceaccount:kueue-system:kueue" ||
			!slices.Equal(sorted(who.Organization), []string{"g2", "system:serviceaccounts"}) {
			t.Errorf("the server saw %v", who)
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{load(t, serving)}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	defer server.Close()

	for _, name := range []string{"127.0.0.1", "localhost", "10.96.0.1", "kubernetes.default.svc"} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs: pool, ServerName: name, Certificates: []tls.Certificate{load(t, client)}}}
		response, err := (&http.Client{Transport: transport}).Get(server.URL)
		if err != nil {
			t.Errorf("as %s: %v", name, err)
			continue
		}
		_ = response.Body.Close()
		transport.CloseIdleConnections()
	}
}

func TestAClientCannotPassForAServer(t *testing.T) {
	a := open(t, t.TempDir())
	pair, err := a.Client("rtj", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(read(t, a.CertFile()))
	if _, err := read(t, pair.Cert).Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("a client certificate is good for a server")
	}
}

func TestOpenAgainKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	issueAll := func() {
		a := open(t, dir)
		if _, err := a.Serving("server"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Client("admin", "admin", "system:masters"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.SigningKey("sa"); err != nil {
			t.Fatal(err)
		}
	}
	issueAll()
	before := contents(t, dir)
	issueAll()
	after := contents(t, dir)
	if len(before) != 8 || len(after) != len(before) {
		t.Fatalf("%d files, then %d", len(before), len(after))
	}
	for name, data := range before {
		if after[name] != data {
			t.Errorf("%s was made anew", name)
		}
	}
}

func TestPrivateKeysAreForTheOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	a := open(t, dir)
	if _, err := a.Client("admin", "admin"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.SigningKey("sa"); err != nil {
		t.Fatal(err)
	}
	keys, _ := filepath.Glob(filepath.Join(dir, "*.key"))
	if len(keys) != 3 {
		t.Fatalf("%d keys, want 3", len(keys))
	}
	for _, k := range keys {
		info, err := os.Stat(k)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", k, info.Mode().Perm())
		}
	}
}

func open(t *testing.T, dir string) *Authority {
	t.Helper()
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func read(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func load(t *testing.T, p Pair) tls.Certificate {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(data)
	}
	return all
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}
