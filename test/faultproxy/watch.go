package faultproxy

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// watch passes a watch on, late and not to its end.
func (p *Proxy) watch(w http.ResponseWriter, r *http.Request, rates Rates, chance *rand.Rand, happen func(Fault)) {
	end := rates.draw(ofStreams, chance.Float64())
	lifetime := p.minWatch + upTo(chance, p.maxWatch-p.minWatch)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := &stream{ResponseWriter: w, ctx: ctx, lag: rates[WatchLag], chance: chance, happen: func() { happen(WatchLag) }}
	if end != "" {
		timer := time.AfterFunc(lifetime, cancel)
		defer timer.Stop()
	}
	defer func() {
		// Who passes on gives up the answer when its request is cancelled.
		problem := recover()
		if r.Context().Err() != nil || ctx.Err() == nil {
			if problem != nil {
				panic(problem)
			}
			return // the client, or the API server, has ended it
		}
		happen(end)
		switch end {
		case WatchReset:
			panic(http.ErrAbortHandler)
		case WatchExpired:
			s.expire()
		}
	}()
	p.options.APIServer.ServeHTTP(s, r.WithContext(ctx))
}

// stream is the answer to a watch.
type stream struct {
	http.ResponseWriter
	ctx    context.Context
	lag    float64
	chance *rand.Rand
	happen func()
	// within is set while an event is written in part.
	within bool
}

// Write holds the event and all after it back for a while, at times.
func (s *stream) Write(b []byte) (int, error) {
	if s.chance.Float64() < s.lag {
		s.happen()
		if !pause(s.ctx, upTo(s.chance, maxLag)) {
			return 0, s.ctx.Err()
		}
	}
	n, err := s.ResponseWriter.Write(b)
	s.within = n > 0 && b[n-1] != '\n'
	return n, err
}

// expire ends the stream as an API server does that has forgotten the version.
func (s *stream) expire() {
	if s.within || !strings.HasPrefix(s.Header().Get("Content-Type"), "application/json") {
		return
	}
	status := apierrors.NewResourceExpired("by the fault proxy").ErrStatus
	status.APIVersion, status.Kind = "v1", "Status"
	event, err := json.Marshal(map[string]any{"type": "ERROR", "object": status})
	if err != nil {
		panic(err) // it is made here
	}
	_, _ = s.ResponseWriter.Write(append(event, '\n'))
}

// Unwrap is for http.ResponseController, which flushes.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }
