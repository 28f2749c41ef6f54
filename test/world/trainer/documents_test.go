package trainer

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/compose/checkpoint"
)

// example is a document of testdata/formats without its white space. The SDK's tests
// write the same.
func example(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("../../../testdata/formats/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := json.Compact(&text, data); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func at(clock string) time.Time {
	when, err := time.Parse(time.RFC3339, "2026-03-01T"+clock+"Z")
	if err != nil {
		panic(err)
	}
	return when
}

// The documents are the examples of docs/formats.md, byte for byte: same fields, same
// order, nothing more.
func TestDocumentsAreTheExamples(t *testing.T) {
	const restored = "000002-000000000900-0a1b2c3d4e5f-1122334455667788"
	const yielded = "000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55"
	const mismatch = "CRC of model/weights is 00000000, the index says e8b7be43"
	layout := checkpoint.Layout{DP: 2, TP: 1, PP: 1, CP: 1, EP: 1, GlobalBatch: 64, Accumulation: 1}
	total, rate, restoreTook, first, acknowledged, agreed := int64(5000), 2.5, 4.2, at("09:40:09"), at("10:00:01"), int64(1200)
	progress := &checkpoint.Progress{
		Attempt: 3, Activity: "saving", Step: 1200, TotalSteps: &total, StepsPerSecond: &rate, FirstStepAt: &first, RestoreSeconds: &restoreTook,
		LastSave:  &checkpoint.Save{Checkpoint: "000003-000000001100-9e8d7c6b5a40-8877665544332211", Step: 1100, Seconds: 3.1, Bytes: 2048},
		UpdatedAt: at("10:00:02"),
	}
	progress.Yield = new(struct {
		ID             int32      `json:"id"`
		AcknowledgedAt *time.Time `json:"acknowledgedAt"`
		AgreedStep     *int64     `json:"agreedStep"`
	})
	progress.Yield.ID, progress.Yield.AcknowledgedAt, progress.Yield.AgreedStep = 3, &acknowledged, &agreed
	checkpointOf := func(id string) *string { return &id }
	anything := checkpoint.Component{Reshard: "any", Complete: true}

	for name, document := range map[string]any{
		"start.json": startDocument{ofKind("AttemptStart"), &checkpoint.Start{
			Attempt: 3, Restore: &checkpoint.Restore{Checkpoint: restored, Attempt: 2, Step: 900}, WorldSize: 2, Layout: layout, StartedAt: at("09:40:00"),
		}},
		"progress.json": json.RawMessage(encodeProgress(progress)),
		"result.json": resultDocument{
			head: ofKind("AttemptResult"), Attempt: 3, Outcome: "yielded", Step: 1200, Checkpoint: checkpointOf(yielded),
			Message: "yielded at step 1200 after Preempted; committed in 3.2 s", EndedAt: at("10:00:06"),
		},
		"result-restore-failed.json": resultDocument{
			head: ofKind("AttemptResult"), Attempt: 4, Outcome: "restoreFailed",
			Message:        "restore of " + yielded + " failed: 01/r1-0: " + mismatch,
			RestoreFailure: &checkpoint.RestoreFailure{Checkpoint: yielded, Cause: "checksumMismatch", Object: "checkpoints/3/1200-5f0c9a1be2d4/01/r1-0", Rank: 1, Node: "node-b"},
			EndedAt:        at("10:20:06"),
		},
		"quarantine.json": quarantineDocument{ofKind("Quarantine"), &checkpoint.Quarantine{
			Checkpoint: yielded, Cause: "checksumMismatch", Object: "checkpoints/3/1200-5f0c9a1be2d4/01/r1-0", Rank: 1, Node: "node-b",
			Message: mismatch + "; read twice", RecordedAt: at("10:20:06"),
		}},
		"index.json": indexDocument{ofKind("CheckpointIndex"), []int32{0}, []indexedObject{{
			Key: "00/r0-0", Bytes: 1024, ETag: "4a8a08f09d37b73795649038408b5f33", Items: []indexedItem{
				{Component: "model", Name: "weights", Bytes: 800, CRC: "crc32:e8b7be43", DType: "<f8", Shape: []int{10, 10}},
				{Component: "rng", Name: "state", Offset: 800, Bytes: 224, CRC: "crc32:71beeff9"},
			},
		}}},
		"manifest.json": manifestDocument{
			head: ofKind("CheckpointManifest"), Run: runDocument{"team-a", "llama", "6d1f1f0e-8a51-4a39-9d2c-3f3a1c1a0001"},
			Identity: map[string]string{"codeVersion": "v7"}, Attempt: 3, Step: 1200, Nonce: "5f0c9a1be2d4", SavedAt: at("10:00:05"), WorldSize: 2, Layout: layout,
			Components: map[string]checkpoint.Component{"data": anything, "model": anything, "optimizer": anything, "rng": {Reshard: "none", Complete: true}},
			Prefix:     checkpoint.Prefix(3, 1200, "5f0c9a1be2d4"),
			Indexes: []checkpoint.IndexRef{
				{Key: indexKey(0), Bytes: 412, ETag: "0cc175b9c0f1b6a831c399e269772661", SHA256: "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
				{Key: indexKey(1), Bytes: 412, ETag: "92eb5ffee6ae2fec3ad71c777531578f", SHA256: "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"},
			},
			Objects: 2, Bytes: 2048, Framework: "numpy", Format: "rtj-arrays/1", YieldID: 3,
		},
	} {
		// encoding/json writes < as an escape; the bytes mean the same.
		got := bytes.ReplaceAll(encode(document), []byte(`\u003c`), []byte("<"))
		if diff := cmp.Diff(string(example(t, name)), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The quick encoding of progress is that of encoding/json.
func TestProgressIsEncodedAsJSON(t *testing.T) {
	first, steps, slow, fast := at("09:40:09").Add(123*time.Millisecond), int64(7), 3e-7, 1e22
	for _, p := range []checkpoint.Progress{
		{},
		{Attempt: 2, Activity: `a "quoted" <one>`, Step: -1, UpdatedAt: first.In(time.FixedZone("", 3600))},
		{TotalSteps: &steps, StepsPerSecond: &slow, RestoreSeconds: &fast, FirstStepAt: &first, LastSave: &checkpoint.Save{Checkpoint: `"<`, Step: 3, Seconds: 0.25, Bytes: 1 << 40}},
	} {
		want := encode(struct {
			head
			*checkpoint.Progress
		}{ofKind("AttemptProgress"), &p})
		if diff := cmp.Diff(string(want), string(encodeProgress(&p))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// What asks for a yield is read from the examples as the SDK reads it: of another
// attempt, or empty, it asks for nothing.
func TestRequestsAreReadFromTheExamples(t *testing.T) {
	want := &request{id: 3, cause: "Preempted", deadline: at("10:05:00")}
	for name, kind := range map[string]string{"control.json": kindControl, "notice.json": kindNotice} {
		text := string(example(t, name))
		if got := readRequest(text, kind, 3); got == nil || *got != *want {
			t.Errorf("%s: %+v", name, got)
		}
		if got := readRequest(text, kind, 4); got != nil {
			t.Errorf("%s is not of attempt 4: %+v", name, got)
		}
	}
	if readRequest("", kindNotice, 3) != nil || readRequest(`{"schemaVersion":"1.0","kind":"Control","attempt":3,"yield":null}`, kindControl, 3) != nil {
		t.Error("nobody asked")
	}
}
