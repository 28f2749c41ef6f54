package image

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Registry serves images by name for pulls only. A tag is not looked at, and
// the prefix that container runtimes put before Docker's own images may be there.
//
// Protocol: OCI Distribution Specification 1.1, "Pull".
type Registry struct {
	images map[string]Image
}

// NewRegistry serves images by name.
func NewRegistry(images map[string]Image) *Registry { return &Registry{images} }

// Names of the images, sorted.
func (r *Registry) Names() []string {
	var names []string
	for name := range r.images {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	path, isAPI := strings.CutPrefix(q.URL.Path, "/v2/")
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "this registry serves pulls only")
		return
	}
	if !isAPI {
		http.NotFound(w, q)
		return
	}
	if path == "" {
		w.WriteHeader(http.StatusOK)
		return
	}
	parts := strings.Split(path, "/")
	if len(parts) < 3 {
		http.NotFound(w, q)
		return
	}
	name := strings.TrimPrefix(strings.Join(parts[:len(parts)-2], "/"), "library/")
	kind, reference := parts[len(parts)-2], parts[len(parts)-1]
	found, known := r.images[name]
	if !known {
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN", fmt.Sprintf("image %q is not known to this node; it has: %s", name, strings.Join(r.Names(), ", ")))
		return
	}
	switch kind {
	case "manifests":
		if strings.HasPrefix(reference, "sha256:") && reference != found.Manifest.Digest {
			refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", reference)
			return
		}
		send(w, q, found.Manifest, MediaManifest)
	case "blobs":
		for _, b := range found.Blobs {
			if b.Digest == reference {
				send(w, q, b, "application/octet-stream")
				return
			}
		}
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN", reference)
	default:
		http.NotFound(w, q)
	}
}

func send(w http.ResponseWriter, q *http.Request, b Blob, mediaType string) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(b.Content)))
	w.Header().Set("Docker-Content-Digest", b.Digest)
	w.WriteHeader(http.StatusOK)
	if q.Method == http.MethodGet {
		_, _ = w.Write(b.Content)
	}
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]string{{"code": code, "message": message}}})
}
