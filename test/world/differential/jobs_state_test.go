//go:build e2e

package differential

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// end of a pod's name, which is random.
var randomEnd = regexp.MustCompile(`(-workers-\d+-\d+)-[a-z0-9]{5}\b`)

// seen is an object as it can be compared: its name, and what it shows without
// times and what is random.
func podSeen(o object) (name, state string) {
	meta, _ := o["metadata"].(object)
	kind, _ := o["kind"].(string)
	raw, _ := meta["name"].(string)
	name = kind + " " + randomEnd.ReplaceAllString(raw, "$1")
	status, _ := o["status"].(object)
	spec, _ := o["spec"].(object)
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch kind {
	case "JobSet":
		for _, item := range items(status["replicatedJobsStatus"]) {
			add("%s", numbers(item, "ready", "succeeded", "failed", "active", "suspended"))
		}
		if terminal, ok := status["terminalState"]; ok {
			add("%v", terminal)
		}
	case "Job":
		add("suspend=%v", spec["suspend"] == true)
		add("%s", numbers(status, "active", "ready", "terminating", "succeeded", "failed"))
		if indexes, ok := status["completedIndexes"]; ok {
			add("completed %v", indexes)
		}
		add("started=%v", status["startTime"] != nil)
	case "Pod":
		add("%v", status["phase"])
		for _, item := range items(status["containerStatuses"]) {
			state, _ := item["state"].(object)
			if ended, ok := state["terminated"].(object); ok {
				add("exit %v", ended["exitCode"])
			}
		}
	}
	// An ended pod that is deleted is gone, but for a moment that is not always seen.
	if ended := status["phase"] == "Succeeded" || status["phase"] == "Failed"; meta["deletionTimestamp"] != nil && !ended {
		add("deleted")
	}
	add("%s", podConditions(kind, items(status["conditions"])))
	return name, strings.Join(parts, "; ")
}

func numbers(o object, keys ...string) string {
	var all []string
	for _, key := range keys {
		if n, ok := o[key]; ok {
			all = append(all, fmt.Sprintf("%s=%v", key, n))
		}
	}
	return strings.Join(all, " ")
}

// conditions by type; of a pod only why it is ended.
func podConditions(kind string, list []object) string {
	var all []string
	for _, c := range list {
		if kind == "Pod" && c["type"] != "DisruptionTarget" {
			continue
		}
		text := fmt.Sprintf("%v=%v %v", c["type"], c["status"], c["reason"])
		if kind != "Pod" && c["status"] == "True" {
			text += fmt.Sprintf(" (%v)", inMessage.ReplaceAllString(randomEnd.ReplaceAllString(fmt.Sprint(c["message"]), "$1"), "/"))
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// inMessage is the namespace in a message that names a pod.
var inMessage = regexp.MustCompile(`[a-z0-9-]+/`)

// picture is all objects that there are.
type picture map[string]string

func (p picture) String() string {
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(p)) {
		lines = append(lines, randomEnd.ReplaceAllString(id, "$1")+": "+p[id])
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

const gone = "gone"
