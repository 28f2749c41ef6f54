package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	kindManifest = "CheckpointManifest"
	// maxIndexes is the largest number of index objects of a checkpoint.
	maxIndexes = 256
)

// IndexRef is an index object as the manifest names it.
type IndexRef struct {
	// Key is relative to the checkpoint's prefix.
	Key    string `json:"key"`
	Bytes  int64  `json:"bytes"`
	ETag   string `json:"etag"`
	SHA256 string `json:"sha256"`
}

// manifestDocument is the manifest as it is stored.
type manifestDocument struct {
	envelope
	Run struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		RunID     string `json:"runID"`
	} `json:"run"`
	Identity      map[string]string    `json:"identity"`
	Attempt       int32                `json:"attempt"`
	Step          int64                `json:"step"`
	Nonce         string               `json:"nonce"`
	WorldSize     int32                `json:"worldSize"`
	Layout        Layout               `json:"layout"`
	Components    map[string]Component `json:"components"`
	Prefix        string               `json:"prefix"`
	Indexes       []IndexRef           `json:"indexes"`
	Objects       int64                `json:"objects"`
	Bytes         int64                `json:"bytes"`
	DeviceProfile string               `json:"deviceProfile"`
	Framework     string               `json:"framework"`
	Format        string               `json:"format"`
	YieldID       int32                `json:"yieldID"`
}

// ParseManifest reads the manifest with this id. It never fails: what cannot
// be used has a Defect, and then as much of Attempt and Step as the name tells.
func ParseManifest(id string, data []byte) Manifest {
	m := NamedManifest(id)
	if m.Defect != nil {
		return m
	}
	doc, err := readManifest(id, data)
	if err != nil {
		reason := ReasonCorruptManifest
		if errors.Is(err, errUnknownVersion) {
			reason = ReasonUnknownVersion
		}
		return m.WithDefect(reason, "manifests/"+id+".json "+err.Error())
	}
	m.RunID = doc.Run.RunID
	m.Identity = doc.Identity
	m.WorldSize = doc.WorldSize
	m.Layout = doc.Layout.normalised()
	m.Components = doc.Components
	m.Indexes = doc.Indexes
	m.Objects = doc.Objects
	m.Bytes = doc.Bytes
	m.DeviceProfile = doc.DeviceProfile
	m.Framework = doc.Framework
	m.Format = doc.Format
	m.YieldID = doc.YieldID
	return m
}

// NamedManifest is what the id alone tells of a manifest: attempt and step, or
// a defect when it is no checkpoint id.
func NamedManifest(id string) Manifest {
	attempt, step, _, _, err := ParseID(id)
	m := Manifest{ID: id, Attempt: attempt, Step: step}
	if err != nil {
		return m.WithDefect(ReasonCorruptManifest, "manifests/"+clip(id, 128)+".json: "+err.Error())
	}
	return m
}

// WithDefect is the manifest reduced to its name, time and this defect.
func (m Manifest) WithDefect(reason, message string) Manifest {
	return Manifest{
		ID: m.ID, Attempt: m.Attempt, Step: m.Step, CommittedAt: m.CommittedAt,
		Defect: &Defect{Reason: reason, Message: message},
	}
}

// readManifest reads a manifest whose name is a checkpoint id.
func readManifest(id string, data []byte) (*manifestDocument, error) {
	attempt, step, nonce, hash, _ := ParseID(id)
	if len(data) > MaxDocumentBytes {
		return nil, fmt.Errorf("has %d bytes, at most %d are allowed", len(data), MaxDocumentBytes)
	}
	// The hash comes first: bytes that are not those that were committed say
	// nothing, whatever they look like.
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:])[:hashDigits]; got != hash {
		return nil, fmt.Errorf("has %d bytes with SHA-256 %s..., the name says %s: it is cut or was changed", len(data), got, hash)
	}
	doc := &manifestDocument{}
	if err := decode(data, kindManifest, &doc.envelope, doc); err != nil {
		return nil, err
	}
	switch {
	case doc.Attempt != attempt:
		return nil, fmt.Errorf("is of attempt %d, the name says %d", doc.Attempt, attempt)
	case doc.Step != step:
		return nil, fmt.Errorf("is of step %d, the name says %d", doc.Step, step)
	case doc.Nonce != nonce:
		return nil, fmt.Errorf("has nonce %q, the name says %s", clip(doc.Nonce, 32), nonce)
	case doc.Prefix != Prefix(attempt, step, nonce):
		return nil, fmt.Errorf("has prefix %q, it must be %s", clip(doc.Prefix, 128), Prefix(attempt, step, nonce))
	case doc.Run.RunID == "":
		return nil, errors.New("names no run")
	case doc.WorldSize < 1:
		return nil, fmt.Errorf("has world size %d", doc.WorldSize)
	case doc.Objects < 0 || doc.Bytes < 0:
		return nil, fmt.Errorf("counts %d objects and %d bytes", doc.Objects, doc.Bytes)
	case len(doc.Indexes) == 0 || len(doc.Indexes) > maxIndexes:
		return nil, fmt.Errorf("names %d index objects, it must be 1 to %d", len(doc.Indexes), maxIndexes)
	}
	if err := doc.Layout.check(); err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(doc.Indexes))
	for _, index := range doc.Indexes {
		switch {
		case !relativeKey(index.Key):
			return nil, fmt.Errorf("names an index object %q, which is not a relative key", clip(index.Key, 128))
		case seen[index.Key]:
			return nil, fmt.Errorf("names index object %s twice", clip(index.Key, 128))
		case index.Bytes < 0:
			return nil, fmt.Errorf("says that index object %s has %d bytes", clip(index.Key, 128), index.Bytes)
		case !digits(index.SHA256, sha256.Size*2, 'f'):
			return nil, fmt.Errorf("has no SHA-256 for index object %s", clip(index.Key, 128))
		}
		seen[index.Key] = true
	}
	return doc, nil
}

// relativeKey refuses keys that would leave the checkpoint's prefix where keys
// are file names.
func relativeKey(key string) bool {
	if key == "" || len(key) > 1024 || strings.ContainsAny(key, "\\\x00") {
		return false
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// normalised has 1 for every degree that is absent.
func (l Layout) normalised() Layout {
	l.DP, l.TP, l.PP, l.CP, l.EP = max(l.DP, 1), max(l.TP, 1), max(l.PP, 1), max(l.CP, 1), max(l.EP, 1)
	return l
}

func (l Layout) check() error {
	for _, degree := range [...]struct {
		name  string
		value int32
	}{{"dp", l.DP}, {"tp", l.TP}, {"pp", l.PP}, {"cp", l.CP}, {"ep", l.EP}} {
		if degree.value < 0 {
			return fmt.Errorf("has layout %s=%d", degree.name, degree.value)
		}
	}
	return nil
}
