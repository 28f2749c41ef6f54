package checkpoint

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// MaxAttempt is the largest number of an attempt.
	MaxAttempt = 99999

	attemptDigits = 6
	stepDigits    = 12
	nonceDigits   = 12
	hashDigits    = 16
	idLength      = attemptDigits + 1 + stepDigits + 1 + nonceDigits + 1 + hashDigits
)

// ParseID takes a checkpoint id apart: "<attempt>-<step>-<nonce>-<hash>", the
// attempt in 6 and the step in 12 decimal digits, the nonce in 12 and the hash
// in 16 lower-case hex digits. The hash is the beginning of the SHA-256 of the
// manifest's bytes.
func ParseID(id string) (attempt int32, step int64, nonce, hash string, err error) {
	refuse := func(why string) (int32, int64, string, string, error) {
		return 0, 0, "", "", fmt.Errorf("%q is not a checkpoint id: %s", clip(id, 128), why)
	}
	inAttempt, rest, _ := strings.Cut(id, "-")
	inStep, rest, _ := strings.Cut(rest, "-")
	nonce, hash, ok := strings.Cut(rest, "-")
	if !ok || strings.Contains(hash, "-") {
		return refuse("it must be <attempt>-<step>-<nonce>-<hash>")
	}
	switch {
	case !digits(inAttempt, attemptDigits, '9'):
		return refuse("the attempt must have 6 decimal digits")
	case !digits(inStep, stepDigits, '9'):
		return refuse("the step must have 12 decimal digits")
	case !digits(nonce, nonceDigits, 'f'):
		return refuse("the nonce must have 12 lower-case hex digits")
	case !digits(hash, hashDigits, 'f'):
		return refuse("the hash must have 16 lower-case hex digits")
	}
	// Neither can fail: both are short runs of digits.
	a, _ := strconv.ParseInt(inAttempt, 10, 32)
	step, _ = strconv.ParseInt(inStep, 10, 64)
	if a < 1 || a > MaxAttempt {
		return refuse("attempts count from 1 to " + strconv.Itoa(MaxAttempt))
	}
	return int32(a), step, nonce, hash, nil
}

// Prefix is where the objects of the checkpoint are, relative to the run.
func Prefix(attempt int32, step int64, nonce string) string {
	return fmt.Sprintf("checkpoints/%d/%d-%s/", attempt, step, nonce)
}

// named reports whether a manifest's attempt and step come from a valid name:
// attempts count from 1.
func (m *Manifest) named() bool { return m.Attempt > 0 }

// digits reports whether s is n digits, lower-case, up to the last one: '9' or 'f'.
func digits(s string, n int, last byte) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > last) {
			return false
		}
	}
	return len(s) == n
}

// clip cuts s to at most n bytes without splitting a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-3], "") + "..."
}
