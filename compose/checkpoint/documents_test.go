package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const runID = "6d1f1f0e-8a51-4a39-9d2c-3f3a1c1a0001"

// sample reads a file that the Python code is tested against too.
func sample(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("../../testdata/formats/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// idFor is the id that a manifest of these bytes must have.
func idFor(attempt int32, step int64, nonce string, data []byte) string {
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%06d-%012d-%s-%s", attempt, step, nonce, hex.EncodeToString(sum[:8]))
}

func TestParseIDTakesAnIDApart(t *testing.T) {
	attempt, step, nonce, hash, err := ParseID("000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55")
	if err != nil || attempt != 3 || step != 1200 || nonce != "5f0c9a1be2d4" || hash != "9b1de02f6c7a8e55" {
		t.Fatal(attempt, step, nonce, hash, err)
	}
	if got := Prefix(attempt, step, nonce); got != "checkpoints/3/1200-5f0c9a1be2d4/" {
		t.Error(got)
	}
}

func TestParseIDRefuses(t *testing.T) {
	for id, why := range map[string]string{
		"":     "must be <attempt>",
		"last": "must be <attempt>",
		"3-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55":             "6 decimal digits",
		"000003-1200-5f0c9a1be2d4-9b1de02f6c7a8e55":                "12 decimal digits",
		"000003-00000000120x-5f0c9a1be2d4-9b1de02f6c7a8e55":        "12 decimal digits",
		"000003-000000001200-5F0C9A1BE2D4-9b1de02f6c7a8e55":        "nonce",
		"000003-000000001200-5f0c9a1be2d4-9b1d":                    "hash",
		"000000-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55":        "count from 1",
		"100000-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55":        "count from 1",
		"000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55-v1":     "must be <attempt>",
		"../000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55":     "6 decimal digits",
		"000003--00000001200-5f0c9a1be2d4-9b1de02f6c7a8e55":        "must be <attempt>",
		"000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55.backup": "hash",
	} {
		if _, _, _, _, err := ParseID(id); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: error %v, want one about %q", id, err, why)
		}
	}
}

func TestParseManifestReadsTheSample(t *testing.T) {
	data := sample(t, "manifest.json")
	id := idFor(3, 1200, "5f0c9a1be2d4", data)
	want := Manifest{
		ID: id, Attempt: 3, Step: 1200,
		RunID:     runID,
		Identity:  map[string]string{"codeVersion": "v7"},
		WorldSize: 2,
		Layout:    Layout{DP: 2, TP: 1, PP: 1, CP: 1, EP: 1, GlobalBatch: 64, Accumulation: 1},
		Components: map[string]Component{
			"data": {Reshard: "any", Complete: true}, "model": {Reshard: "any", Complete: true},
			"optimizer": {Reshard: "any", Complete: true}, "rng": {Reshard: "none", Complete: true},
		},
		Objects: 2, Bytes: 2048, Framework: "numpy", Format: "rtj-arrays/1", YieldID: 3,
		Indexes: []IndexRef{
			{Key: "00/r0-index.json", Bytes: 412, ETag: "0cc175b9c0f1b6a831c399e269772661",
				SHA256: "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
			{Key: "01/r1-index.json", Bytes: 412, ETag: "92eb5ffee6ae2fec3ad71c777531578f",
				SHA256: "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"},
		},
	}
	if diff := cmp.Diff(want, ParseManifest(id, data)); diff != "" {
		t.Error(diff)
	}
}

func TestParseManifestKeepsQuietAboutLaterFields(t *testing.T) {
	data := bytes.Replace(sample(t, "manifest.json"), []byte(`"1.0"`), []byte(`"1.7", "compression": {"zstd": 3}`), 1)
	if m := ParseManifest(idFor(3, 1200, "5f0c9a1be2d4", data), data); m.Defect != nil {
		t.Error(m.Defect)
	}
}

// Every proper beginning of a manifest is refused: its bytes do not have the
// hash that its name says.
func TestParseManifestRefusesEveryCut(t *testing.T) {
	data := sample(t, "manifest.json")
	id := idFor(3, 1200, "5f0c9a1be2d4", data)
	for n := range data {
		m := ParseManifest(id, data[:n])
		if m.Defect == nil || m.Defect.Reason != ReasonCorruptManifest || m.Attempt != 3 || m.Step != 1200 {
			t.Fatalf("cut after %d bytes: %+v", n, m)
		}
	}
}

func TestParseManifestRefuses(t *testing.T) {
	replaced := func(old, new string) func([]byte) []byte {
		return func(data []byte) []byte {
			if !bytes.Contains(data, []byte(old)) {
				panic("the sample has no " + old)
			}
			return bytes.Replace(data, []byte(old), []byte(new), 1)
		}
	}
	for _, c := range []struct {
		name    string
		change  func([]byte) []byte
		reason  string
		message string
	}{
		{"a later major version", replaced(`"1.0"`, `"2.0"`), ReasonUnknownVersion, "schemaVersion 2.0"},
		{"a later major version of another shape", func([]byte) []byte { return []byte(`{"schemaVersion":"3.1","kind":7e0,"step":"x"}`) }, ReasonUnknownVersion, "schemaVersion 3.1"},
		{"a version that is none", replaced(`"1.0"`, `"one"`), ReasonCorruptManifest, "<major>.<minor>"},
		{"no version", replaced(`"schemaVersion": "1.0",`, ``), ReasonCorruptManifest, "no schemaVersion"},
		{"another kind", replaced(`"CheckpointManifest"`, `"CheckpointIndex"`), ReasonCorruptManifest, `kind "CheckpointIndex"`},
		{"another attempt than its name", replaced(`"attempt": 3`, `"attempt": 4`), ReasonCorruptManifest, "attempt 4, the name says 3"},
		{"another step than its name", replaced(`"step": 1200`, `"step": 1300`), ReasonCorruptManifest, "step 1300, the name says 1200"},
		{"another nonce than its name", replaced(`"nonce": "5f0c9a1be2d4"`, `"nonce": "000000000000"`), ReasonCorruptManifest, "nonce"},
		{"another prefix than its own", replaced(`checkpoints/3/1200-`, `checkpoints/2/1200-`), ReasonCorruptManifest, "prefix"},
		{"no run", replaced(`"runID": "6d1f1f0e-8a51-4a39-9d2c-3f3a1c1a0001"`, `"runID": ""`), ReasonCorruptManifest, "names no run"},
		{"no ranks", replaced(`"worldSize": 2`, `"worldSize": 0`), ReasonCorruptManifest, "world size 0"},
		{"a negative degree", replaced(`"tp": 1`, `"tp": -1`), ReasonCorruptManifest, "tp=-1"},
		{"a step that is a string", replaced(`"step": 1200`, `"step": "1200"`), ReasonCorruptManifest, "step cannot be a string"},
		{"an index outside its prefix", replaced(`"00/r0-index.json"`, `"../r0-index.json"`), ReasonCorruptManifest, "not a relative key"},
		{"an index twice", replaced(`"01/r1-index.json"`, `"00/r0-index.json"`), ReasonCorruptManifest, "twice"},
		{"an index without a digest", replaced(`"sha256": "ca97`, `"sha256": "zz97`), ReasonCorruptManifest, "no SHA-256"},
		{"no index", func([]byte) []byte {
			return []byte(`{"schemaVersion":"1.0","kind":"CheckpointManifest","run":{"runID":"x"},"attempt":3,"step":1200,
				"nonce":"5f0c9a1be2d4","worldSize":2,"prefix":"checkpoints/3/1200-5f0c9a1be2d4/","indexes":[]}`)
		}, ReasonCorruptManifest, "0 index objects"},
		{"a negative number of objects", func([]byte) []byte {
			return []byte(`{"schemaVersion":"1.0","kind":"CheckpointManifest","run":{"runID":"x"},"attempt":3,"step":1200,
				"nonce":"5f0c9a1be2d4","worldSize":2,"prefix":"checkpoints/3/1200-5f0c9a1be2d4/","objects":-1,"bytes":1,
				"indexes":[{"key":"00/r0-index.json","bytes":1,"sha256":"` + strings.Repeat("0", 64) + `"}]}`)
		}, ReasonCorruptManifest, "counts -1 objects"},
		{"an index object of negative size", func([]byte) []byte {
			return []byte(`{"schemaVersion":"1.0","kind":"CheckpointManifest","run":{"runID":"x"},"attempt":3,"step":1200,
				"nonce":"5f0c9a1be2d4","worldSize":2,"prefix":"checkpoints/3/1200-5f0c9a1be2d4/","objects":1,"bytes":1,
				"indexes":[{"key":"00/r0-index.json","bytes":-1,"sha256":"` + strings.Repeat("0", 64) + `"}]}`)
		}, ReasonCorruptManifest, "has -1 bytes"},
		{"nothing at all", func([]byte) []byte { return nil }, ReasonCorruptManifest, "not JSON"},
		{"an array", func([]byte) []byte { return []byte(`[]`) }, ReasonCorruptManifest, "not JSON of a CheckpointManifest"},
		{"half of it, under a name that fits", func(data []byte) []byte { return data[:len(data)/2] }, ReasonCorruptManifest, "after byte"},
		{"more than 64 KiB", func(data []byte) []byte { return append(data, bytes.Repeat([]byte(" "), 64<<10)...) }, ReasonCorruptManifest, "at most 65536"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := c.change(bytes.Clone(sample(t, "manifest.json")))
			id := idFor(3, 1200, "5f0c9a1be2d4", data)
			m := ParseManifest(id, data)
			if m.Defect == nil || m.Defect.Reason != c.reason || !strings.Contains(m.Defect.Message, c.message) {
				t.Fatalf("defect %+v, want %s with %q", m.Defect, c.reason, c.message)
			}
			if want := (Manifest{ID: id, Attempt: 3, Step: 1200, Defect: m.Defect}); !cmp.Equal(want, m) {
				t.Error("a manifest with a defect carries more than its name:", cmp.Diff(want, m))
			}
		})
	}
}

func TestParseManifestRefusesANameThatIsNone(t *testing.T) {
	m := ParseManifest("last", sample(t, "manifest.json"))
	if m.Defect == nil || m.Defect.Reason != ReasonCorruptManifest || m.Attempt != 0 {
		t.Error(m)
	}
}

func at(s string) time.Time {
	when, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return when
}

func TestRecordsReadTheSamples(t *testing.T) {
	start, err := ParseStart(3, sample(t, "start.json"))
	check(t, start, err, &Start{
		Attempt: 3, WorldSize: 2, StartedAt: at("2026-03-01T09:40:00Z"),
		Layout:  Layout{DP: 2, TP: 1, PP: 1, CP: 1, EP: 1, GlobalBatch: 64, Accumulation: 1},
		Restore: &Restore{Checkpoint: "000002-000000000900-0a1b2c3d4e5f-1122334455667788", Attempt: 2, Step: 900},
	})

	progress, err := ParseProgress(3, sample(t, "progress.json"))
	first, acknowledged := at("2026-03-01T09:40:09Z"), at("2026-03-01T10:00:01Z")
	want := &Progress{
		Attempt: 3, Activity: "saving", Step: 1200, TotalSteps: new(int64(5000)), StepsPerSecond: new(2.5),
		FirstStepAt: &first, RestoreSeconds: new(4.2), UpdatedAt: at("2026-03-01T10:00:02Z"),
		LastSave: &Save{Checkpoint: "000003-000000001100-9e8d7c6b5a40-8877665544332211", Step: 1100, Seconds: 3.1, Bytes: 2048},
	}
	want.Yield = progress.Yield
	check(t, progress, err, want)
	if y := progress.Yield; y == nil || y.ID != 3 || !y.AcknowledgedAt.Equal(acknowledged) || *y.AgreedStep != 1200 {
		t.Error(y)
	}

	result, err := ParseResult(3, sample(t, "result.json"))
	check(t, result, err, &Result{
		Attempt: 3, Outcome: ResultYielded, Step: 1200, EndedAt: at("2026-03-01T10:00:06Z"),
		Checkpoint: "000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55",
		Message:    "yielded at step 1200 after Preempted; committed in 3.2 s",
	})

	failed, err := ParseResult(4, sample(t, "result-restore-failed.json"))
	check(t, failed, err, &Result{
		Attempt: 4, Outcome: ResultRestoreFailed, EndedAt: at("2026-03-01T10:20:06Z"),
		Message: "restore of 000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55 failed: 01/r1-0: CRC of model/weights is 00000000, the index says e8b7be43",
		RestoreFailure: &RestoreFailure{
			Checkpoint: "000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55", Cause: "checksumMismatch",
			Object: "checkpoints/3/1200-5f0c9a1be2d4/01/r1-0", Rank: 1, Node: "node-b",
		},
	})

	quarantine, err := ParseQuarantine("000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55", sample(t, "quarantine.json"))
	check(t, quarantine, err, &Quarantine{
		Checkpoint: "000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55", Cause: "checksumMismatch",
		Object: "checkpoints/3/1200-5f0c9a1be2d4/01/r1-0", Rank: 1, Node: "node-b",
		Message:    "CRC of model/weights is 00000000, the index says e8b7be43; read twice",
		RecordedAt: at("2026-03-01T10:20:06Z"),
	})

	index, err := ParseIndex(sample(t, "index.json"))
	check(t, index, err, &Index{
		Ranks:   []int32{0},
		Objects: []IndexObject{{Key: "00/r0-0", Bytes: 1024, ETag: "4a8a08f09d37b73795649038408b5f33"}},
	})
}

func check[T any](t *testing.T, got *T, err error, want *T) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRecordsRefuse(t *testing.T) {
	start := func(data string) error { _, err := ParseStart(3, []byte(data)); return err }
	progress := func(data string) error { _, err := ParseProgress(3, []byte(data)); return err }
	result := func(data string) error { _, err := ParseResult(3, []byte(data)); return err }
	quarantine := func(data string) error {
		_, err := ParseQuarantine("000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55", []byte(data))
		return err
	}
	index := func(data string) error { _, err := ParseIndex([]byte(data)); return err }
	for _, c := range []struct {
		name  string
		parse func(string) error
		data  string
		want  string
	}{
		{"a start record cut short", start, `{"schemaVersion":"1.0","kind":"AttemptStart","att`, "not JSON"},
		{"a start record of another attempt", start, `{"schemaVersion":"1.0","kind":"AttemptStart","attempt":4}`, "attempt 4, the name says 3"},
		{"a progress record where the start record should be", start, `{"schemaVersion":"1.0","kind":"AttemptProgress","attempt":3}`, "kind"},
		{"a start record whose restore point contradicts itself", start,
			`{"schemaVersion":"1.0","kind":"AttemptStart","attempt":3,"restore":{"checkpoint":"000002-000000000900-0a1b2c3d4e5f-1122334455667788","attempt":2,"step":901}}`, "step 901"},
		{"a start record whose restore point is no id", start,
			`{"schemaVersion":"1.0","kind":"AttemptStart","attempt":3,"restore":{"checkpoint":"latest","attempt":2,"step":900}}`, "not a checkpoint id"},
		{"a progress record of a later major version", progress, `{"schemaVersion":"2.0","kind":"AttemptProgress","attempt":3}`, "schemaVersion 2.0"},
		{"a negative step", progress, `{"schemaVersion":"1.0","kind":"AttemptProgress","attempt":3,"step":-1}`, "negative"},
		{"an outcome that is not known", result, `{"schemaVersion":"1.0","kind":"AttemptResult","attempt":3,"outcome":"exploded"}`, `"exploded"`},
		{"a restore failure without its cause", result, `{"schemaVersion":"1.0","kind":"AttemptResult","attempt":3,"outcome":"restoreFailed"}`, "no restoreFailure"},
		{"a quarantine record about another checkpoint", quarantine, `{"schemaVersion":"1.0","kind":"Quarantine","checkpoint":"x"}`, `"x"`},
		{"an index of no rank", index, `{"schemaVersion":"1.0","kind":"CheckpointIndex","ranks":[],"objects":[]}`, "no rank"},
		{"an index that leaves its prefix", index, `{"schemaVersion":"1.0","kind":"CheckpointIndex","ranks":[0],"objects":[{"key":"../x","bytes":1}]}`, "../x"},
		{"an index of a negative rank", index, `{"schemaVersion":"1.0","kind":"CheckpointIndex","ranks":[0,-1],"objects":[]}`, "a negative rank"},
		{"an index of an object of negative size", index, `{"schemaVersion":"1.0","kind":"CheckpointIndex","ranks":[0],"objects":[{"key":"x","bytes":-1}]}`, "-1 bytes"},
		{"an index with a key that is too long", index, `{"schemaVersion":"1.0","kind":"CheckpointIndex","ranks":[0],"objects":[{"key":"` + strings.Repeat("x", 1025) + `","bytes":1}]}`, "names an object"},
		{"an index with a key without a name", index, `{"schemaVersion":"1.0","kind":"CheckpointIndex","ranks":[0],"objects":[{"key":"","bytes":1}]}`, "names an object"},
		{"an index with a backslash in a key", index, `{"schemaVersion":"1.0","kind":"CheckpointIndex","ranks":[0],"objects":[{"key":"a\\b","bytes":1}]}`, "names an object"},
		{"an index that is too large", index, strings.Repeat(" ", MaxIndexBytes+1), "at most"},
		{"a record that is too large", progress, strings.Repeat(" ", MaxDocumentBytes+1), "at most 65536"},
		{"a progress record cut short", progress, `{"schemaVersion":"1.0","kind":"Attem`, "not JSON"},
		{"a result record cut short", result, `{"schemaVersion":"1.0","kind":"Attem`, "not JSON"},
		{"a quarantine record cut short", quarantine, `{"schemaVersion":"1.0","kind":"Quar`, "not JSON"},
		{"a progress record of another attempt", progress, `{"schemaVersion":"1.0","kind":"AttemptProgress","attempt":2}`, "attempt 2, the name says 3"},
		{"a result record of another attempt", result, `{"schemaVersion":"1.0","kind":"AttemptResult","attempt":2,"outcome":"failed"}`, "attempt 2, the name says 3"},
		{"a result at a negative step", result, `{"schemaVersion":"1.0","kind":"AttemptResult","attempt":3,"outcome":"failed","step":-1}`, "negative number of steps"},
		{"a result that lost a negative number of steps", result, `{"schemaVersion":"1.0","kind":"AttemptResult","attempt":3,"outcome":"failed","lostSteps":-1}`, "negative number of steps"},
		{"nothing", progress, ``, "not JSON"},
		{"null", result, `null`, "no schemaVersion"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.parse(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// Exactly as large as is allowed is not too large.
func TestDocumentsAsLargeAsIsAllowedAreRead(t *testing.T) {
	for size, parse := range map[int]func([]byte) error{
		MaxDocumentBytes: func(data []byte) error { _, err := ParseProgress(3, data); return err },
		MaxIndexBytes:    func(data []byte) error { _, err := ParseIndex(data); return err },
	} {
		document := `{"schemaVersion":"1.0","kind":"AttemptProgress","attempt":3,"step":0}`
		if size == MaxIndexBytes {
			document = `{"schemaVersion":"1.0","kind":"CheckpointIndex","ranks":[0],"objects":[{"key":"` + strings.Repeat("x", 1024) + `","bytes":0}]}`
		}
		if err := parse([]byte(document + strings.Repeat(" ", size-len(document)))); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestALongResultMessageIsCutNotRefused(t *testing.T) {
	r, err := ParseResult(3, []byte(`{"schemaVersion":"1.0","kind":"AttemptResult","attempt":3,"outcome":"failed","message":"`+strings.Repeat("é", 1000)+`"}`))
	if err != nil || len(r.Message) > 1024 || !strings.HasSuffix(r.Message, "é...") {
		t.Error(err, r)
	}
}
