package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"rtj.dev/rtj/test/node/sandbox"
)

// logOptions are the options of a log request that this node knows.
type logOptions struct {
	follow   bool
	previous bool
	tail     int64 // lines; -1 is all
	limit    int64 // bytes; -1 is all
}

func parseLogOptions(r *http.Request) (logOptions, error) {
	o := logOptions{tail: -1, limit: -1}
	q := r.URL.Query()
	for name, into := range map[string]*bool{"follow": &o.follow, "previous": &o.previous, "timestamps": new(bool)} {
		v := q.Get(name)
		if v == "" {
			continue
		}
		b, err := strconv.ParseBool(v)
		if err != nil {
			return o, fmt.Errorf("%s: %w", name, err)
		}
		if *into = b; b && name == "timestamps" {
			return o, errors.New("a process node keeps logs as they were written, without timestamps")
		}
	}
	for name, into := range map[string]*int64{"tailLines": &o.tail, "limitBytes": &o.limit} {
		v := q.Get(name)
		if v == "" {
			continue
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return o, fmt.Errorf("%s: %q is not a number of zero or more", name, v)
		}
		*into = n
	}
	for _, name := range []string{"sinceSeconds", "sinceTime"} {
		if q.Get(name) != "" {
			return o, errors.New("a process node keeps logs without timestamps and cannot select by time")
		}
	}
	return o, nil
}

func (m *manager) serveLogs(rw http.ResponseWriter, r *http.Request) {
	namespace, pod, name := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	options, err := parseLogOptions(r)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w := m.find(namespace, pod)
	if w == nil {
		http.Error(rw, fmt.Sprintf("pod %s/%s is not on node %s", namespace, pod, m.Name), http.StatusNotFound)
		return
	}
	attempts, err := attemptsIn(w.containerDir(name))
	if options.previous && len(attempts) > 0 {
		attempts = attempts[:len(attempts)-1]
	}
	if err != nil || len(attempts) == 0 {
		http.Error(rw, fmt.Sprintf("container %q in pod %q has no log: it has not been started", name, pod), http.StatusBadRequest)
		return
	}
	dir := filepath.Join(w.containerDir(name), strconv.Itoa(attempts[len(attempts)-1]))
	log, err := os.Open(filepath.Join(dir, sandbox.LogFile))
	if err != nil {
		http.Error(rw, "the log is gone: "+err.Error(), http.StatusNotFound)
		return
	}
	defer log.Close()
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	var out io.Writer = flusher{rw, http.NewResponseController(rw)}
	if options.limit >= 0 {
		out = &limited{out, options.limit}
	}
	if err := stream(r.Context(), out, log, dir, options); err != nil && r.Context().Err() == nil && !errors.Is(err, errLimit) {
		m.Log.Warn("log request", "pod", pod, "error", err)
	}
}

// stream copies a log and, if asked, what is added to it until the container
// has ended.
func stream(ctx context.Context, out io.Writer, log *os.File, dir string, o logOptions) error {
	if o.tail >= 0 {
		if err := seekLines(log, o.tail); err != nil {
			return err
		}
	}
	for {
		// In this order, so that what was written before the end is seen.
		over := !o.follow || hasEnded(dir)
		if _, err := io.Copy(out, log); err != nil || over {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func hasEnded(dir string) bool {
	box, err := sandbox.Open(dir)
	if err != nil {
		return true
	}
	end, err := box.Ended()
	return err != nil || end != nil
}

// seekLines moves to the start of the last n lines.
func seekLines(f *os.File, n int64) error {
	const block = 64 << 10
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || n == 0 {
		return err
	}
	buf := make([]byte, block)
	lines := int64(0)
	for pos := end; pos > 0; {
		size := min(block, pos)
		pos -= size
		if _, err := f.ReadAt(buf[:size], pos); err != nil {
			return err
		}
		for i := size - 1; i >= 0; {
			j := int64(bytes.LastIndexByte(buf[:i+1], '\n'))
			if j < 0 {
				break
			}
			// The line feed at the very end ends the last line.
			if pos+j != end-1 {
				if lines++; lines == n {
					_, err := f.Seek(pos+j+1, io.SeekStart)
					return err
				}
			}
			i = j - 1
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// flusher hands every write to the client at once.
type flusher struct {
	io.Writer
	control *http.ResponseController
}

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	return n, errors.Join(err, f.control.Flush())
}

var errLimit = errors.New("the limit of bytes is reached")

type limited struct {
	io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	if int64(len(p)) <= l.left {
		n, err := l.Writer.Write(p)
		l.left -= int64(n)
		return n, err
	}
	n, err := l.Writer.Write(p[:l.left])
	l.left = 0
	return n, errors.Join(err, errLimit)
}
