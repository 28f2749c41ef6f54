package applier

import "rtj.dev/rtj/metacontroller/applier/plan"

// parentState is what is remembered of a parent between syncs. Only the worker
// that syncs the parent uses it, and the queue gives a parent to one worker at a
// time; its records are also used by the writes of one sync. It goes when the
// parent goes; losing it costs requests, never correctness.
type parentState struct {
	*plan.Memory
	// rules of the customize hook, and what they answer.
	rules    []*relatedRule
	rulesFor question
}

func newParentState() *parentState { return &parentState{Memory: plan.NewMemory()} }
