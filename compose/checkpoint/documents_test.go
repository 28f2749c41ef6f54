package checkpoint_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/test/scenario"
)

// document is a row: the bytes of a document, and what is read from them or why they
// are refused.
type document struct {
	Name string `json:"name"`
	// Kind is manifest, start, progress, result, quarantine, index or id.
	Kind string `json:"kind"`
	// ID is what a manifest or a quarantine record is called; a manifest is called
	// after its bytes unless it is given. Attempt is what a record is about.
	ID      string `json:"id"`
	Attempt int32  `json:"attempt"`

	// The bytes: Text, or a file of testdata/formats; in which Replace[0] becomes
	// Replace[1], @ so many index objects, Cut bytes are left out at the end, and which
	// spaces fill up to Size.
	Text    string   `json:"text"`
	Format  string   `json:"format"`
	Replace []string `json:"replace"`
	Indexes int      `json:"indexes"`
	Cut     int      `json:"cut"`
	Size    int      `json:"size"`

	// Reads is what is read, without what is zero, or true; Reason only a manifest has.
	Reads   any    `json:"reads"`
	Reason  string `json:"reason"`
	Refused string `json:"refused"`
}

func (d *document) name() string { return d.Name }

func TestDocuments(t *testing.T) {
	for _, d := range rows[document](t, "documents-*.yaml") {
		t.Run(d.Name, func(t *testing.T) {
			got, want := *d, *d
			got.answer(t)
			var err error
			if want.Reads, err = scenario.Plain(d.Reads); err != nil {
				t.Fatal(err)
			}
			if want.Reads == true && got.Reads != nil {
				got.Reads = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// answer says what is read of the bytes.
func (d *document) answer(t *testing.T) {
	t.Helper()
	d.Reads, d.Reason, d.Refused = nil, "", ""
	value, err := d.read(d.bytes(t))
	if err != nil {
		d.Refused = err.Error()
		return
	}
	plain, err := scenario.Plain(value)
	if err != nil {
		t.Fatal(err)
	}
	d.Reads = withoutZeros(plain)
}

func (d *document) bytes(t *testing.T) []byte {
	t.Helper()
	data := []byte(d.Text)
	if d.Format != "" {
		var err error
		if data, err = os.ReadFile(filepath.Join("../../testdata/formats", d.Format)); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.Replace) == 2 {
		if !bytes.Contains(data, []byte(d.Replace[0])) {
			t.Fatalf("the document has no %s", d.Replace[0])
		}
		data = bytes.Replace(data, []byte(d.Replace[0]), []byte(d.Replace[1]), 1)
	}
	if d.Indexes > 0 {
		data = bytes.Replace(data, []byte("@"), indexRefs(d.Indexes), 1)
	}
	data = data[:len(data)-d.Cut]
	return append(data, strings.Repeat(" ", max(d.Size-len(data), 0))...)
}

func indexRefs(n int) []byte {
	var refs []string
	for i := range n {
		refs = append(refs, fmt.Sprintf(`{"key":"%d","bytes":1,"sha256":"%064d"}`, i, 0))
	}
	return []byte(strings.Join(refs, ","))
}

// read reads the document; a manifest never fails, and has a reason instead.
func (d *document) read(data []byte) (value any, err error) {
	switch d.Kind {
	case "manifest":
		id := d.ID
		if id == "" {
			sum := sha256.Sum256(data)
			id = "000003-000000001200-5f0c9a1be2d4-" + hex.EncodeToString(sum[:8])
		}
		m := checkpoint.ParseManifest(id, data)
		if m.Defect == nil {
			return m, nil
		}
		d.Reason = m.Defect.Reason
		named := checkpoint.NamedManifest(id)
		only := checkpoint.Manifest{ID: id, Attempt: named.Attempt, Step: named.Step, Defect: m.Defect}
		if !cmp.Equal(m, only) {
			return nil, fmt.Errorf("it carries more than its name, or less: %+v", m)
		}
		// The listing says when it was committed, before it is read.
		only.CommittedAt = time.Unix(1, 0)
		if late := only.WithDefect(m.Defect.Reason, m.Defect.Message); !cmp.Equal(late, only) {
			return nil, fmt.Errorf("it loses when it was committed: %+v", late)
		}
		return nil, fmt.Errorf("%s", strings.ReplaceAll(m.Defect.Message, id, "<id>"))
	case "start":
		return checkpoint.ParseStart(d.Attempt, data)
	case "progress":
		return checkpoint.ParseProgress(d.Attempt, data)
	case "result":
		return checkpoint.ParseResult(d.Attempt, data)
	case "quarantine":
		return checkpoint.ParseQuarantine(d.ID, data)
	case "index":
		return checkpoint.ParseIndex(data)
	case "id":
		attempt, step, nonce, hash, err := checkpoint.ParseID(d.ID)
		if err != nil && (attempt != 0 || step != 0) {
			return nil, fmt.Errorf("it is refused, and of attempt %d and step %d", attempt, step)
		}
		return map[string]any{"attempt": attempt, "step": step, "nonce": nonce, "hash": hash, "prefix": checkpoint.Prefix(attempt, step, nonce)}, err
	}
	return nil, fmt.Errorf("kind %q is not known", d.Kind)
}

// withoutZeros leaves out null, zeros, false and empty texts, objects, and the zero time.
func withoutZeros(value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return value
	}
	for key, below := range object {
		below = withoutZeros(below)
		object[key] = below
		switch text, _ := json.Marshal(below); string(text) {
		case "null", "0", "false", `""`, "{}", `"0001-01-01T00:00:00Z"`:
			delete(object, key)
		}
	}
	return object
}

// Every proper beginning of a manifest is refused: its bytes do not have the hash
// that its name says.
func TestEveryCutOfAManifestIsRefused(t *testing.T) {
	d := document{Format: "manifest.json"}
	data := d.bytes(t)
	sum := sha256.Sum256(data)
	id := "000003-000000001200-5f0c9a1be2d4-" + hex.EncodeToString(sum[:8])
	for n := range data {
		m := checkpoint.ParseManifest(id, data[:n])
		if m.Defect == nil || m.Defect.Reason != checkpoint.ReasonCorruptManifest || m.Attempt != 3 || m.Step != 1200 {
			t.Fatalf("cut after %d bytes: %+v", n, m)
		}
	}
}
