package faultproxy

import (
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// request is what is known of a request to an API server.
type request struct {
	// key tells requests apart, without what differs from run to run.
	key      string
	resource string
	// name of the object; empty for a collection.
	name        string
	read, watch bool
}

// describe reads a request of the forms
// /api/v1/..., /apis/GROUP/VERSION/..., each with or without namespaces/NAME/,
// then RESOURCE[/NAME[/SUBRESOURCE]].
func describe(r *http.Request) request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	d := request{read: r.Method == http.MethodGet, watch: r.URL.Query().Has("watch")}
	skip := map[string]int{"api": 2, "apis": 3}[parts[0]]
	rest := parts[min(skip, len(parts)):]
	if len(rest) > 2 && rest[0] == "namespaces" {
		d.key, rest = stable(rest[1])+"/", rest[2:]
	}
	if len(rest) > 0 {
		d.resource = rest[0]
	}
	if len(rest) > 1 {
		d.name = rest[1]
	}
	d.key = r.Method + " " + d.key + strings.Join(rest, "/")
	if d.watch {
		d.key = "WATCH" + strings.TrimPrefix(d.key, r.Method) + "?" + r.URL.Query().Get("labelSelector")
	}
	return d
}

// stable is the name of a namespace without what a run of tests appends to it.
func stable(namespace string) string {
	if i := strings.LastIndexByte(namespace, '-'); i > 0 {
		return namespace[:i]
	}
	return namespace
}

// list reports whether it reads a collection.
func (d request) list() bool { return d.read && !d.watch && d.name == "" }

// faults that may happen to it.
func (d request) faults(method string) []Fault {
	switch {
	case d.read:
		return ofReads
	case method == http.MethodPost:
		return ofCreates
	default:
		return ofUpdates
	}
}

// fates are where chance comes from.
type fates struct {
	seed uint64
	mu   sync.Mutex
	seen map[string]uint64
}

// of returns the numbers that decide about a request: the same ones for the same
// seed, key, and number of requests of that key before.
func (f *fates) of(key string) *rand.Rand {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		f.seen = map[string]uint64{}
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key))
	n := f.seen[key]
	f.seen[key]++
	return rand.New(rand.NewPCG(f.seed^hash.Sum64(), n))
}

// sorted are the keys of counts.
func sorted(counts map[Fault]int) []Fault {
	all := make([]Fault, 0, len(counts))
	for f := range counts {
		all = append(all, f)
	}
	slices.Sort(all)
	return all
}
