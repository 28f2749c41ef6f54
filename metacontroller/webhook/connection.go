package webhook

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"

	"rtj.dev/rtj/metacontroller/applier"
)

const (
	// rereadEvery is how often Secrets and ConfigMaps are read while hooks are
	// called.
	rereadEvery = time.Minute
	// rereadAfterFailure is how soon they are read again after they could not be
	// read or used. When a hook refuses what was read they are read at once, but not
	// more often than this.
	rereadAfterFailure = 5 * time.Second
	// readTimeout leaves something of the hook's own timeout.
	readTimeout = 5 * time.Second
)

// connections are how the hooks of one controller are reached. Hooks with the same
// settings share one.
type connections struct {
	controller string
	client     dynamic.Interface
	logger     *slog.Logger
	configs    []applier.EndpointConfig
	// used are the configs that a hook uses, by index.
	used map[int]bool
	all  []*connection
}

// noteUnused tells of configs that are there for nothing: most likely a host is
// written otherwise than the hooks have it.
func (c *connections) noteUnused() {
	for i, config := range c.configs {
		if !c.used[i] {
			c.logger.Warn("no hook uses these settings: none without settings of its own has this host", "field", c.field(i), "host", config.Host)
		}
	}
}

func (c *connections) field(config int) string {
	return fmt.Sprintf("CompositeController %s: spec.endpointConfigs[%d]", c.controller, config)
}

// connect checks the endpointConfigs of a controller.
func connect(o Options) (*connections, error) {
	c := &connections{controller: o.Controller.Name, client: o.Client, logger: o.Logger, configs: o.Controller.Spec.EndpointConfigs, used: map[int]bool{}}
	var faults []error
	for i, config := range c.configs {
		field := c.field(i)
		if config.Host == "" || strings.ContainsAny(config.Host, "/@ ") {
			faults = append(faults, fmt.Errorf("%s.host: want a host, or host:port, got %q", field, config.Host))
		}
		faults = append(faults, checkSettings(field, &config.EndpointSettings))
	}
	return c, errors.Join(faults...)
}

func checkSettings(field string, s *applier.EndpointSettings) error {
	faults := settingsFaults(s)
	for i, fault := range faults {
		faults[i] = fmt.Errorf("%s.%w", field, fault)
	}
	return errors.Join(faults...)
}

// of returns how a hook is reached: by its own settings if it has any, else by
// those of the first of the endpointConfigs that has its host.
func (c *connections) of(w *applier.Webhook, t target, field string) (*connection, error) {
	settings := &w.EndpointSettings
	if *settings != (applier.EndpointSettings{}) {
		if err := checkSettings(field, settings); err != nil {
			return nil, err
		}
	} else {
		for i := range c.configs {
			if t.matches(c.configs[i].Host) {
				settings, field = &c.configs[i].EndpointSettings, c.field(i)
				c.used[i] = true
				break
			}
		}
	}
	for _, connection := range c.all {
		if reflect.DeepEqual(connection.settings, settings) {
			return connection, nil
		}
	}
	connection := &connection{
		field: field, settings: settings, client: c.client, logger: c.logger,
		rotates: len(references(settings)) > 0, reading: make(chan struct{}, 1), now: time.Now,
	}
	c.all = append(c.all, connection)
	return connection, nil
}

// connection is how one or more hooks are reached, with TLS and authentication
// that may change while it is in use.
type connection struct {
	// field of the controller that has the settings.
	field    string
	settings *applier.EndpointSettings
	client   dynamic.Interface
	logger   *slog.Logger
	// rotates: something of it is in a Secret or ConfigMap.
	rotates bool
	// reading holds a token while someone reads.
	reading chan struct{}
	now     func() time.Time

	mu      sync.Mutex
	current *access
	// err is why nothing is current.
	err      error
	nextRead time.Time
	// suspected: a hook has refused what is current.
	suspected   bool
	suspectedAt time.Time
}

