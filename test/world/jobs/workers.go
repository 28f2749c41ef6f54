package jobs

import "rtj.dev/rtj/test/world/apiserver"

// Workers run in the pods: the trainer's ranks. The kubelet calls them; they never
// write to the API server, and they know nothing of what became of their pod there.
type Workers interface {
	// Start says that the containers of a pod started. What its control directory
	// holds was said before.
	Start(pod *apiserver.Object)
	// Projected says what the control directory holds from now on: the control
	// document and the notice, each empty where there is none.
	Projected(podUID string, control, notice string)
	// Terminate is SIGTERM.
	Terminate(podUID string)
	// Kill is SIGKILL.
	Kill(podUID string)
	// State tells whether the pod is ready, and whether its processes ended and with
	// which code.
	State(podUID string) (ready, exited bool, code int32)
}
