package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// server is what the API server asks for logs.
type server struct {
	http     *http.Server
	listener net.Listener
	port     int
}

func (a *kubelet) serve(ctx context.Context) (*server, error) {
	config, err := a.tlsConfig()
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", net.JoinHostPort(a.nodeIP.String(), strconv.Itoa(a.Port)))
	if err != nil {
		return nil, fmt.Errorf("log server: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", a.pods.serveLogs)
	mux.HandleFunc("GET /exec/{namespace}/{pod}/{container}", a.pods.serveExec)
	mux.HandleFunc("POST /exec/{namespace}/{pod}/{container}", a.pods.serveExec)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return &server{
		http:     &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }},
		listener: tls.NewListener(listener, config), port: listener.Addr().(*net.TCPAddr).Port,
	}, nil
}

func (a *kubelet) tlsConfig() (*tls.Config, error) {
	var pair tls.Certificate
	var err error
	if a.TLSCert != "" {
		pair, err = tls.LoadX509KeyPair(a.TLSCert, a.TLSKey)
	} else {
		var cert, key []byte
		if cert, key, err = certutil.GenerateSelfSignedCertKey(a.Name, []net.IP{a.nodeIP.AsSlice()}, nil); err == nil {
			pair, err = tls.X509KeyPair(cert, key)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("certificate of the log server: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if a.ClientCA != "" {
		pem, err := os.ReadFile(a.ClientCA)
		if err != nil {
			return nil, err
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", a.ClientCA)
		}
	}
	return config, nil
}

// run serves until ctx ends; requests that follow a log end with it.
func (s *server) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if s.http.Shutdown(limited) != nil {
			_ = s.http.Close()
		}
	})
	defer stop()
	err := s.http.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
