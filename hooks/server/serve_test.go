package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// serve serves until the test ends, and returns the address.
func serve(t *testing.T, handler http.Handler, files TLS) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, handler, files, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	return listener.Addr().String()
}

// certificate writes a certificate and its key, signed by an authority or by
// itself, and returns both.
func certificate(t *testing.T, folder, name string, by *tls.Certificate) (certFile, keyFile string, pair tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: by == nil, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	issuer, signer := template, any(key)
	if by != nil {
		if issuer, err = x509.ParseCertificate(by.Certificate[0]); err != nil {
			t.Fatal(err)
		}
		signer = by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(folder, name+".crt"), filepath.Join(folder, name+".key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A runner that shows a certificate of the right authority is trusted with
// patches; one without gets its answer.
func TestClientCertificates(t *testing.T) {
	folder := t.TempDir()
	caFile, _, ca := certificate(t, folder, "ca", nil)
	certFile, keyFile, _ := certificate(t, folder, "server", &ca)
	_, _, runner := certificate(t, folder, "runner", &ca)
	f := newFixture(t, func(o *Options) { o.Runners = ClientCertificate{} })
	address := serve(t, f.handler, TLS{CertFile: certFile, KeyFile: keyFile, ClientCAFile: caFile})

	roots := x509.NewCertPool()
	pemCA, err := os.ReadFile(caFile)
	if err != nil || !roots.AppendCertsFromPEM(pemCA) {
		t.Fatal(err)
	}
	for _, c := range []struct {
		certificates []tls.Certificate
		patches      int
	}{{nil, 0}, {[]tls.Certificate{runner}, 1}} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: c.certificates}}
		response, err := (&http.Client{Transport: transport}).Post("https://"+address+"/sync", "application/json", bytes.NewReader(f.body(t)))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		transport.CloseIdleConnections()
		if response.StatusCode != http.StatusOK || f.patches.count() != c.patches {
			t.Errorf("%s with %d certificates: %d patches", response.Status, len(c.certificates), f.patches.count())
		}
	}
}

// When serving ends, an answer that is being made is still given.
func TestAnswersFinishAtTheEnd(t *testing.T) {
	begun, proceed := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-proceed
		io.WriteString(w, "answer")
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, handler, TLS{}, slog.New(slog.DiscardHandler)) }()
	answer := make(chan string, 1)
	go func() {
		response, err := http.Post("http://"+listener.Addr().String(), "", nil)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		answer <- string(text)
	}()
	<-begun
	cancel()
	close(proceed)
	if got := <-answer; got != "answer" {
		t.Errorf("got %s", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("serving ended with %v", err)
	}
}

func TestTLSFilesAreCheckedAtTheStart(t *testing.T) {
	folder := t.TempDir()
	certFile, keyFile, _ := certificate(t, folder, "server", nil)
	for name, files := range map[string]TLS{
		"a missing certificate":      {CertFile: filepath.Join(folder, "none"), KeyFile: keyFile},
		"an authority without TLS":   {ClientCAFile: certFile},
		"an authority without a PEM": {CertFile: certFile, KeyFile: keyFile, ClientCAFile: keyFile},
	} {
		if _, err := files.config(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
