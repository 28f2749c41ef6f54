// Package trainer models the workers of a simulated world: the ranks of attempts, as
// they speak the protocol of the SDK with each other, with the store and with the
// controller. It is what the kubelets of package jobs run in their pods.
//
// What it keeps of the SDK (sdk/python):
//   - the documents, their keys and their bytes: the start record before the first
//     commit, every rank's data objects then its index, then the manifest, each a PUT
//     of its own; progress; the result, and only then the exits;
//   - the workers restore what the controller selected and nothing else. Every byte is
//     verified; what is wrong twice, or confirmed to be missing, is quarantined if
//     another checkpoint of the branch can be used; then the result, then code 77;
//   - a yield is heard from the control document, the notice or SIGTERM, by any rank.
//     All agree on the largest step plus one, or act where they are parked; a save in
//     flight is finished, dropped or the only one, whichever can commit in time; all
//     wait for the commit and the result;
//   - without an agreement within 10 s, with a rank gone, or with no commit before the
//     pods would be killed: yieldNotServiced, 76;
//   - a rank that is gone is noticed after 10 s, 2 s when a yield is asked, and ends the
//     others 10 s later;
//   - the codes of rtj-run, and those of programs without it;
//   - what cannot be stored is tried again: a start record for ever, a periodic save for
//     10 minutes, the last save for an hour, a result for 5 s, that of finish() for 60 s.
//     What the store refuses is given up at once.
//
// A [Behaviour] gives durations, or makes every step an event without time, and the
// flaws that programs have. Faults are events: crashes, ranks that hang, answers that
// are lost, saves that are torn.
//
// What the workers believe is in [Attempt]: what was selected for them and whether it
// was sound, what they committed and when, and what they lost.
//
// Left out: the network between ranks, which is there as long as their processes are;
// skew between ranks of more than the agreement's one step; evaluation; publications;
// processes of one pod that end differently.
package trainer
