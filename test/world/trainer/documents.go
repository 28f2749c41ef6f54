package trainer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/test/world/store"
)

// schemaVersion of every document.
const schemaVersion = "1.0"

// head is what every document begins with.
type head struct {
	SchemaVersion string `json:"schemaVersion"`
	Kind          string `json:"kind"`
}

func ofKind(kind string) head { return head{schemaVersion, kind} }

// encode is a document's bytes, in the order of the fields, as the SDK writes them.
func encode(document any) []byte {
	data, err := json.Marshal(document)
	if err != nil {
		panic(err) // structs of plain values
	}
	return data
}

// startDocument and quarantineDocument are those of compose.
type (
	startDocument struct {
		head
		*checkpoint.Start
	}
	quarantineDocument struct {
		head
		*checkpoint.Quarantine
	}
)

// resultDocument has null where there is no checkpoint, which compose reads as "".
type resultDocument struct {
	head
	Attempt        int32                      `json:"attempt"`
	Outcome        string                     `json:"outcome"`
	Step           int64                      `json:"step"`
	Checkpoint     *string                    `json:"checkpoint"`
	LostSteps      int64                      `json:"lostSteps"`
	Message        string                     `json:"message"`
	RestoreFailure *checkpoint.RestoreFailure `json:"restoreFailure,omitempty"`
	EndedAt        time.Time                  `json:"endedAt"`
}

type runDocument struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	RunID     string `json:"runID"`
}

type manifestDocument struct {
	head
	Run           runDocument                     `json:"run"`
	Identity      map[string]string               `json:"identity"`
	Attempt       int32                           `json:"attempt"`
	Step          int64                           `json:"step"`
	Nonce         string                          `json:"nonce"`
	SavedAt       time.Time                       `json:"savedAt"`
	WorldSize     int32                           `json:"worldSize"`
	Layout        checkpoint.Layout               `json:"layout"`
	Components    map[string]checkpoint.Component `json:"components"`
	Prefix        string                          `json:"prefix"`
	Indexes       []checkpoint.IndexRef           `json:"indexes"`
	Objects       int64                           `json:"objects"`
	Bytes         int64                           `json:"bytes"`
	DeviceProfile string                          `json:"deviceProfile"`
	Framework     string                          `json:"framework"`
	Format        string                          `json:"format"`
	YieldID       int32                           `json:"yieldID,omitempty"`
}

type indexDocument struct {
	head
	Ranks   []int32         `json:"ranks"`
	Objects []indexedObject `json:"objects"`
}

type indexedObject struct {
	Key   string        `json:"key"`
	Bytes int64         `json:"bytes"`
	ETag  string        `json:"etag"`
	Items []indexedItem `json:"items"`
}

type indexedItem struct {
	Component string `json:"component"`
	Name      string `json:"name"`
	Offset    int64  `json:"offset"`
	Bytes     int64  `json:"bytes"`
	CRC       string `json:"crc"`
	DType     string `json:"dtype,omitempty"`
	Shape     []int  `json:"shape,omitempty"`
	Block     *int   `json:"block,omitempty"`
	Encoding  string `json:"encoding,omitempty"`
}

func crc(data []byte) string { return fmt.Sprintf("crc32:%08x", crc32.ChecksumIEEE(data)) }

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// checkpointID is the name of a manifest of these bytes.
func checkpointID(attempt int32, step int64, nonce string, manifest []byte) string {
	return fmt.Sprintf("%06d-%012d-%s-%s", attempt, step, nonce, digest(manifest)[:16])
}

// dataKey and indexKey are relative to the save's prefix.
func dataKey(rank int32, number int) string {
	return fmt.Sprintf("%02x/r%d-%d", rank%256, rank, number)
}

func indexKey(rank int32) string { return fmt.Sprintf("%02x/r%d-index.json", rank%256, rank) }

func recordKey(attempt int32, record string) string {
	return "attempts/" + strconv.Itoa(int(attempt)) + "/" + record + ".json"
}

// request is a yield that a control document or a notice asks for.
type request struct {
	id    int32
	cause string
	// deadline is until when a commit has to be reached.
	deadline time.Time
}

// The kinds of what asks for a yield.
const (
	kindControl = "Control"
	kindNotice  = "Notice"
)

// readRequest returns what a control document or a notice asks the attempt for; nil
// for nothing. The clocks of this world agree, so a deadline is one.
func readRequest(text, kind string, attempt int32) *request {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var d struct {
		head
		Attempt int32 `json:"attempt"`
		Yield   *struct {
			ID              int32     `json:"id"`
			Cause           string    `json:"cause"`
			IssuedAt        time.Time `json:"issuedAt"`
			Deadline        time.Time `json:"deadline"`
			DurationSeconds float64   `json:"durationSeconds"`
		} `json:"yield"`
	}
	if json.Unmarshal([]byte(text), &d) != nil || !strings.HasPrefix(d.SchemaVersion, "1.") || d.Kind != kind || d.Attempt != attempt || d.Yield == nil {
		return nil
	}
	r := &request{id: d.Yield.ID, cause: d.Yield.Cause, deadline: d.Yield.Deadline}
	if kind == kindNotice {
		r.deadline = d.Yield.IssuedAt.Add(time.Duration(d.Yield.DurationSeconds * float64(time.Second)))
	}
	return r
}

// object is one that is to be stored: a PUT.
type object struct {
	key  string // relative to the run
	data []byte
}

// rankObjects are what a rank stores of a save: data objects, then the index.
func rankObjects(e *environment, b *Behaviour, step int64, nonce string, rank int32) (objects []object, ref checkpoint.IndexRef, size int64) {
	prefix := checkpoint.Prefix(e.attempt, step, nonce)
	index := indexDocument{head: ofKind("CheckpointIndex"), Ranks: []int32{rank}}
	for k := range max(1, b.Objects) {
		data := fmt.Appendf(nil, "%s attempt %d step %d rank %d part %d\n", e.name, e.attempt, step, rank, k)
		key := dataKey(rank, k)
		objects = append(objects, object{prefix + key, data})
		index.Objects = append(index.Objects, indexedObject{Key: key, Bytes: int64(len(data)), ETag: store.ETag(data), Items: []indexedItem{{
			Component: "model", Name: "part-" + strconv.Itoa(k), Bytes: int64(len(data)), CRC: crc(data),
		}}})
		size += int64(len(data))
	}
	data := encode(index)
	key := indexKey(rank)
	objects = append(objects, object{prefix + key, data})
	return objects, checkpoint.IndexRef{Key: key, Bytes: int64(len(data)), ETag: store.ETag(data), SHA256: digest(data)}, size
}

// manifest of a save of which every rank stored its part.
func manifest(e *environment, b *Behaviour, s *save, now time.Time) (id string, data []byte) {
	m := manifestDocument{
		head: ofKind("CheckpointManifest"), Run: runDocument{e.namespace, e.name, e.runID}, Identity: e.identity,
		Attempt: e.attempt, Step: s.step, Nonce: s.nonce, SavedAt: now, WorldSize: e.worldSize, Layout: e.layout(),
		Components: b.components(), Prefix: checkpoint.Prefix(e.attempt, s.step, s.nonce), Indexes: s.indexes,
		Objects: int64(max(1, b.Objects)) * int64(e.worldSize), Bytes: s.bytes, Framework: "numpy", Format: "rtj-arrays/1",
	}
	if s.yielding {
		m.YieldID = e.attempt
	}
	data = encode(m)
	return checkpointID(e.attempt, s.step, s.nonce, data), data
}
