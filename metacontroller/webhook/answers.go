package webhook

import (
	"container/list"
	"context"
	"sync"
	"time"
)

const (
	// maxAnswerBytes bounds the kept answers of one controller.
	maxAnswerBytes = 64 << 20
	// defaultKeep is for how long an answer is kept where cacheTimeoutSeconds does
	// not say.
	defaultKeep = time.Hour
)

// answers are kept by hook and parent, for hooks that answer "not modified". The
// parent is known by its uid: one that is made again gets no answer of its
// predecessor. If they become too many, those that were used longest ago go.
type answers struct {
	mu    sync.Mutex
	byKey map[answerKey]*list.Element
	// used has the most recently used answer in front.
	used       *list.List
	bytes, max int
}

type answerKey struct{ hook, uid string }

// answer is never modified once it is kept.
type answer struct {
	key     answerKey
	etag    string
	body    []byte
	expires time.Time
}

func (a *answer) size() int { return len(a.body) + len(a.etag) + len(a.key.uid) + 200 }

func newAnswers(max int) *answers {
	return &answers{byKey: map[answerKey]*list.Element{}, used: list.New(), max: max}
}

// get returns what is kept, or nil.
func (c *answers) get(key answerKey, now time.Time) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil {
		return nil
	}
	a := e.Value.(*answer)
	if !now.Before(a.expires) {
		c.remove(e)
		return nil
	}
	c.used.MoveToFront(e)
	return a
}

// put keeps an answer in place of the one that is kept.
func (c *answers) put(a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[a.key]; e != nil {
		c.remove(e)
	}
	if a.size() > c.max {
		return
	}
	c.byKey[a.key] = c.used.PushFront(a)
	c.bytes += a.size()
	for c.bytes > c.max {
		c.remove(c.used.Back())
	}
}

// drop keeps no answer for key.
func (c *answers) drop(key answerKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		c.remove(e)
	}
}

func (c *answers) remove(e *list.Element) {
	a := c.used.Remove(e).(*answer)
	delete(c.byKey, a.key)
	c.bytes -= a.size()
}

// sweep drops what is too old.
func (c *answers) sweep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.used.Front(); e != nil; {
		next := e.Next()
		if !now.Before(e.Value.(*answer).expires) {
			c.remove(e)
		}
		e = next
	}
}

func (c *answers) sweepEvery(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			c.sweep(now)
		}
	}
}
