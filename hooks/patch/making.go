package patch

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/compose"
)

// Job is whose patches are made.
type Job struct {
	Namespace, Name string
	UID             types.UID
}

// Result is what became of a patch.
type Result string

const (
	// Done: the API server took it.
	Done Result = "done"
	// Lost: the object, or the fact that the patch relies on, has changed since the
	// decision. The change brings a new decision.
	Lost Result = "lost"
	// PodsLeft: the live lists still show a pod, or a Job that may make one.
	PodsLeft Result = "pods-left"
	// Failed: the API server refused it or did not answer.
	Failed Result = "failed"
)

// Step is a request to the API server on the way to a patch.
type Step string

const (
	// Read is a live read of the job: see [Making.Read].
	Read Step = "read"
	// List is the LIST of live pods and Jobs: see [Making.Listed].
	List Step = "list"
	// Send is the patch itself: see [Making.Sent].
	Send Step = "send"
)

// errOlder is a decision upon a state that is no more.
var errOlder = errors.New("the job has changed")

// Making is one patch on its way: what is asked of the API server, one request
// after the other, and what follows from each answer. It is data, and reaches for
// nothing. A copy goes on by itself.
type Making struct {
	Patch compose.Patch
	// Result is empty until it is known. Err says why it is not Done.
	Result Result
	Err    error

	job          Job
	mark         mark
	read, listed bool
}

// Make begins a patch; one that was made lately is lost at once.
func Make(j Job, p compose.Patch, made *Made, now time.Time) Making {
	m := Making{Patch: p, job: j, read: p.StatusAttempt == nil, listed: p.NoLivePods == nil}
	if m.mark = markOf(j, &p); made.lately(m.mark, now) {
		m.Result, m.Err = Lost, errMade
	}
	return m
}

// Next is the request to be made; it is empty once the result is known.
func (m *Making) Next() Step {
	switch {
	case m.Result != "":
		return ""
	case !m.read:
		return Read
	case !m.listed:
		return List
	default:
		return Send
	}
}

// Read takes the live job, or why it could not be read. The patch goes on if the
// job still exists and its status names the attempt.
func (m *Making) Read(live *unstructured.Unstructured, err error) {
	if m.read = true; err == nil {
		err = m.attemptStands(live)
	}
	if err != nil {
		m.Result, m.Err = failure(err), err
	}
}

func (m *Making) attemptStands(live *unstructured.Unstructured) error {
	if live.GetUID() != m.job.UID {
		return fmt.Errorf("%w: another one has its name", errOlder)
	}
	n, _, err := unstructured.NestedInt64(live.Object, "status", "attempt")
	if err != nil {
		return err
	}
	if n != int64(*m.Patch.StatusAttempt) {
		return fmt.Errorf("%w: status.attempt is %d, not %d", errOlder, n, *m.Patch.StatusAttempt)
	}
	return nil
}

// Listed takes the LIST: whether any pod is left that may still run, or a Job that may
// make one. It reads the API server's newest state, not a cache.
func (m *Making) Listed(left bool, err error) {
	switch m.listed = true; {
	case err != nil:
		m.Result, m.Err = Failed, fmt.Errorf("LIST of live pods and Jobs: %w", err)
	case left:
		m.Result = PodsLeft
	}
}

// Sent takes the answer to the patch.
func (m *Making) Sent(err error, made *Made, now time.Time) {
	if err != nil {
		m.Result, m.Err = failure(err), err
		return
	}
	made.remember(m.mark, now)
	m.Result = Done
}

// failure tells a lost race from a fault.
func failure(err error) Result {
	if errors.Is(err, errOlder) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return Lost
	}
	return Failed
}

// Worse is what is worse to be known of two results of one round.
func Worse(a, b Result) Result {
	if a == Failed || b == Failed {
		return Failed
	}
	if a == PodsLeft || b == PodsLeft {
		return PodsLeft
	}
	return Done
}

const (
	// podsLeftRetry is when to look again for pods that were left: nothing else may
	// tell that the last one is gone.
	podsLeftRetry = time.Second
	// The back-off after failures.
	firstBackOff = time.Second
	maxBackOff   = time.Minute
	// failuresLast is how long failures of a job are remembered for the back-off.
	failuresLast = 2 * maxBackOff
)

// Pace is how the rounds of one job follow each other: a round is the patches of
// one decision. It is data.
type Pace struct {
	// Wait is for how long another round is waited for.
	Wait time.Duration
	// Again says that the job is to be synced again when the wait is over; else its
	// failures are forgotten then.
	Again bool

	// Failures in a row.
	Failures int
}

// After takes the worst result of a round.
func (p *Pace) After(worst Result) {
	switch worst {
	case Failed:
		p.Failures++
		p.Again, p.Wait = true, backOff(p.Failures)
	case PodsLeft:
		p.Failures = 0
		p.Again, p.Wait = true, podsLeftRetry
	default:
		p.Failures = 0
		p.Again, p.Wait = false, 0
	}
}

// Waited says that the wait is over and that the job was asked to be synced again.
func (p *Pace) Waited() { p.Again, p.Wait = false, failuresLast }

func backOff(failures int) time.Duration {
	return min(firstBackOff<<min(failures-1, 10), maxBackOff)
}
