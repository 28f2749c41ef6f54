package kubelet

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSeekLines(t *testing.T) {
	long := strings.Repeat("x", 70<<10) // longer than what is read at once
	for _, c := range []struct {
		text string
		n    int64
		want string
	}{
		{"a\nb\nc\n", 2, "b\nc\n"},
		{"a\nb\nc", 2, "b\nc"},
		{"a\nb\n", 5, "a\nb\n"},
		{"a\nb\n", 0, ""},
		{"", 3, ""},
		{"\n\n\n", 2, "\n\n"},
		{"a\n" + long + "\nc\n", 2, long + "\nc\n"},
		{"a\n" + long + "\n" + long + "\n", 1, long + "\n"},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		err = seekLines(f, c.n)
		got, _ := io.ReadAll(f)
		_ = f.Close()
		if err != nil || string(got) != c.want {
			t.Errorf("last %d lines of %.20q: %.20q, %v", c.n, c.text, got, err)
		}
	}
}

func TestLimitedCutsAtTheByte(t *testing.T) {
	var out bytes.Buffer
	l := &limited{&out, 5}
	if _, err := l.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Write([]byte("defg")); n != 2 || !errors.Is(err, errLimit) || out.String() != "abcde" {
		t.Errorf("%d, %v, %q", n, err, out.String())
	}
}

func TestLogOptions(t *testing.T) {
	parse := func(query string) (logOptions, error) {
		return parseLogOptions(&http.Request{URL: &url.URL{RawQuery: query}})
	}
	if o, err := parse(""); err != nil || o != (logOptions{tail: -1, limit: -1}) {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse("follow=true&previous=true&tailLines=3&limitBytes=10&timestamps=false"); err != nil ||
		o != (logOptions{follow: true, previous: true, tail: 3, limit: 10}) {
		t.Errorf("%+v, %v", o, err)
	}
	for _, query := range []string{"timestamps=true", "sinceSeconds=5", "tailLines=-1", "tailLines=x", "follow=perhaps"} {
		if _, err := parse(query); err == nil {
			t.Errorf("%s was accepted", query)
		}
	}
}
