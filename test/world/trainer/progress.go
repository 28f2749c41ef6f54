package trainer

import (
	"strconv"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/test/world/apiserver"
)

// encodeProgress is [encode] for the one record that is written again and again, several
// times as fast.
func encodeProgress(p *checkpoint.Progress) []byte {
	to := make([]byte, 0, 512)
	to = append(to, `{"schemaVersion":"`+schemaVersion+`","kind":"AttemptProgress","attempt":`...)
	to = strconv.AppendInt(to, int64(p.Attempt), 10)
	to = append(to, `,"activity":`...)
	to = apiserver.AppendString(to, p.Activity)
	to = append(to, `,"step":`...)
	to = strconv.AppendInt(to, p.Step, 10)
	to = append(to, `,"totalSteps":`...)
	to = orNull(to, p.TotalSteps, appendInt)
	to = append(to, `,"stepsPerSecond":`...)
	to = orNull(to, p.StepsPerSecond, appendFloat)
	to = append(to, `,"firstStepAt":`...)
	to = orNull(to, p.FirstStepAt, appendTime)
	to = append(to, `,"restoreSeconds":`...)
	to = orNull(to, p.RestoreSeconds, appendFloat)
	to = append(to, `,"lastSave":`...)
	to = orNull(to, p.LastSave, appendSave)
	to = append(to, `,"yield":`...)
	if p.Yield == nil {
		to = append(to, "null"...)
	} else {
		to = append(to, encode(p.Yield)...)
	}
	to = append(to, `,"updatedAt":`...)
	return append(appendTime(to, p.UpdatedAt), '}')
}

// orNull appends what a pointer points to.
func orNull[T any](to []byte, value *T, add func([]byte, T) []byte) []byte {
	if value == nil {
		return append(to, "null"...)
	}
	return add(to, *value)
}

func appendSave(to []byte, s checkpoint.Save) []byte {
	to = apiserver.AppendString(append(to, `{"checkpoint":`...), s.Checkpoint)
	to = appendInt(append(to, `,"step":`...), s.Step)
	to = appendFloat(append(to, `,"seconds":`...), s.Seconds)
	to = appendInt(append(to, `,"bytes":`...), s.Bytes)
	return append(to, '}')
}

func appendInt(to []byte, n int64) []byte { return strconv.AppendInt(to, n, 10) }

func appendFloat(to []byte, f float64) []byte {
	if f != 0 && (f < 1e-6 || f >= 1e21) {
		return append(to, encode(f)...) // with an exponent
	}
	return strconv.AppendFloat(to, f, 'f', -1, 64)
}

func appendTime(to []byte, at time.Time) []byte {
	to = append(to, '"')
	to = at.AppendFormat(to, time.RFC3339Nano)
	return append(to, '"')
}
