package harness

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// relay is a TLS server before the API server. Requests with a token pass with
// it, others as user "rtj".
type relay struct {
	// Endpoint for clients.
	Endpoint
	server *http.Server
	group  sync.WaitGroup
}

// newRelay serves what between makes of the way to the API server.
func (c *Cluster) newRelay(ctx context.Context, between func(apiServer http.Handler) http.Handler) (*relay, error) {
	target, err := url.Parse(c.APIServer)
	if err != nil {
		return nil, err
	}
	asRTJ, err := rest.TransportFor(c.RTJConfig)
	if err != nil {
		return nil, err
	}
	asOthers, err := rest.TransportFor(&rest.Config{Host: c.APIServer, TLSClientConfig: rest.TLSClientConfig{CAFile: c.ClusterCA}})
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(c.ClusterCA)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	quiet := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     byIdentity{asRTJ, asOthers},
		FlushInterval: -1,
		ErrorLog:      quiet,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if errors.Is(err, context.Canceled) {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	r := &relay{Endpoint: Endpoint{Server: "https://" + listener.Addr().String(), CA: ca}}
	handler := between(proxy)
	r.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: quiet}
	if h, ok := handler.(interface {
		ConnContext(context.Context, net.Conn) context.Context
	}); ok {
		r.server.ConnContext = h.ConnContext
	}
	r.group.Go(func() { _ = r.server.ServeTLS(listener, c.loopbackCertificate(), c.loopbackKey()) })
	return r, nil
}

// close ends all connections and waits for the server.
func (r *relay) close() {
	r.server.Close()
	r.group.Wait()
}

type byIdentity struct{ rtj, others http.RoundTripper }

func (t byIdentity) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") == "" {
		return t.rtj.RoundTrip(r)
	}
	return t.others.RoundTrip(r)
}
