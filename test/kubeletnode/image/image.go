// Package image makes small OCI images in memory. The same input gives the same
// bytes, so the same digests.
//
// Formats: OCI Image Format Specification 1.1 (config.md, layer.md, manifest.md).
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Media types of what an image consists of.
const (
	MediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// Blob is content with the digest that names it, "sha256:...".
type Blob struct {
	Digest  string
	Content []byte
}

// Image is a manifest and the blobs that it names: its configuration and its layer.
type Image struct {
	Manifest Blob
	Blobs    []Blob
}

// Entry is a file, folder or symbolic link of an image. Paths are relative to
// its root and have no leading slash.
type Entry struct {
	Path string
	// Mode holds permissions and os.ModeDir or os.ModeSymlink.
	Mode os.FileMode
	// Content of a file, or the target of a link.
	Content string
}

// Config is what containers of an image get if their pod says nothing else.
type Config struct {
	// Env holds KEY=VALUE.
	Env        []string `json:",omitempty"`
	Entrypoint []string `json:",omitempty"`
	WorkingDir string   `json:",omitempty"`
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

// New makes an image of one layer. Folders above an entry that are no entries
// themselves are made with mode 0755.
func New(config Config, entries []Entry) (Image, error) {
	layer, err := layer(entries)
	if err != nil {
		return Image{}, err
	}
	described, err := blob(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
	})
	if err != nil {
		return Image{}, err
	}
	manifest, err := blob(map[string]any{
		"schemaVersion": 2, "mediaType": MediaManifest,
		"config": descriptor{mediaConfig, described.Digest, len(described.Content)},
		"layers": []descriptor{{mediaLayer, layer.Digest, len(layer.Content)}},
	})
	return Image{manifest, []Blob{described, layer}}, err
}

// blob is JSON with sorted keys.
func blob(v any) (Blob, error) {
	content, err := json.Marshal(v)
	return named(content), err
}

func named(content []byte) Blob {
	sum := sha256.Sum256(content)
	return Blob{"sha256:" + hex.EncodeToString(sum[:]), content}
}

func layer(entries []Entry) (Blob, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range complete(entries) {
		header := &tar.Header{Name: e.Path, Mode: int64(e.Mode.Perm()), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if e.Mode&os.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		switch {
		case e.Mode.IsDir():
			header.Typeflag, header.Name = tar.TypeDir, e.Path+"/"
		case e.Mode&os.ModeSymlink != 0:
			header.Typeflag, header.Linkname = tar.TypeSymlink, e.Content
		default:
			header.Typeflag, header.Size = tar.TypeReg, int64(len(e.Content))
		}
		if err := w.WriteHeader(header); err != nil {
			return Blob{}, fmt.Errorf("%s: %w", e.Path, err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(e.Content)); err != nil {
				return Blob{}, fmt.Errorf("%s: %w", e.Path, err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return Blob{}, err
	}
	return named(out.Bytes()), nil
}

// complete adds the folders above each entry and sorts, so that a folder comes
// before what is in it.
func complete(entries []Entry) []Entry {
	all := map[string]Entry{}
	for _, e := range entries {
		e.Path = strings.Trim(filepath.Clean(e.Path), "/")
		all[e.Path] = e
	}
	for _, e := range entries {
		for dir := filepath.Dir(strings.Trim(filepath.Clean(e.Path), "/")); dir != "."; dir = filepath.Dir(dir) {
			if _, there := all[dir]; !there {
				all[dir] = Entry{Path: dir, Mode: os.ModeDir | 0o755}
			}
		}
	}
	sorted := make([]Entry, 0, len(all))
	for _, e := range all {
		sorted = append(sorted, e)
	}
	slices.SortFunc(sorted, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return sorted
}
