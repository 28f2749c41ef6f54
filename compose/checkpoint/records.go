package checkpoint

import (
	"errors"
	"fmt"
	"slices"
)

const (
	kindStart      = "AttemptStart"
	kindProgress   = "AttemptProgress"
	kindResult     = "AttemptResult"
	kindQuarantine = "Quarantine"
	kindIndex      = "CheckpointIndex"
)

// MaxIndexBytes bounds an index object.
const MaxIndexBytes = 64 << 20

// ParseStart reads the start record of the attempt.
func ParseStart(attempt int32, data []byte) (*Start, error) {
	var document struct {
		envelope
		Start
	}
	if err := decode(data, kindStart, &document.envelope, &document); err != nil {
		return nil, err
	}
	s := &document.Start
	if err := ofAttempt(attempt, s.Attempt); err != nil {
		return nil, err
	}
	if r := s.Restore; r != nil {
		a, step, _, _, err := ParseID(r.Checkpoint)
		if err != nil {
			return nil, fmt.Errorf("names a restore point: %w", err)
		}
		if a != r.Attempt || step != r.Step {
			return nil, fmt.Errorf("restored %s and says that this is step %d of attempt %d", r.Checkpoint, r.Step, r.Attempt)
		}
	}
	s.Layout = s.Layout.normalised()
	return s, nil
}

// ParseProgress reads the progress record of the attempt.
func ParseProgress(attempt int32, data []byte) (*Progress, error) {
	var document struct {
		envelope
		Progress
	}
	if err := decode(data, kindProgress, &document.envelope, &document); err != nil {
		return nil, err
	}
	p := &document.Progress
	if err := ofAttempt(attempt, p.Attempt); err != nil {
		return nil, err
	}
	if p.Step < 0 || (p.TotalSteps != nil && *p.TotalSteps < 0) {
		return nil, errors.New("has a negative number of steps")
	}
	return p, nil
}

// maxResultMessage is the longest message of a result, in bytes that are kept.
const maxResultMessage = 1024

// ParseResult reads the result record of the attempt.
func ParseResult(attempt int32, data []byte) (*Result, error) {
	var document struct {
		envelope
		Result
	}
	if err := decode(data, kindResult, &document.envelope, &document); err != nil {
		return nil, err
	}
	r := &document.Result
	if err := ofAttempt(attempt, r.Attempt); err != nil {
		return nil, err
	}
	switch r.Outcome {
	case ResultFinished, ResultYielded, ResultYieldNotServiced, ResultRestoreFailed, ResultFailed:
	default:
		return nil, fmt.Errorf("has outcome %q, which is not known", clip(r.Outcome, 64))
	}
	if r.Outcome != ResultRestoreFailed {
		r.RestoreFailure = nil
	} else if r.RestoreFailure == nil {
		return nil, errors.New("has outcome restoreFailed and no restoreFailure")
	}
	if r.Step < 0 || r.LostSteps < 0 {
		return nil, errors.New("has a negative number of steps")
	}
	r.Message = clip(r.Message, maxResultMessage)
	return r, nil
}

// ParseQuarantine reads the quarantine record of the checkpoint.
func ParseQuarantine(id string, data []byte) (*Quarantine, error) {
	var document struct {
		envelope
		Quarantine
	}
	if err := decode(data, kindQuarantine, &document.envelope, &document); err != nil {
		return nil, err
	}
	q := &document.Quarantine
	if q.Checkpoint != id {
		return nil, fmt.Errorf("is about checkpoint %q, the name says %s", clip(q.Checkpoint, 128), id)
	}
	return q, nil
}

// Index lists the data objects of some ranks. Their items are not read here:
// only a restore needs them.
type Index struct {
	Ranks   []int32       `json:"ranks"`
	Objects []IndexObject `json:"objects"`
}

// IndexObject is a data object as the index names it.
type IndexObject struct {
	// Key is relative to the checkpoint's prefix.
	Key   string `json:"key"`
	Bytes int64  `json:"bytes"`
	ETag  string `json:"etag"`
}

// ParseIndex reads an index object.
func ParseIndex(data []byte) (*Index, error) {
	if len(data) > MaxIndexBytes {
		return nil, fmt.Errorf("has %d bytes, at most %d are allowed", len(data), MaxIndexBytes)
	}
	var document struct {
		envelope
		Index
	}
	if err := decode(data, kindIndex, &document.envelope, &document); err != nil {
		return nil, err
	}
	x := &document.Index
	if len(x.Ranks) == 0 {
		return nil, errors.New("names no rank")
	}
	if slices.Min(x.Ranks) < 0 {
		return nil, errors.New("names a negative rank")
	}
	for _, o := range x.Objects {
		if !relativeKey(o.Key) || o.Bytes < 0 {
			return nil, fmt.Errorf("names an object %q of %d bytes", clip(o.Key, 128), o.Bytes)
		}
	}
	return x, nil
}

func ofAttempt(want, got int32) error {
	if want != got {
		return fmt.Errorf("is of attempt %d, the name says %d", got, want)
	}
	return nil
}
