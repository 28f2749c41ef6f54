package faultproxy

import (
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"
)

// history knows which versions the API server's state had when, from the answers
// to writes.
type history struct {
	mu     sync.Mutex
	states []state
}

type state struct {
	at      time.Time
	version string
}

// kept is how many states are remembered.
const kept = 1000

func (h *history) note(version string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states = append(h.states, state{time.Now(), version})
	if len(h.states) > kept {
		h.states = slices.Delete(h.states, 0, kept/2)
	}
}

// ago returns the newest version that is at least as old as an age, if it is not
// much older.
func (h *history) ago(age time.Duration) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range slices.Backward(h.states) {
		if old := time.Since(s.at); old >= age {
			return s.version, old < 2*maxStaleness
		}
	}
	return "", false
}

// stale makes a list ask for a state of some time ago.
func (p *Proxy) stale(r *http.Request, age time.Duration) bool {
	version, ok := p.history.ago(age)
	if !ok {
		return false
	}
	query := r.URL.Query()
	query.Set("resourceVersion", version)
	query.Set("resourceVersionMatch", "Exact")
	// A list of any version is given whole.
	query.Del("limit")
	r.URL.RawQuery = query.Encode()
	return true
}

// noting reads the version in the answer to a write.
type noting struct {
	http.ResponseWriter
	history *history
	noted   bool
}

var versionIn = regexp.MustCompile(`"resourceVersion":"(\d+)"`)

func (n *noting) Write(b []byte) (int, error) {
	if !n.noted {
		if found := versionIn.FindSubmatch(b); found != nil {
			n.noted = true
			n.history.note(string(found[1]))
		}
	}
	return n.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (n *noting) Unwrap() http.ResponseWriter { return n.ResponseWriter }
