package checkpoint_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/test/scenario"
)

// complete is a row: a checkpoint in the store, and what is said of it.
type complete struct {
	WorldSize int32 `json:"worldSize"`
	Objects   int64 `json:"objects"`
	Bytes     int64 `json:"bytes"`
	// Indexes are the index objects by key, as documents or as bytes. The manifest
	// names each with size, ETag and SHA-256, but for what Named changes in it, and
	// not those of which Named is false.
	Indexes map[string]any `json:"indexes"`
	Named   map[string]any `json:"named"`
	// Gone are index objects that cannot be found, or why they cannot be read.
	Gone map[string]string `json:"gone"`
	// Listed are the other objects that the store lists; of an index object what
	// is listed otherwise than the manifest says, false for not at all.
	Listed map[string]any `json:"listed"`

	// Doubt and Verdict say what is wrong; ByListing, what is known of it without
	// the index objects.
	Doubt     string `json:"doubt"`
	Verdict   string `json:"verdict"`
	ByListing string `json:"byListing"`
}

type object struct {
	Key   string `json:"key"`
	Bytes int64  `json:"bytes"`
	ETag  string `json:"etag"`
}

// change is a row as it is written: what is otherwise than in the row of the name Base.
type change struct {
	Name string         `json:"name"`
	Base string         `json:"base"`
	Row  map[string]any `json:"row"`
}

func (c *change) name() string { return c.Name }

func TestCompleteness(t *testing.T) {
	whole := map[string]map[string]any{}
	for _, c := range rows[change](t, "completeness.yaml") {
		whole[c.Name] = scenario.Merge(whole[c.Base], c.Row)
		t.Run(c.Name, func(t *testing.T) {
			var row complete
			decode(t, whole[c.Name], &row)
			want := row
			refs, texts := row.refs(t)
			row.Doubt, row.Verdict = row.judge(t, refs, texts, true)
			_, row.ByListing = row.judge(t, refs, texts, false)
			if diff := cmp.Diff(want, row); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// refs are the index objects as the manifest names them, and their bytes.
func (c *complete) refs(t *testing.T) (refs []checkpoint.IndexRef, texts map[string][]byte) {
	t.Helper()
	texts = map[string][]byte{}
	for _, key := range slices.Sorted(maps.Keys(c.Indexes)) {
		text, plain := c.Indexes[key].(string)
		texts[key] = []byte(text)
		if !plain {
			var err error
			if texts[key], err = json.Marshal(scenario.Merge(map[string]any{"schemaVersion": "1.0", "kind": "CheckpointIndex"}, c.Indexes[key].(map[string]any))); err != nil {
				t.Fatal(err)
			}
		}
		sum := sha256.Sum256(texts[key])
		ref := checkpoint.IndexRef{Key: key, Bytes: int64(len(texts[key])), ETag: "of-" + key, SHA256: hex.EncodeToString(sum[:])}
		named := c.Named[key]
		if named == false {
			continue
		}
		decode(t, named, &ref)
		refs = append(refs, ref)
	}
	return refs, texts
}

func (c *complete) judge(t *testing.T, refs []checkpoint.IndexRef, texts map[string][]byte, withIndexes bool) (doubt, verdict string) {
	t.Helper()
	m := checkpoint.Manifest{
		ID: "000001-000000000100-0a0b0c0d0e0f-0000000000000000", Attempt: 1, Step: 100,
		WorldSize: c.WorldSize, Objects: c.Objects, Bytes: c.Bytes, Indexes: refs,
	}
	judge := checkpoint.NewCompleteness(&m)
	for _, ref := range refs {
		why, gone := c.Gone[ref.Key]
		switch {
		case !withIndexes:
		case gone && why == "":
			judge.Missing(ref)
		case gone:
			judge.Unreadable(ref, why)
		default:
			judge.Index(ref, texts[ref.Key])
		}
	}
	if doubt := judge.Doubt(); doubt != "" {
		t.Error("there is doubt before anything is listed:", doubt)
	}
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		o := object{Key: key, Bytes: int64(len(texts[key])), ETag: "of-" + key}
		if c.Listed[key] != false {
			decode(t, c.Listed[key], &o)
			judge.Listed(o.Key, o.Bytes, o.ETag)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Listed)) {
		if _, index := texts[key]; !index {
			o := object{Key: key}
			decode(t, c.Listed[key], &o)
			judge.Listed(o.Key, o.Bytes, o.ETag)
		}
	}
	return judge.Doubt(), judge.Verdict()
}

// decode reads JSON values into out.
func decode(t *testing.T, value, out any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		t.Fatal(err)
	}
}
