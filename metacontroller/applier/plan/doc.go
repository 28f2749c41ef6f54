// Package plan holds every decision of the applier: what one sync of a parent
// writes, in which order and upon which states of the objects, what follows from
// the answer of the API server, and when the parent is synced again. It reaches
// for nothing: objects, hooks' answers and the time are handed in, and what is to
// be written comes out as data, as [Action]s. Package applier carries them out;
// whoever simulates a cluster can do so too.
//
// A sync goes through a [Round]:
//
//	r := controller.Begin(parent, memory)       // nil: none of ours
//	memory.Outstanding(now, view)               // not yet, while views are late
//	r.KeepFinalizer()                           // at most one action
//	r.Select()                                  // which labels make a child
//	r.Claim(kind, owned, orphans)               // for each kind; adoptions and releases
//	...ask the hook about r.Parent and r.Claimed...
//	r.Decide(answer, now)                       // an answer is taken or refused as a whole
//	r.Deletions(), then r.Applications()        // in waves
//	r.LetGo(faults), then r.Status()            // at most one action each
//	memory.After(faults, unfinished, began, now)
//
// Whoever carries out an action tells [Round.Done] what came of it, before the
// next one is asked for, and does at once what that says is next. The actions of
// a wave may be under way at once.
//
// What is remembered of a parent between two syncs is in [Memory]. Losing it costs
// requests, never correctness.
package plan
