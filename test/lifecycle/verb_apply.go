package lifecycle

import (
	"fmt"
	"strings"

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

// queues are what Kueue has for it.
var queues = []string{`
kind: LocalQueue
metadata: {name: team-a}
spec: {clusterQueue: cluster}
status: {conditions: [{type: Active, status: "True", reason: Ready}]}
`, `
kind: ClusterQueue
metadata: {name: cluster}
spec: {}
status: {conditions: [{type: Active, status: "True", reason: Ready}]}
`, `
kind: ResourceFlavor
metadata: {name: gpu}
spec: {nodeLabels: {example.com/pool: gpu}}
`}

// verbApply applies a job, with changes of its spec by path:
//
//	apply failurePolicy.maxFailures=1
func (w *world) verbApply(c *command) error {
	if w.parent != nil {
		return fmt.Errorf("there is a job; change it with rtj")
	}
	parent, err := scenario.Parse([]byte(job))
	if err != nil {
		return err
	}
	for _, text := range queues {
		o, err := scenario.Parse([]byte(text))
		if err != nil {
			return err
		}
		w.related[id(o)] = o
	}
	w.parent = parent
	if err := w.setSpec(c); err != nil {
		return err
	}
	w.create(w.parent)
	return nil
}

// verbRTJ edits the spec of the job by path:
//
//	rtj suspend=true
//	rtj template.spec.replicatedJobs[0].replicas=2
func (w *world) verbRTJ(c *command) error {
	if w.parent == nil {
		return fmt.Errorf("there is no job")
	}
	if err := w.setSpec(c); err != nil {
		return err
	}
	generation, _ := metadata(w.parent)["generation"].(int64)
	metadata(w.parent)["generation"] = generation + 1
	w.touch(w.parent)
	return nil
}

func (w *world) setSpec(c *command) error {
	for path := range c.pairs {
		value, err := c.value(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := set(below(w.parent, "spec"), path, value); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	// Numbers as the API machinery has them.
	w.parent = copyOf(w.parent)
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
