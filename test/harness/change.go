package harness

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rtj.dev/rtj/api/v1beta1"
)

// StatusChange says in one line what differs between two states of a job's
// status; empty if nothing does.
func StatusChange(before, after *v1beta1.ResumableTrainingJob) string {
	was, is := map[string]string{}, map[string]string{}
	flatten("", plain(before.Status), was)
	flatten("", plain(after.Status), is)
	paths := map[string]bool{}
	for path := range was {
		paths[path] = true
	}
	for path := range is {
		paths[path] = true
	}
	var changes []string
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if was[path] != is[path] {
			changes = append(changes, fmt.Sprintf("%s: %s", path, shorten(is[path])))
		}
	}
	return strings.Join(changes, "; ")
}

func plain(v any) any {
	var out any
	if b, err := json.Marshal(v); err == nil {
		_ = json.Unmarshal(b, &out)
	}
	return out
}

// flatten gives every leaf a path; conditions and the ledger go by their names.
func flatten(path string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			flatten(strings.TrimPrefix(path+"."+name, "."), value, into)
		}
	case []any:
		for i, value := range v {
			name := strconv.Itoa(i)
			if object, ok := value.(map[string]any); ok {
				if kind, ok := object["type"].(string); ok {
					name = kind
				}
				if number, ok := object["attempt"].(float64); ok {
					name = strconv.Itoa(int(number))
				}
			}
			flatten(path+"["+name+"]", value, into)
		}
	default:
		into[path] = text(v)
	}
}

func shorten(value string) string {
	const most = 60
	if value == "" {
		return "(gone)"
	}
	if len(value) > most {
		return value[:most] + "…"
	}
	return value
}
