package compose

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
)

// claims: the second step of an attempt. Its JobSet is there, suspended, and was
// built for the reservation that stands.
var claims = []rule[*claim]{
	{name: "NothingPrepared", when: func(s *situation) bool {
		return s.launch.wanted == nil || s.prepared == nil || s.launch.wanted.New != nil
	}, then: nothing[*claim]},
	{name: "Claim", when: always, then: func(s *situation) *claim {
		return &claim{reservation: s.reservation, Attempt: s.launch.number, JobSetUID: s.prepared.Meta.UID, At: metav1.NewTime(s.Now.UTC().Truncate(time.Second))}
	}},
}

// claimPatch claims the reservation for the attempt: guarded by the Workload's
// resourceVersion, by the LIST, and by a live read of status.attempt.
func (s *situation) claimPatch() *Patch {
	c := first(s, "claim", claims)
	if c == nil {
		return nil
	}
	attempt := s.was.Attempt
	s.forceLingering(true)
	return &Patch{
		Name: "claim", Target: workloadTarget(s.workload, ""),
		Body: json.RawMessage(encode(map[string]any{"metadata": map[string]any{
			"resourceVersion": s.workload.Meta.ResourceVersion, "uid": s.workload.Meta.UID,
			"annotations": map[string]string{v1beta1.AnnotationClaim: encode(c)},
		}})),
		NoLivePods: s.noLivePods(), StatusAttempt: &attempt,
	}
}
