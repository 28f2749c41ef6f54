// Package slot hands every local cluster a block of ports and a range of
// loopback addresses of its own, and holds the file locks that keep two
// commands from working on the same thing at once.
package slot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Lock is an exclusive advisory lock (flock) on a file. The kernel drops it
// when the holder ends, however it ends.
type Lock struct{ file *os.File }

// Acquire takes the lock at path, creating the file. While another process
// holds it, waiting is called once with that process's pid (0 if unknown).
func Acquire(ctx context.Context, path string, waiting func(pid int)) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	told := false
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			if sameFile(f, path) {
				if err := writePID(f); err != nil {
					f.Close()
					return nil, err
				}
				return &Lock{file: f}, nil
			}
			f.Close() // unlinked by its last holder between open and lock
			continue
		}
		holder := readPID(f)
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !told && waiting != nil {
			waiting(holder)
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock %s, held by pid %d: %w", path, holder, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Release gives the lock up.
func (l *Lock) Release() {
	if l != nil && l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// Remove deletes the lock file and gives the lock up. Whoever waits for it
// notices that the file is gone and starts again with a new one.
func (l *Lock) Remove() {
	if l != nil && l.file != nil {
		_ = os.Remove(l.file.Name())
		l.Release()
	}
}

func sameFile(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func readPID(f *os.File) int {
	buf := make([]byte, 16)
	n, _ := f.ReadAt(buf, 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	return pid
}
