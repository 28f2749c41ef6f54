// Package benchmark makes the input of benchmarks: a job that has run for a while.
package benchmark

import (
	"encoding/json"
	"fmt"
	"strings"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/test/lifecycle"
	"rtj.dev/rtj/test/scenario"
)

// The size of the running job: one JobSet with so many Jobs, each pod template
// with so many variables, and so many checkpoints in the store.
const (
	Jobs        = 8
	EnvVars     = 20
	Checkpoints = 64
)

// Running is a job whose first attempt trains, as it is seen in steady state: one
// Workload, one JobSet, the control document, the Jobs with their templates, the
// leader pod and Kueue's queues and flavors.
func Running() (*lifecycle.Moment, error) {
	var env []string
	// RTJ adds its own variables; the user's fill up to EnvVars.
	const own = 1
	for i := range own {
		env = append(env, fmt.Sprintf("{name: TRAINING_OPTION_%d, value: a value of ordinary length}", i))
	}
	commands := []string{
		fmt.Sprintf("apply template.spec.replicatedJobs[0].replicas=%d %q", Jobs,
			"template.spec.replicatedJobs[0].template.spec.template.spec.containers[0].env=["+strings.Join(env, ", ")+"]"),
		"kueue admit",
		"workers ready",
		"catalog start world=32",
	}
	for i := range Checkpoints {
		commands = append(commands, fmt.Sprintf("catalog commit step=%d world=32", (i+1)*100))
	}
	commands = append(commands, fmt.Sprintf("catalog progress step=%d", Checkpoints*100+10), "clock +30s", "sync")
	return lifecycle.After(commands...)
}

// Body is a request as a runner sends it. managedFields says whether the objects
// have them: Metacontroller sends them, the embedded applier does not.
func Body(r *contract.SyncRequest, managedFields bool) ([]byte, error) {
	copied := *r
	if managedFields {
		add := func(raw json.RawMessage) (json.RawMessage, error) {
			object, err := scenario.Parse(raw)
			if err != nil {
				return nil, err
			}
			metadata := object["metadata"].(map[string]any)
			metadata["managedFields"] = managed(object)
			return json.Marshal(object)
		}
		var err error
		if copied.Parent, err = add(r.Parent); err != nil {
			return nil, err
		}
		for _, m := range []*contract.ObjectMap{&copied.Children, &copied.Related} {
			with := contract.ObjectMap{}
			for kind, objects := range *m {
				for place, raw := range objects {
					whole, err := add(raw)
					if err != nil {
						return nil, err
					}
					with.Set(kind, place, whole)
				}
			}
			*m = with
		}
	}
	return json.Marshal(copied)
}

// managed is what an API server keeps of who set which field: one writer for
// metadata and spec, one for status.
func managed(object map[string]any) []any {
	entry := func(manager, subresource string, keys ...string) any {
		owned := map[string]any{}
		for _, key := range keys {
			if value, ok := object[key]; ok {
				owned["f:"+key] = fieldSet(value)
			}
		}
		e := map[string]any{"manager": manager, "operation": "Update", "apiVersion": object["apiVersion"], "time": "2026-11-29T10:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": owned}
		if subresource != "" {
			e["subresource"] = subresource
		}
		return e
	}
	return []any{entry("creator", "", "metadata", "spec", "data"), entry("controller", "status", "status")}
}

// fieldSet is the structure of a value in FieldsV1.
func fieldSet(value any) map[string]any {
	set := map[string]any{}
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			if key != "managedFields" {
				set["f:"+key] = fieldSet(below)
			}
		}
	case []any:
		for i, item := range v {
			key := fmt.Sprintf("v:%d", i)
			if m, ok := item.(map[string]any); ok && m["name"] != nil {
				key = fmt.Sprintf(`k:{"name":"%v"}`, m["name"])
			}
			set[key] = fieldSet(item)
		}
	}
	return set
}
