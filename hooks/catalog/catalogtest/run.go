// Package catalogtest writes what workers leave in a store, for tests: whole
// checkpoints whose sizes, ETags and digests are right, until a test damages
// them.
package catalogtest

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
)

// Put writes an object; it fails the test by itself.
type Put func(key string, data []byte)

// Run writes a run's objects. The same calls write the same bytes.
type Run struct {
	Namespace, Name, RunID string
	// Ranks that save; each writes two objects of a few bytes.
	Ranks int
	// Put receives keys relative to the store's root.
	Put Put

	saves int
}

// Directory returns a Put into a folder.
func Directory(root string, fail func(error)) Put {
	return func(key string, data []byte) {
		path := filepath.Join(root, filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			fail(err)
			return
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			fail(err)
		}
	}
}

// Key is relative to the store's root.
func (r *Run) Key(key string) string {
	return r.Namespace + "/" + r.Name + "/" + r.RunID + "/" + key
}

// Document is JSON of a kind.
type Document map[string]any

// Encode is the document as it is stored.
func (d Document) Encode() []byte {
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic(err) // of a test's own literal
	}
	return append(data, '\n')
}

// Start writes the start record of an attempt; restore is a checkpoint id, or
// empty when it started fresh.
func (r *Run) Start(attempt int32, restore string) {
	doc := Document{
		"schemaVersion": "1.0", "kind": "AttemptStart", "attempt": attempt, "restore": nil,
		"worldSize": r.Ranks, "layout": r.layout(), "startedAt": "2026-03-01T09:40:00Z",
	}
	if restore != "" {
		var restored, step int64
		if _, err := fmt.Sscanf(restore, "%06d-%012d-", &restored, &step); err != nil {
			panic(err)
		}
		doc["restore"] = Document{"checkpoint": restore, "attempt": restored, "step": step}
	}
	r.Put(r.Key(fmt.Sprintf("attempts/%d/start.json", attempt)), doc.Encode())
}

// Progress writes the progress record of an attempt.
func (r *Run) Progress(attempt int32, step int64) {
	r.Put(r.Key(fmt.Sprintf("attempts/%d/progress.json", attempt)), Document{
		"schemaVersion": "1.0", "kind": "AttemptProgress", "attempt": attempt, "activity": "training",
		"step": step, "totalSteps": 5000, "stepsPerSecond": 2.5, "firstStepAt": "2026-03-01T09:40:09Z",
		"restoreSeconds": nil, "lastSave": nil, "yield": nil, "updatedAt": "2026-03-01T10:00:02Z",
	}.Encode())
}

// Result writes the result record of an attempt.
func (r *Run) Result(attempt int32, outcome string, step int64, checkpoint string) {
	doc := Document{
		"schemaVersion": "1.0", "kind": "AttemptResult", "attempt": attempt, "outcome": outcome, "step": step,
		"checkpoint": nil, "lostSteps": 0, "message": outcome + fmt.Sprintf(" at step %d", step), "endedAt": "2026-03-01T10:00:06Z",
	}
	if checkpoint != "" {
		doc["checkpoint"] = checkpoint
	}
	r.Put(r.Key(fmt.Sprintf("attempts/%d/result.json", attempt)), doc.Encode())
}

// Quarantine writes the quarantine record of a checkpoint.
func (r *Run) Quarantine(checkpoint string) {
	r.Put(r.Key("quarantine/"+checkpoint+".json"), Document{
		"schemaVersion": "1.0", "kind": "Quarantine", "checkpoint": checkpoint, "cause": "checksumMismatch",
		"object": "01/r1-0", "rank": 1, "node": "node-b", "message": "read twice", "recordedAt": "2026-03-01T10:20:06Z",
	}.Encode())
}

// Save writes a whole checkpoint, the manifest last, and returns its id. The
// changes are made to the manifest before it is hashed.
func (r *Run) Save(attempt int32, step int64, changes ...func(Document)) (id string) {
	r.saves++
	nonce := fmt.Sprintf("%012x", r.saves)
	prefix := fmt.Sprintf("checkpoints/%d/%d-%s/", attempt, step, nonce)
	var indexes []Document
	objects, size := 0, 0
	for rank := range r.Ranks {
		var listed []Document
		for k := range 2 {
			key := fmt.Sprintf("%02x/r%d-%d", rank%256, rank, k)
			data := []byte(strings.Repeat(fmt.Sprintf("attempt %d step %d rank %d\n", attempt, step, rank), k+1))
			r.Put(r.Key(prefix+key), data)
			listed = append(listed, Document{"key": key, "bytes": len(data), "etag": ETag(data), "items": []Document{{
				"component": "model", "name": "weights", "offset": 0, "bytes": len(data),
				"crc": fmt.Sprintf("crc32:%08x", crc32.ChecksumIEEE(data)),
			}}})
			objects++
			size += len(data)
		}
		index := Document{"schemaVersion": "1.0", "kind": "CheckpointIndex", "ranks": []int{rank}, "objects": listed}.Encode()
		key := fmt.Sprintf("%02x/r%d-index.json", rank%256, rank)
		r.Put(r.Key(prefix+key), index)
		indexes = append(indexes, Document{"key": key, "bytes": len(index), "etag": ETag(index), "sha256": digest(index)})
	}
	manifest := Document{
		"schemaVersion": "1.0", "kind": "CheckpointManifest",
		"run":      Document{"namespace": r.Namespace, "name": r.Name, "runID": r.RunID},
		"identity": Document{"codeVersion": "v7"}, "attempt": attempt, "step": step, "nonce": nonce,
		"savedAt": "2026-03-01T10:00:05Z", "worldSize": r.Ranks, "layout": r.layout(),
		"components": Document{
			"model": Document{"reshard": "any", "complete": true}, "optimizer": Document{"reshard": "any", "complete": true},
			"rng": Document{"reshard": "any", "complete": true}, "data": Document{"reshard": "any", "complete": true},
		},
		"prefix": prefix, "indexes": indexes, "objects": objects, "bytes": size,
		"deviceProfile": "", "framework": "numpy", "format": "rtj-arrays/1",
	}
	for _, change := range changes {
		change(manifest)
	}
	data := manifest.Encode()
	id = fmt.Sprintf("%06d-%012d-%s-%s", attempt, step, nonce, digest(data)[:16])
	r.Put(r.Key("manifests/"+id+".json"), data)
	return id
}

func (r *Run) layout() Document {
	return Document{"dp": r.Ranks, "tp": 1, "pp": 1, "cp": 1, "ep": 1, "globalBatch": 64, "accumulation": 1}
}

// ETag is what most stores return for an object that was written at once.
func ETag(data []byte) string {
	sum := md5.Sum(data)
	return hex.EncodeToString(sum[:])
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
