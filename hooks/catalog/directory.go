package catalog

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"rtj.dev/rtj/compose/checkpoint"
)

// Directory is a folder that stands for a store: keys are file names, a file's
// ETag is the hex MD5 of its bytes, and a folder that does not exist is an
// empty store. Files whose name begins with a dot are not there yet.
type Directory struct{ root string }

// OpenDirectory returns the folder as a store.
func OpenDirectory(root string) *Directory { return &Directory{root: root} }

// List implements Store.
func (d *Directory) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		top, err := d.path(strings.TrimSuffix(prefix, "/"))
		if err == nil {
			err = isFolder(d.root)
		}
		if err == nil {
			err = isFolder(top)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		stop := errors.New("stop")
		if err == nil {
			err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				if strings.HasPrefix(entry.Name(), ".") && path != top {
					if entry.IsDir() {
						return fs.SkipDir
					}
					return nil
				}
				if entry.IsDir() {
					return nil
				}
				o, err := d.describe(path)
				if vanished(path, err) {
					return nil
				}
				if err != nil {
					return err
				}
				if !yield(o, nil) {
					return stop
				}
				return nil
			})
		}
		if err != nil && err != stop {
			yield(Object{}, d.failure(err))
		}
	}
}

// Get implements Store.
func (d *Directory) Get(_ context.Context, key string, maxBytes int64) ([]byte, Object, error) {
	path, err := d.path(key)
	if err != nil {
		return nil, Object{}, d.failure(err)
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Object{}, ErrNotExist
	}
	if err != nil {
		return nil, Object{}, d.failure(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, Object{}, d.failure(err)
	}
	o := Object{Key: key, Bytes: info.Size(), Modified: info.ModTime()}
	if info.Size() > maxBytes {
		return nil, o, &TooLargeError{Bytes: info.Size(), Max: maxBytes}
	}
	data, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return nil, o, d.failure(err)
	}
	if int64(len(data)) > maxBytes {
		return nil, o, &TooLargeError{Bytes: int64(len(data)), Max: maxBytes}
	}
	sum := md5.Sum(data)
	o.Bytes, o.ETag = int64(len(data)), hex.EncodeToString(sum[:])
	return data, o, nil
}

// path is the file of a key, which must not leave the folder.
func (d *Directory) path(key string) (string, error) {
	if key != "" && !filepath.IsLocal(filepath.FromSlash(key)) {
		return "", fmt.Errorf("the key %q leaves the folder", key)
	}
	return filepath.Join(d.root, filepath.FromSlash(key)), nil
}

// describe reads the file for its ETag.
func (d *Directory) describe(path string) (Object, error) {
	// Before it is opened: opening a pipe would wait for a writer.
	info, err := os.Stat(path)
	if err != nil {
		return Object{}, err
	}
	if !info.Mode().IsRegular() {
		return Object{}, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is not a regular file")}
	}
	file, err := os.Open(path)
	if err != nil {
		return Object{}, err
	}
	defer file.Close()
	hash := md5.New()
	n, err := io.Copy(hash, file)
	if err != nil {
		return Object{}, err
	}
	key, err := filepath.Rel(d.root, path)
	if err != nil {
		return Object{}, err
	}
	return Object{
		Key: filepath.ToSlash(key), Bytes: n, ETag: hex.EncodeToString(hash.Sum(nil)), Modified: info.ModTime(),
	}, nil
}

// vanished reports whether the file was deleted after the folder was read. A
// link to nowhere is still there, and an error.
func vanished(path string, err error) bool {
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	_, err = os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func isFolder(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "list", Path: path, Err: syscall.ENOTDIR}
	}
	return err
}

func (d *Directory) failure(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &Error{checkpoint.AccessDenied, fmt.Sprintf("folder %s: %v", d.root, err)}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{checkpoint.Unreachable, fmt.Sprintf("folder %s: not read in time", d.root)}
	}
	return &Error{checkpoint.Unreachable, fmt.Sprintf("folder %s: %v", d.root, err)}
}
