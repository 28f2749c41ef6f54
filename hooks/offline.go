package hooks

import (
	"context"
	"time"

	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/hooks/edge"
)

// Moment is when and with what [Offline] decides.
type Moment struct {
	Now time.Time
	// Store is read once before the decision.
	Store Store
	// PodIntegration is whether Kueue manages plain pods.
	PodIntegration bool
}

// Offline answers one request at a given time and touches nothing but the store.
// It plays the process that observed the end of the last attempt, so that the
// answer does not depend on where it runs.
func Offline(ctx context.Context, request *contract.SyncRequest, finalizing bool, at Moment) (*Answer, error) {
	if request.Finalizing != finalizing {
		return nil, wrongHook(finalizing)
	}
	o, err := Observe(request)
	if err != nil {
		return nil, err
	}
	o.Now = at.Now
	o.Observer = "offline"
	if end := o.Parent.Status.LastEnd; end != nil && end.ObservedBy != "" {
		o.Observer = end.ObservedBy
	}
	o.PodIntegration = at.PodIntegration
	o.Catalog = at.Store.Read(ctx, edge.PlaceOf(o.Parent).Run(nil), catalog.Ask{Include: edge.Include(o.Parent)})
	d := edge.Decide(o, finalizing)
	response, err := Respond(d, d.ResyncAfter)
	if err != nil {
		return nil, err
	}
	return &Answer{Observation: o, Decision: d, Response: response}, nil
}
