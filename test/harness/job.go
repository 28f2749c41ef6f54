package harness

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/api/v1beta1"
)

var jobs = v1beta1.GroupVersion.WithResource(v1beta1.Resource)

// Job describes a ResumableTrainingJob that trains examples/numpy. Zero values
// mean what the comments say.
type Job struct {
	Name string
	// Pods, each with one rank and one GPU; 0: two.
	Pods int
	// Steps of the whole training; 0: 100.
	Steps int
	// StepTime is how long one step takes; 0: 50 ms.
	StepTime time.Duration
	// Seed of the training; 0: 1.
	Seed int
	// Interval between periodic checkpoints; 0: an hour, so there are none.
	Interval time.Duration
	// Grace is the budget of a yield; 0: 20 s.
	Grace time.Duration
	// TerminationGrace of the pods, in whole seconds; 0: 10 s.
	TerminationGrace time.Duration
	// Priority class; empty: none.
	Priority string
	// Env of the trainer beside what the fields above say: its faults.
	Env map[string]string
	// Edit changes the object before it is created.
	Edit func(*unstructured.Unstructured)
}

// Object is the job as a user would write it.
func (n *Namespace) Object(j Job) *unstructured.Unstructured {
	env := map[string]string{
		"TRAIN_STEPS":        strconv.Itoa(or(j.Steps, 100)),
		"TRAIN_STEP_SECONDS": strconv.FormatFloat(or(j.StepTime, 50*time.Millisecond).Seconds(), 'f', -1, 64),
		"TRAIN_SEED":         strconv.Itoa(or(j.Seed, 1)),
		"PYTHONUNBUFFERED":   "1",
	}
	maps.Copy(env, j.Env)
	var variables []any
	for _, name := range slices.Sorted(maps.Keys(env)) {
		variables = append(variables, map[string]any{"name": name, "value": env[name]})
	}
	pods := int64(or(j.Pods, 2))
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": v1beta1.Kind,
		"metadata": map[string]any{"name": j.Name, "namespace": n.Name},
		"spec": map[string]any{
			"queueName": QueueName,
			"checkpoint": map[string]any{
				"interval": or(j.Interval, time.Hour).String(),
				"storage": map[string]any{
					"uri": n.StorageURI(), "endpoint": n.S3.Endpoint, "region": n.S3.Region,
					"credentials": map[string]any{"secretName": SecretName},
				},
			},
			"yield": map[string]any{"gracePeriod": or(j.Grace, 20*time.Second).String()},
			"template": map[string]any{"spec": map[string]any{"replicatedJobs": []any{map[string]any{
				"name": "worker",
				"template": map[string]any{"spec": map[string]any{
					"parallelism": pods, "completions": pods,
					"template": map[string]any{"spec": map[string]any{
						"terminationGracePeriodSeconds": int64(or(j.TerminationGrace, 10*time.Second) / time.Second),
						"containers": []any{map[string]any{
							"name": "train", "image": "python",
							"command":   []any{"rtj-run", "--", "python", n.Trainer()},
							"env":       variables,
							"resources": map[string]any{"limits": map[string]any{GPU: "1"}},
						}},
					}},
				}},
			}}}},
		},
	}}
	if j.Priority != "" {
		_ = unstructured.SetNestedField(u.Object, j.Priority, "spec", "priorityClassName")
	}
	if j.Edit != nil {
		j.Edit(u)
	}
	return u
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// Trainer is the training script, which is on the nodes at the path that it has here.
func (c *Cluster) Trainer() string {
	return filepath.Join(c.Options.Root, "examples", "numpy", "train.py")
}

// StorageURI is where the namespace's jobs keep their checkpoints.
func (n *Namespace) StorageURI() string { return "s3://" + n.S3.Bucket + "/" + storePrefix }

const storePrefix = "runs"

// Create makes the job.
func (n *Namespace) Create(ctx context.Context, j Job) error {
	_, err := n.Dynamic.Resource(jobs).Namespace(n.Name).Create(ctx, n.Object(j), metav1.CreateOptions{})
	return err
}

// PatchJob changes a job by a merge patch.
func (n *Namespace) PatchJob(ctx context.Context, name, patch string) error {
	_, err := n.Dynamic.Resource(jobs).Namespace(n.Name).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// EditJob changes a job as `kubectl edit` does: read, change, update.
func (n *Namespace) EditJob(ctx context.Context, name string, edit func(*unstructured.Unstructured)) error {
	for {
		u, err := n.Dynamic.Resource(jobs).Namespace(n.Name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(u)
		if _, err = n.Dynamic.Resource(jobs).Namespace(n.Name).Update(ctx, u, metav1.UpdateOptions{}); !conflict(err) {
			return err
		}
	}
}

// DeleteJob deletes a job in the background, as kubectl does.
func (n *Namespace) DeleteJob(ctx context.Context, name string) error {
	background := metav1.DeletePropagationBackground
	return n.Dynamic.Resource(jobs).Namespace(n.Name).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
}

// Job returns the job as it is.
func (n *Namespace) Job(ctx context.Context, name string) (*v1beta1.ResumableTrainingJob, error) {
	u, err := n.Dynamic.Resource(jobs).Namespace(n.Name).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	j := &v1beta1.ResumableTrainingJob{}
	return j, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, j)
}

// SetEnv changes a variable of the trainer in a job's template.
func SetEnv(u *unstructured.Unstructured, name, value string) {
	editContainer(u, func(container map[string]any) {
		env, _ := container["env"].([]any)
		for _, variable := range env {
			if v := variable.(map[string]any); v["name"] == name {
				v["value"] = value
				return
			}
		}
		container["env"] = append(env, map[string]any{"name": name, "value": value})
	})
}

// SetPods changes the number of pods in a job's template.
func SetPods(u *unstructured.Unstructured, pods int) {
	spec := workerSpec(u)
	spec["parallelism"], spec["completions"] = int64(pods), int64(pods)
}

func editContainer(u *unstructured.Unstructured, edit func(map[string]any)) {
	pod := workerSpec(u)["template"].(map[string]any)["spec"].(map[string]any)
	edit(pod["containers"].([]any)[0].(map[string]any))
}

// workerSpec is the Job spec of the only replicatedJob, in place.
func workerSpec(u *unstructured.Unstructured) map[string]any {
	template := u.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	worker := template["replicatedJobs"].([]any)[0].(map[string]any)
	return worker["template"].(map[string]any)["spec"].(map[string]any)
}

// SetCommand changes the trainer's command in a job's template.
func SetCommand(u *unstructured.Unstructured, command ...string) {
	editContainer(u, func(container map[string]any) {
		var all []any
		for _, word := range command {
			all = append(all, word)
		}
		container["command"] = all
	})
}
