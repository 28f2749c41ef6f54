package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rtj.dev/rtj/test/scenario"
)

// job is what `apply` applies, with the API server's defaults.
const job = `
apiVersion: training.rtj.dev/v1beta1
kind: ResumableTrainingJob
metadata: {name: llama, namespace: team-a}
spec:
  suspend: false
  queueName: team-a
  trainer: {processesPerPod: 2}
  template:
    metadata: {}
    spec:
      replicatedJobs:
      - name: workers
        replicas: 1
        template:
          spec:
            parallelism: 2
            completions: 2
            completionMode: Indexed
            backoffLimit: 0
            template:
              spec:
                restartPolicy: Never
                containers:
                - name: train
                  image: registry.example/llama:1
                  command: [rtj-run, python, train.py]
                  resources: {requests: {cpu: "1", example.com/gpu: "1"}, limits: {example.com/gpu: "1"}}
  identity: {}
  checkpoint:
    storage: {uri: s3://checkpoints/team-a}
    interval: 10m
    retention: {keepLast: 3}
  yield: {gracePeriod: 5m, forceAfter: 10m}
  resume: {compatibility: {worldSize: Reshard, identity: Match}, onNone: Wait}
  failurePolicy: {maxFailures: 3, backoff: 10s}
  startup: {deadline: 15m}
`

const (
	queueName    = "team-a"
	clusterQueue = "cluster"
)

// setting is what administrators have made.
var setting = []string{`
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
`, `
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team-a, namespace: team-a}
spec: {clusterQueue: cluster}
`, `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cluster}
spec:
  queueingStrategy: BestEffortFIFO
  stopPolicy: None
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu, example.com/gpu]
    flavors:
    - name: gpu
      resources: [{name: cpu, nominalQuota: "100"}, {name: example.com/gpu, nominalQuota: "100"}]
`, `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gpu}
spec: {nodeLabels: {example.com/pool: gpu}}
`, `
apiVersion: v1
kind: Node
metadata: {name: node-a, labels: {example.com/pool: gpu}}
`, `
apiVersion: v1
kind: Node
metadata: {name: node-b, labels: {example.com/pool: gpu}}
`}

// verbApply applies a job, with changes of its spec by path:
//
//	apply failurePolicy.maxFailures=1
func (w *world) verbApply(c *command) error {
	if w.job() != nil {
		return fmt.Errorf("there is a job; change it with rtj")
	}
	body, err := scenario.Parse([]byte(job))
	if err != nil {
		return err
	}
	if err := w.setSpec(below(body, "spec"), c); err != nil {
		return err
	}
	if _, err := w.api.Create(byHand, copyOf(body)); err != nil {
		return err
	}
	for _, text := range setting {
		o, err := scenario.Parse([]byte(text))
		if err != nil {
			return err
		}
		if _, err := w.api.Create("administrator", o); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	// Kueue says of the queues that they are active.
	return w.kueue.Settle()
}

// verbRTJ edits the spec of the job by path:
//
//	rtj suspend=true
//	rtj template.spec.replicatedJobs[0].replicas=2
func (w *world) verbRTJ(c *command) error {
	job := w.job()
	if job == nil {
		return fmt.Errorf("there is no job")
	}
	spec := copyOf(job.Body["spec"].(object))
	if err := w.setSpec(spec, c); err != nil {
		return err
	}
	_, err := w.api.Update(byHand, job, "", func(body map[string]any) { body["spec"] = copyOf(spec) })
	return err
}

func (w *world) setSpec(spec object, c *command) error {
	for _, path := range slices.Sorted(maps.Keys(c.pairs)) {
		value, err := c.value(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if text, ok := value.(string); ok && w.checkpoints[text] != "" {
			value = w.checkpoints[text]
		}
		if err := set(spec, path, value); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// set sets a field by a path such as a.b[0].c.
func set(o object, path string, value any) error {
	key, rest, more := strings.Cut(path, ".")
	name, index, listed := strings.Cut(strings.TrimSuffix(key, "]"), "[")
	if !listed {
		if !more {
			o[name] = value
			return nil
		}
		return set(below(o, name), rest, value)
	}
	list, _ := o[name].([]any)
	var i int
	if _, err := fmt.Sscanf(index, "%d", &i); err != nil || i < 0 || i >= len(list) {
		return fmt.Errorf("%s has no item %s", name, index)
	}
	if !more {
		list[i] = value
		return nil
	}
	item, ok := list[i].(object)
	if !ok {
		return fmt.Errorf("%s is no object", key)
	}
	return set(item, rest, value)
}
