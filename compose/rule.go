package compose

// rule is one line of a rule table: when it matches, then is the decision.
type rule[T any] struct {
	name string
	when func(*situation) bool
	then func(*situation) T
	// why names the facts that the rule read; it may be nil.
	why func(*situation) string
}

// first returns the decision of the first rule that matches, and notes the
// match. A table without a match decides nothing: the zero value.
func first[T any](s *situation, table string, rules []rule[T]) T {
	for i := range rules {
		r := &rules[i]
		if !r.when(s) {
			continue
		}
		match := Match{Table: table, Rule: r.name}
		if r.why != nil {
			match.Why = r.why(s)
		}
		s.decision.Rules = append(s.decision.Rules, match)
		return r.then(s)
	}
	var nothing T
	return nothing
}

// always matches; it ends a table.
func always(*situation) bool { return true }

// nothing decides nothing.
func nothing[T any](*situation) T {
	var none T
	return none
}
