package hooks

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/edge"
)

// memory is what is remembered of one job between two syncs.
type memory struct {
	// lastUse is when the job was synced last; memories guards it.
	lastUse time.Time

	mu sync.Mutex
	edge.Memory
	// said are the rules of the decision that was logged last.
	said []compose.Match
}

// sweepEvery is how often forgotten jobs are looked for.
const sweepEvery = 10 * time.Minute

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
	m.lastUse = now
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
		if now.Sub(m.lastUse) > edge.Lasts {
			delete(ms.byUID, uid)
		}
	}
}

func (ms *memories) forget(parent *v1beta1.ResumableTrainingJob) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	delete(ms.byUID, parent.UID)
}
