package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	headerTimeout = 5 * time.Second
	// readTimeout is for a whole request, writeTimeout also for its answer: longer
	// than the ten seconds after which Metacontroller gives up.
	readTimeout  = 15 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	// shutdownTimeout is how long answers that are being made may take at the end.
	shutdownTimeout = 10 * time.Second
)

// TLS says how to serve over TLS.
type TLS struct {
	// CertFile and KeyFile are the server's certificate; they are read again when
	// they change. Empty: no TLS.
	CertFile, KeyFile string
	// ClientCAFile has the certificates that sign those of runners; empty: client
	// certificates are not asked for.
	ClientCAFile string
}

// Serve serves until ctx ends, then lets answers that are being made finish. It
// closes the listener.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, t TLS, logger *slog.Logger) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	var err error
	if server.TLSConfig, err = t.config(); err != nil {
		listener.Close()
		return err
	}
	ended := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			ended <- server.ServeTLS(listener, "", "")
		} else {
			ended <- server.Serve(listener)
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// config returns nil without TLS.
func (t TLS) config() (*tls.Config, error) {
	if t.CertFile == "" && t.KeyFile == "" {
		if t.ClientCAFile != "" {
			return nil, errors.New("client certificates need TLS: set the server's certificate and key too")
		}
		return nil, nil
	}
	files := &certificateFiles{cert: t.CertFile, key: t.KeyFile}
	if _, err := files.get(nil); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: files.get}
	if t.ClientCAFile != "" {
		pem, err := os.ReadFile(t.ClientCAFile)
		if err != nil {
			return nil, err
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate in %s", t.ClientCAFile)
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return config, nil
}

// certificateFiles reads a certificate again when its file changes.
type certificateFiles struct {
	cert, key string

	mu      sync.Mutex
	changed time.Time
	loaded  *tls.Certificate
}

func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.cert)
	if err == nil && f.loaded != nil && info.ModTime().Equal(f.changed) {
		return f.loaded, nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		if f.loaded != nil {
			// Half of a rotation; the pair in use is still good.
			return f.loaded, nil
		}
		return nil, err
	}
	f.loaded = &pair
	if info != nil {
		f.changed = info.ModTime()
	}
	return f.loaded, nil
}
