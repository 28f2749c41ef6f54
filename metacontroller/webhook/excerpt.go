package webhook

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxExcerpt is how much of a body an error shows, in bytes.
	maxExcerpt = 512
	// maxErrorText bounds an error as a whole, in bytes.
	maxErrorText = 3000

	redacted = "[redacted]"
)

// excerpt returns the beginning of a body, as text on one line, without secrets:
// a hook may well answer with the header that it did not like.
func excerpt(body io.Reader, secrets []string) string {
	longest := 0
	for _, s := range secrets {
		longest = max(longest, len(s))
	}
	// Enough to see the whole of a secret that begins in the excerpt.
	data, _ := io.ReadAll(io.LimitReader(body, int64(maxExcerpt+longest+1)))
	return excerptOf(data, maxExcerpt, secrets)
}

// excerptOf returns the first bytes of data as text on one line, without secrets.
func excerptOf(data []byte, limit int, secrets []string) string {
	var text strings.Builder
	i := 0
next:
	for i < len(data) && i < limit {
		for _, s := range secrets {
			if bytes.HasPrefix(data[i:], []byte(s)) {
				text.WriteString(redacted)
				i += len(s)
				continue next
			}
		}
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case !unicode.IsPrint(r):
			r = utf8.RuneError
		}
		text.WriteRune(r)
		i += size
	}
	shown := strings.TrimSpace(text.String())
	if i < len(data) {
		shown += " ..."
	}
	return shown
}
