package faultproxy

import "maps"

// Fault is something that happens to a request or a watch.
type Fault string

// Faults of requests. Of these one request has at most one, but for Latency.
const (
	// Latency: the request waits before it is passed on.
	Latency Fault = "latency"
	// Conflict: an update or deletion is answered 409 and not passed on.
	Conflict Fault = "conflict"
	// TooManyRequests: 429, with Retry-After.
	TooManyRequests Fault = "too-many-requests"
	// TooManyRequestsBare: 429, without it.
	TooManyRequestsBare Fault = "too-many-requests-bare"
	// InternalError: 500, not passed on.
	InternalError Fault = "internal-error"
	// Unavailable: 503, not passed on.
	Unavailable Fault = "unavailable"
	// Reset: the client's connection is reset, with all that is under way on it.
	Reset Fault = "reset"
	// LostAnswer: the request is carried out, and its answer is lost.
	LostAnswer Fault = "lost-answer"
	// ErrorAfter: a write is carried out, and answered 500.
	ErrorAfter Fault = "error-after"
	// Duplicate: a write is carried out twice; the second answer counts.
	Duplicate Fault = "duplicate"
	// StaleList: a list that asks for any version is answered from a state of some
	// seconds ago.
	StaleList Fault = "stale-list"
	// NoWatchList: a watch that asks for the initial state is refused as by an API
	// server without that feature, so that the client lists.
	NoWatchList Fault = "no-watch-list"
)

// Faults of watches, beside the refusals above.
const (
	// WatchCut: it ends after a while, as the API server ends watches.
	WatchCut Fault = "watch-cut"
	// WatchReset: it breaks after a while, maybe in the middle of an event.
	WatchReset Fault = "watch-reset"
	// WatchExpired: it ends with the error that its resourceVersion is too old.
	WatchExpired Fault = "watch-expired"
	// WatchLag: an event, and all after it, comes late.
	WatchLag Fault = "watch-lag"
)

// Rates are the probabilities of faults: of a request, of a watch, and for
// WatchLag of a piece of a watch.
type Rates map[Fault]float64

// Bad is a bad day: one write in four and one read in eight goes wrong, and a
// watch lasts for some seconds.
func Bad() Rates {
	return Rates{
		Latency: 0.3, Conflict: 0.04, TooManyRequests: 0.02, TooManyRequestsBare: 0.03, InternalError: 0.03, Unavailable: 0.03,
		Reset: 0.012, LostAnswer: 0.04, ErrorAfter: 0.04, Duplicate: 0.04, StaleList: 0.5, NoWatchList: 0.5,
		WatchCut: 0.3, WatchReset: 0.2, WatchExpired: 0.2, WatchLag: 0.1,
	}
}

// clone keeps rates from being changed while they are used.
func (r Rates) clone() Rates { return maps.Clone(r) }

// What may happen to which kind of request, in the order in which it is drawn.
var (
	ofReads   = []Fault{TooManyRequests, TooManyRequestsBare, InternalError, Unavailable, Reset, LostAnswer}
	ofCreates = append([]Fault{ErrorAfter, Duplicate}, ofReads...)
	ofUpdates = append([]Fault{Conflict}, ofCreates...)
	ofStreams = []Fault{WatchCut, WatchReset, WatchExpired}
)

// draw chooses at most one of the faults by a number from 0 up to 1.
func (r Rates) draw(faults []Fault, number float64) Fault {
	for _, f := range faults {
		if number < r[f] {
			return f
		}
		number -= r[f]
	}
	return ""
}
