package contract

import (
	"strings"
	"testing"
)

func TestSyncRequestTellsServerSideApply(t *testing.T) {
	const (
		owners      = `"fieldsV1":{"f:metadata":{"f:labels":{"f:controller-uid":{}},"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}}}`
		applied     = `{"manager":"mc","operation":"Apply",` + owners + `}`
		updated     = `{"manager":"metacontroller","operation":"Update",` + owners + `}`
		otherFields = `{"manager":"kueue-admission","operation":"Apply","subresource":"status","fieldsV1":{"f:status":{"f:admission":{}}}}`
		annotation  = `"annotations":{"metacontroller.k8s.io/last-applied-configuration":"{}"},`
	)
	for name, c := range map[string]struct {
		annotations, fields string
		want                bool
	}{
		"by any manager":                       {"", otherFields + "," + applied, true},
		"created and updated":                  {"", updated, false},
		"applied in part by somebody else":     {"", updated + "," + otherFields, false},
		"dynamic apply has taken over":         {annotation, applied + "," + updated, false},
		"no managed fields, as of the applier": {"", "", false},
		"managed fields that are none":         {"", `"f:ownerReferences"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			child := `{"metadata":{"name":"j",` + c.annotations + `"managedFields":[` + c.fields + `],"uid":"x"}}`
			body := strings.Replace(minimal, `"children":{}`, `"children":{"JobSet.jobset.x-k8s.io/v1alpha2":{"a/j":`+child+`}}`, 1)
			request, err := DecodeSyncRequest([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if got := request.ServerSideApplied == "JobSet.jobset.x-k8s.io/v1alpha2 a/j"; got != c.want {
				t.Errorf("want %v, got %q", c.want, request.ServerSideApplied)
			}
		})
	}
}

// What somebody applied to the parent or to a related object is their affair.
func TestSyncRequestTellsServerSideApplyOfChildrenOnly(t *testing.T) {
	object := `{"metadata":{"name":"j","managedFields":[{"operation":"Apply","fieldsV1":{"f:metadata":{"f:ownerReferences":{"k:{}":{}}}}}]}}`
	body := strings.Replace(minimal, `"related":{}`, `"related":{"Pod.v1":{"a/j":`+object+`}}`, 1)
	body = strings.Replace(body, `{"kind":"Train"}`, object, 1)
	request, err := DecodeSyncRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if request.ServerSideApplied != "" {
		t.Errorf("got %q", request.ServerSideApplied)
	}
}
