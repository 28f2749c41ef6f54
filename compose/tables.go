package compose

// Tables are the rule tables by name, with the names of their rules from top to bottom.
func Tables() map[string][]string {
	return map[string][]string{
		"attempt-jobset":   ruleNames(attemptJobSets),
		"claim":            ruleNames(claims),
		"control-document": ruleNames(controlDocuments),
		"end":              ruleNames(ends),
		"finish":           ruleNames(finishes),
		"launch":           ruleNames(launches),
		"notice":           ruleNames(notices),
		"outcome":          ruleNames(outcomes),
		"phase":            ruleNames(phases),
		"pods-ready":       ruleNames(podsReadyRules),
		"queue":            ruleNames(queueRules),
		"release":          ruleNames(releaseRules),
		"workload":         ruleNames(workloads),
		"yield":            ruleNames(causes),
	}
}

func ruleNames[T any](rules []rule[T]) (names []string) {
	for i := range rules {
		names = append(names, rules[i].name)
	}
	return names
}
