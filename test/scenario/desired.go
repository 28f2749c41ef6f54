package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"sort"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/contract"
)

// Observation is what is observed with a request that [Observed.Request] made.
// catalog is nil if the store was never read.
func (o *Observed) Observation(request *contract.SyncRequest, catalog *checkpoint.Snapshot) (*compose.Observation, error) {
	observation, err := hooks.Observe(request)
	if err != nil {
		return nil, err
	}
	observation.Now = *o.Now
	observation.Observer = cmp.Or(o.Observer, "rtj")
	observation.PodIntegration = !o.NoPodIntegration
	observation.Catalog = catalog
	observation.Launch = o.Launch.probe()
	return observation, nil
}

// Decide runs the hook on what was observed. catalog is nil if the store was
// never read.
func Decide(o *Observed, request *contract.SyncRequest, catalog *checkpoint.Snapshot) (*compose.Decision, *contract.SyncResponse, error) {
	observation, err := o.Observation(request, catalog)
	if err != nil {
		return nil, nil, err
	}
	decide := compose.Sync
	if o.Finalizing {
		decide = compose.Finalize
	}
	d := decide(observation)
	response, err := hooks.Respond(d, d.ResyncAfter)
	return d, response, err
}

// Desired is desired.yaml: what was decided, as JSON values. Children are told by
// what happens to them: keep (returned as observed), update (with the JSON merge
// patch that the answer makes of the observed object), create (the whole object),
// delete (observed and not returned).
//
// In the conditions of status, lastTransitionTime is left out where it is now,
// observedGeneration where it is that of status, and an empty message.
func Desired(now time.Time, request *contract.SyncRequest, d *compose.Decision, response *contract.SyncResponse) (map[string]any, error) {
	status, err := Plain(response.Status)
	if err != nil {
		return nil, err
	}
	shortenConditions(status, now)
	children, err := Changes(request.Children, d, response)
	if err != nil {
		return nil, err
	}
	desired := map[string]any{"status": status, "children": children}
	patches, err := Plain(d.Patches)
	if err != nil {
		return nil, err
	}
	if len(d.Patches) > 0 {
		desired["patches"] = patches
	}
	if response.ResyncAfterSeconds > 0 {
		desired["resyncAfterSeconds"] = response.ResyncAfterSeconds
	}
	if response.Finalized {
		desired["finalized"] = true
	}
	if !d.Catalog.NotBefore.IsZero() {
		catalog := map[string]any{"notBefore": d.Catalog.NotBefore.UTC().Format(time.RFC3339Nano)}
		if len(d.Catalog.Recheck) > 0 {
			catalog["recheck"] = d.Catalog.Recheck
		}
		desired["catalog"] = catalog
	}
	if d.Launch != nil {
		desired["launch"] = d.Launch.Kind + "/" + d.Launch.Name
	}
	if desired["rules"], err = Plain(d.Rules); err != nil {
		return nil, err
	}
	return desired, nil
}

func shortenConditions(status any, now time.Time) {
	s, _ := status.(map[string]any)
	conditions, _ := s["conditions"].([]any)
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if c["lastTransitionTime"] == now.UTC().Format(time.RFC3339) {
			delete(c, "lastTransitionTime")
		}
		if equal(c["observedGeneration"], s["observedGeneration"]) {
			delete(c, "observedGeneration")
		}
		if c["message"] == "" {
			delete(c, "message")
		}
	}
}

// Changes tells what happens to each child.
func Changes(observed contract.ObjectMap, d *compose.Decision, response *contract.SyncResponse) ([]any, error) {
	list := []any{}
	returned := map[string]bool{}
	for i, child := range d.Children {
		var object map[string]any
		if err := utiljson.Unmarshal(response.Children[i], &object); err != nil {
			return nil, err
		}
		name := child.Kind + "/" + child.Name
		if returned[name] {
			return nil, fmt.Errorf("%s is returned twice", name)
		}
		returned[name] = true
		if child.Observed == nil {
			list = append(list, map[string]any{"create": name, "object": object})
			continue
		}
		// What the observed child is without the fields that no child carries back.
		kept, err := compose.Child{APIVersion: child.APIVersion, Kind: child.Kind, Name: child.Name, Observed: child.Observed}.Render()
		if err != nil {
			return nil, err
		}
		change := Difference(kept, object)
		if len(change) == 0 {
			list = append(list, map[string]any{"keep": name})
		} else {
			list = append(list, map[string]any{"update": name, "patch": change})
		}
	}
	var gone []string
	for _, objects := range observed {
		for _, raw := range objects {
			var object map[string]any
			if err := json.Unmarshal(raw, &object); err != nil {
				return nil, err
			}
			if !returned[id(object)] {
				gone = append(gone, id(object))
			}
		}
	}
	sort.Strings(gone)
	for _, name := range gone {
		list = append(list, map[string]any{"delete": name})
	}
	return list, nil
}
