package server

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Authenticator tells runners from others.
type Authenticator interface {
	// Authenticate reports whether the request comes from a known runner. An error
	// is for a request that claims so and is wrong.
	Authenticate(r *http.Request) (bool, error)
}

// AnyOf knows a runner that one of the authenticators knows.
func AnyOf(authenticators ...Authenticator) Authenticator { return anyOf(authenticators) }

type anyOf []Authenticator

func (list anyOf) Authenticate(r *http.Request) (bool, error) {
	var failure error
	for _, a := range list {
		known, err := a.Authenticate(r)
		if known {
			return true, nil
		}
		if failure == nil {
			failure = err
		}
	}
	return false, failure
}

// ClientCertificate knows a runner by a certificate that the server's TLS
// configuration verified.
type ClientCertificate struct{}

// Authenticate implements [Authenticator].
func (ClientCertificate) Authenticate(r *http.Request) (bool, error) {
	return r.TLS != nil && len(r.TLS.VerifiedChains) > 0, nil
}

// errWrongToken does not tell whether there is a right one.
var errWrongToken = errors.New("the bearer token is not the one in --runner-token-file")

// TokenFile knows a runner by the bearer token in a file, which is read again
// when it changes.
type TokenFile struct {
	path string

	mu      sync.Mutex
	changed time.Time
	size    int64
	digest  [sha256.Size]byte
}

// NewTokenFile reads the token, so that a missing file is noticed at the start.
func NewTokenFile(path string) (*TokenFile, error) {
	t := &TokenFile{path: path}
	if _, err := t.current(); err != nil {
		return nil, err
	}
	return t, nil
}

// Authenticate implements [Authenticator].
func (t *TokenFile) Authenticate(r *http.Request) (bool, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return false, nil
	}
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false, fmt.Errorf("authorization by %s is not known; send a bearer token", scheme)
	}
	want, err := t.current()
	if err != nil {
		return false, err
	}
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return false, errWrongToken
	}
	return true, nil
}

// current returns the digest of the token.
func (t *TokenFile) current() ([sha256.Size]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.path)
	if err != nil {
		return t.digest, fmt.Errorf("the runner's token cannot be read: %w", err)
	}
	if info.ModTime().Equal(t.changed) && info.Size() == t.size {
		return t.digest, nil
	}
	data, err := os.ReadFile(t.path)
	if err != nil {
		return t.digest, fmt.Errorf("the runner's token cannot be read: %w", err)
	}
	token := bytes.TrimSpace(data)
	if len(token) == 0 {
		return t.digest, fmt.Errorf("the runner's token file %s is empty", t.path)
	}
	t.digest, t.changed, t.size = sha256.Sum256(token), info.ModTime(), info.Size()
	return t.digest, nil
}
