package trainer

import (
	"encoding/json"
	"regexp"
	"strconv"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/store"
)

// environment is what a pod's processes are told, docs/formats.md. It is never
// changed.
type environment struct {
	namespace, name, runID string
	attempt                int32
	storageURI             string
	restore                string
	worldSize              int32
	processes              int32
	first                  int32 // this pod's first rank
	podName, node          string
	grace                  time.Duration // from SIGTERM to SIGKILL
	interval               time.Duration
	identity               map[string]string
	prefix                 string // of the run's keys
}

// run names the run for a reading.
func (e *environment) run() catalog.Run {
	return catalog.Run{Namespace: e.namespace, Name: e.name, RunID: e.runID, Location: catalog.Location{URI: e.storageURI}}
}

func (e *environment) layout() checkpoint.Layout {
	return checkpoint.Layout{DP: e.worldSize, TP: 1, PP: 1, CP: 1, EP: 1, Accumulation: 1}
}

type environmentKey struct{}

// environmentOf reads what the pod's processes are told; nil when it is not started by
// RTJ: no container has RTJ_ATTEMPT.
func environmentOf(pod *apiserver.Object) *environment {
	return pod.Cached(environmentKey{}, func() any { return readEnvironment(pod) }).(*environment)
}

func readEnvironment(pod *apiserver.Object) *environment {
	values := map[string]string{}
	for _, item := range pod.List("spec", "containers") {
		container, _ := item.(map[string]any)
		variables, _ := container["env"].([]any)
		for _, item := range variables {
			variable, _ := item.(map[string]any)
			name, _ := variable["name"].(string)
			if _, twice := values[name]; !twice {
				values[name] = valueOf(pod, variable)
			}
		}
	}
	if values["RTJ_ATTEMPT"] == "" {
		return nil
	}
	e := &environment{
		namespace: values["RTJ_NAMESPACE"], name: values["RTJ_NAME"], runID: values["RTJ_RUN_ID"],
		attempt: number(values["RTJ_ATTEMPT"], 1), storageURI: values["RTJ_STORAGE_URI"], restore: values["RTJ_RESTORE"],
		worldSize: number(values["RTJ_WORLD_SIZE"], 1), processes: number(values["RTJ_PROCESSES_PER_POD"], 1),
		podName: pod.Name, node: pod.Text("spec", "nodeName"),
		grace:    seconds(values["RTJ_TERMINATION_GRACE_SECONDS"], 30*time.Second),
		interval: seconds(values["RTJ_CHECKPOINT_INTERVAL_SECONDS"], 10*time.Minute),
		identity: map[string]string{},
	}
	e.first = (number(values["RTJ_JOB_INDEX"], 0)*number(values["RTJ_PODS_PER_JOB"], 1) + number(values["RTJ_POD_INDEX"], 0)) * e.processes
	_ = json.Unmarshal([]byte(values["RTJ_IDENTITY"]), &e.identity)
	e.prefix = store.RunPrefix(e.storageURI, e.namespace, e.name, e.runID)
	return e
}

var labelField = regexp.MustCompile(`^metadata\.labels\['([^']+)'\]$`)

// valueOf is the value of a variable, also where it comes from the pod.
func valueOf(pod *apiserver.Object, variable map[string]any) string {
	if value, ok := variable["value"].(string); ok {
		return value
	}
	from, _ := variable["valueFrom"].(map[string]any)
	field, _ := from["fieldRef"].(map[string]any)
	path, _ := field["fieldPath"].(string)
	if label := labelField.FindStringSubmatch(path); label != nil {
		return pod.Label(label[1])
	}
	switch path {
	case "metadata.name":
		return pod.Name
	case "spec.nodeName":
		return pod.Text("spec", "nodeName")
	}
	return ""
}

func number(text string, otherwise int32) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return otherwise
	}
	return int32(n)
}

func seconds(text string, otherwise time.Duration) time.Duration {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return otherwise
	}
	return time.Duration(n * float64(time.Second))
}
