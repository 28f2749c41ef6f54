package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"rtj.dev/rtj/api/v1beta1"
)

// The harness reads the store with eyes of its own, not with the controller's
// code: docs/formats.md says what is there.

// Progress is what an attempt's workers reported last.
type Progress struct {
	Activity    string     `json:"activity"`
	Step        int64      `json:"step"`
	FirstStepAt *time.Time `json:"firstStepAt"`
	Yield       *struct {
		ID             int32      `json:"id"`
		AcknowledgedAt *time.Time `json:"acknowledgedAt"`
		AgreedStep     *int64     `json:"agreedStep"`
	} `json:"yield"`
}

// Result is an attempt's last word.
type Result struct {
	Outcome    string  `json:"outcome"`
	Step       int64   `json:"step"`
	LostSteps  int64   `json:"lostSteps"`
	Checkpoint *string `json:"checkpoint"`
	Message    string  `json:"message"`
}

// StartRecord is how an attempt began.
type StartRecord struct {
	WorldSize int `json:"worldSize"`
	Restore   *struct {
		Checkpoint string `json:"checkpoint"`
		Attempt    int32  `json:"attempt"`
		Step       int64  `json:"step"`
	} `json:"restore"`
}

// Manifest is a checkpoint by its name.
type Manifest struct {
	ID      string
	Attempt int32
	Step    int64
}

// RunPrefix is where everything of a run is in the bucket.
func (n *Namespace) RunPrefix(job *v1beta1.ResumableTrainingJob) string {
	run := job.Annotations[v1beta1.AnnotationRunID]
	if run == "" {
		run = string(job.UID)
	}
	return fmt.Sprintf("%s/%s/%s/%s/", storePrefix, job.Namespace, job.Name, run)
}

// Progress of an attempt; nil if there is no record.
func (n *Namespace) Progress(ctx context.Context, job *v1beta1.ResumableTrainingJob, attempt int32) (*Progress, error) {
	return record[Progress](ctx, n, job, fmt.Sprintf("attempts/%d/progress.json", attempt))
}

// Result of an attempt; nil if there is no record.
func (n *Namespace) Result(ctx context.Context, job *v1beta1.ResumableTrainingJob, attempt int32) (*Result, error) {
	return record[Result](ctx, n, job, fmt.Sprintf("attempts/%d/result.json", attempt))
}

// Started is the start record of an attempt; nil if there is none.
func (n *Namespace) Started(ctx context.Context, job *v1beta1.ResumableTrainingJob, attempt int32) (*StartRecord, error) {
	return record[StartRecord](ctx, n, job, fmt.Sprintf("attempts/%d/start.json", attempt))
}

func record[T any](ctx context.Context, n *Namespace, job *v1beta1.ResumableTrainingJob, key string) (*T, error) {
	data, err := n.Read(ctx, n.RunPrefix(job)+key)
	if err != nil || data == nil {
		return nil, err
	}
	var r T
	return &r, json.Unmarshal(data, &r)
}

// Read returns an object of the bucket; nil if it does not exist.
func (c *Cluster) Read(ctx context.Context, key string) ([]byte, error) {
	object, err := c.Store.GetObject(ctx, c.S3.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer object.Close()
	data, err := io.ReadAll(object)
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil, nil
	}
	return data, err
}

// Write stores an object in the bucket.
func (c *Cluster) Write(ctx context.Context, key string, data []byte) error {
	_, err := c.Store.PutObject(ctx, c.S3.Bucket, key, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{})
	return err
}

// Remove deletes an object of the bucket.
func (c *Cluster) Remove(ctx context.Context, key string) error {
	return c.Store.RemoveObject(ctx, c.S3.Bucket, key, minio.RemoveObjectOptions{})
}

// List returns the keys below a prefix of the bucket.
func (c *Cluster) List(ctx context.Context, prefix string) ([]string, error) {
	var keys []string
	for object := range c.Store.ListObjects(ctx, c.S3.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if object.Err != nil {
			return nil, object.Err
		}
		keys = append(keys, object.Key)
	}
	slices.Sort(keys)
	return keys, nil
}

var manifestName = regexp.MustCompile(`manifests/((\d{6,})-(\d{12,})-[0-9a-f]{12}-[0-9a-f]{16})\.json$`)

// Manifests of a run, by attempt and step.
func (n *Namespace) Manifests(ctx context.Context, job *v1beta1.ResumableTrainingJob) ([]Manifest, error) {
	keys, err := n.List(ctx, n.RunPrefix(job)+"manifests/")
	if err != nil {
		return nil, err
	}
	var all []Manifest
	for _, key := range keys {
		if m := manifestName.FindStringSubmatch(key); m != nil {
			attempt, _ := strconv.ParseInt(m[2], 10, 32)
			step, _ := strconv.ParseInt(m[3], 10, 64)
			all = append(all, Manifest{ID: m[1], Attempt: int32(attempt), Step: step})
		}
	}
	return all, nil
}

// Loss is one point of a loss curve, to the last bit.
type Loss struct {
	Step int
	// Hex is the value as Python's float.hex() writes it.
	Hex string
}

// Losses are what an attempt of examples/numpy published.
func (n *Namespace) Losses(ctx context.Context, job *v1beta1.ResumableTrainingJob, attempt int32) ([]Loss, error) {
	data, err := n.Read(ctx, fmt.Sprintf("%sextra/%d/losses.txt", n.RunPrefix(job), attempt))
	if err != nil {
		return nil, err
	}
	return ParseLosses(string(data))
}

// ParseLosses reads losses.txt of examples/numpy.
func ParseLosses(content string) ([]Loss, error) {
	var losses []Loss
	for line := range strings.Lines(content) {
		var l Loss
		if _, err := fmt.Sscanf(line, "%d %s", &l.Step, &l.Hex); err != nil {
			return nil, fmt.Errorf("losses.txt: line %q: %w", line, err)
		}
		losses = append(losses, l)
	}
	return losses, nil
}

// Curve is the loss curve of a whole run: each step as the newest attempt made
// it. It reports steps that two attempts made with different results.
func (n *Namespace) Curve(ctx context.Context, job *v1beta1.ResumableTrainingJob) ([]Loss, error) {
	byStep := map[int]string{}
	for attempt := int32(1); attempt <= job.Status.Attempt; attempt++ {
		losses, err := n.Losses(ctx, job, attempt)
		if err != nil {
			return nil, err
		}
		for _, l := range losses {
			if old, ok := byStep[l.Step]; ok && old != l.Hex {
				return nil, fmt.Errorf("step %d was made again in attempt %d and gave %s instead of %s", l.Step, attempt, l.Hex, old)
			}
			byStep[l.Step] = l.Hex
		}
	}
	curve := make([]Loss, 0, len(byStep))
	for step, value := range byStep {
		curve = append(curve, Loss{step, value})
	}
	slices.SortFunc(curve, func(a, b Loss) int { return a.Step - b.Step })
	return curve, nil
}

// SameCurve returns nil if both curves have the same steps, 1 to the last, and
// are equal to the last bit; else what is the first difference.
func SameCurve(want, got []Loss) error {
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got) || got[i].Step != i+1:
			return fmt.Errorf("step %d is missing", i+1)
		case i >= len(want):
			return fmt.Errorf("step %d is more than the reference has", got[i].Step)
		case want[i] != got[i]:
			return fmt.Errorf("the loss of step %d is %s, uninterrupted it is %s", got[i].Step, got[i].Hex, want[i].Hex)
		}
	}
	return nil
}
