package apiserver

import "time"

// SetCondition sets a condition in status.conditions of a body, as controllers do:
// lastTransitionTime moves only with status.
func SetCondition(body map[string]any, now time.Time, kind, status, reason, message string) {
	s, ok := body["status"].(map[string]any)
	if !ok {
		s = map[string]any{}
		body["status"] = s
	}
	list, _ := s["conditions"].([]any)
	next := map[string]any{
		"type": kind, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": now.UTC().Format(time.RFC3339),
	}
	for i, item := range list {
		old, ok := item.(map[string]any)
		if !ok || old["type"] != kind {
			continue
		}
		for key, value := range old {
			if _, ours := next[key]; !ours {
				next[key] = value
			}
		}
		if old["status"] == status {
			next["lastTransitionTime"] = old["lastTransitionTime"]
		}
		list[i] = next
		return
	}
	s["conditions"] = append(list, next)
}