// access is what requests are made with. It does not change.
type access struct {
	client *http.Client
	// authorization is the header, or empty.
	authorization string
	// hidden is what no error may show.
	hidden []string
	// private: requests carry something that only the hook's host should see.
	private bool
	digest  [sha256.Size]byte
}

// follow decides about a redirect. Those that would turn the POST into a GET, or
// https into http, are not followed, and with something private in the request
// neither are those to another place.
func (a *access) follow(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	elsewhere := next.URL.Scheme != first.Scheme || hostPort(next.URL) != hostPort(first)
	// The query of the first URL would be in the Referer of the next request.
	private := a.private || first.User != nil || first.RawQuery != ""
	plain := first.Scheme == "https" && next.URL.Scheme != "https"
	if next.Method != http.MethodPost || len(via) >= 10 || plain || elsewhere && private {
		return http.ErrUseLastResponse
	}
	return nil
}

func (c *connection) hasCredentials() bool {
	return c.settings.Authorization != nil || c.settings.BasicAuth != nil
}

// access returns what to make a request with, and reads Secrets and ConfigMaps if
// it is time to.
func (c *connection) access(ctx context.Context) (*access, error) {
	current, due, err := c.state()
	if !due {
		return current, err
	}
	select {
	case c.reading <- struct{}{}:
	default:
		if current != nil {
			return current, nil // someone else reads
		}
		select {
		case c.reading <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer func() { <-c.reading }()
	if current, due, err = c.state(); !due {
		return current, err
	}
	return c.read(ctx)
}

func (c *connection) state() (current *access, due bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	due = c.suspected || (c.rotates || c.current == nil) && !c.now().Before(c.nextRead)
	return c.current, due, c.err
}

// read makes what is current of what the cluster has now. If that cannot be read,
// what was current stays; if it can be read and not be used, nothing is.
func (c *connection) read(ctx context.Context) (*access, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := readMaterial(ctx, c.client, c.settings)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspected = false
	var unreadable *unreadableError
	if errors.As(err, &unreadable) {
		c.nextRead = c.now().Add(rereadAfterFailure)
		if c.current != nil {
			c.logger.Warn("TLS and authentication of a hook cannot be read anew; what was read last is used", "error", err)
			return c.current, nil
		}
		c.err = err
		return nil, err
	}
	if err == nil && c.current != nil && c.current.digest == found.digest() {
		c.nextRead, c.err = c.now().Add(rereadEvery), nil
		return c.current, nil
	}
	old := c.current
	c.current = nil
	if err == nil {
		c.current, err = found.access()
	}
	c.err = err
	if err != nil {
		c.nextRead = c.now().Add(rereadAfterFailure)
	} else {
		c.nextRead = c.now().Add(rereadEvery)
	}
	if old != nil {
		old.client.CloseIdleConnections()
		if err == nil {
			c.logger.Info("TLS or authentication of a hook has changed")
		}
	}
	return c.current, err
}

// suspect says that a hook has refused a. If that did not happen a moment ago too,
// the next call reads anew.
func (c *connection) suspect(a *access) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); c.rotates && c.current == a && now.Sub(c.suspectedAt) >= rereadAfterFailure {
		c.suspected, c.suspectedAt = true, now
	}
}

func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current.client.CloseIdleConnections()
	}
}

// newTransport is like net/http's default, and Metacontroller's: proxies are those
// of the environment. It keeps a connection for each worker.
func newTransport(config *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    10 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		// A peer that is gone without a word is noticed before the next call needs it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
	}
}

// isTLS tells whether a request failed for what either side thinks of the other's
// certificate, or because no TLS is spoken.
func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var alert *net.OpError
	return errors.As(err, &verification) || errors.As(err, &header) || errors.As(err, &authority) ||
		errors.Is(err, http.ErrSchemeMismatch) ||
		// crypto/tls says so of an alert that came, or was sent.
		errors.As(err, &alert) && (alert.Op == "remote error" || alert.Op == "local error")
}
