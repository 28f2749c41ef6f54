package hooks

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
)

// memory is what is remembered of one job between two syncs.
type memory struct {
	mu sync.Mutex
	// lastUse is when the job was synced last.
	lastUse time.Time

	// The newest reading of the store: of which run, and what it found.
	place    place
	snapshot *checkpoint.Snapshot
	// due are the checkpoints that the next launch would restore, and dueSince when
	// that became so: checks from before do not count for it.
	due      []string
	dueSince time.Time
	// reading goes on if it is not nil; waiting: an answer waits for it.
	reading *reading
	waiting bool

	launch launch

	// patchesSince is when patches were wanted first, and in every answer since;
	// zero: none are.
	patchesSince time.Time

	// said are the rules of the decision that was logged last.
	said []compose.Match
}

const (
	// memoryLasts is how long a job that is not synced is remembered: longer than
	// runners take between two syncs of a job in which nothing happens.
	memoryLasts = 2 * time.Hour
	// sweepEvery is how often forgotten jobs are looked for.
	sweepEvery = 10 * time.Minute
)

// memories are those of all jobs, by UID.
type memories struct {
	mu    sync.Mutex
	byUID map[types.UID]*memory
	swept time.Time
}

// of returns the memory of a job, a new one at the first sync.
func (ms *memories) of(parent *v1beta1.ResumableTrainingJob, now time.Time) *memory {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.byUID == nil {
		ms.byUID, ms.swept = map[types.UID]*memory{}, now
	}
	if now.Sub(ms.swept) > sweepEvery {
		ms.sweep(now)
	}
	m := ms.byUID[parent.UID]
	if m == nil {
		m = &memory{}
		ms.byUID[parent.UID] = m
	}
	m.mu.Lock()
	m.lastUse = now
	m.mu.Unlock()
	return m
}

// known returns the memory of a job, or nil.
func (ms *memories) known(parent *v1beta1.ResumableTrainingJob) *memory {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.byUID[parent.UID]
}

func (ms *memories) sweep(now time.Time) {
	ms.swept = now
	for uid, m := range ms.byUID {
		m.mu.Lock()
		old := now.Sub(m.lastUse) > memoryLasts
		m.mu.Unlock()
		if old {
			delete(ms.byUID, uid)
		}
	}
}

func (ms *memories) forget(parent *v1beta1.ResumableTrainingJob) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	delete(ms.byUID, parent.UID)
}
