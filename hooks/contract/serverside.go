package contract

import (
	"bytes"
	"encoding/json"
)

// lastAppliedKey is the annotation by which Metacontroller's dynamic apply knows
// what it sent last. Its server-side apply removes it.
var lastAppliedKey = []byte(`"metacontroller.k8s.io/last-applied-configuration"`)

// appliedServerSide reports whether the runner wrote a child by server-side apply:
// somebody applied its owner references, which only a runner sets, and dynamic
// apply has not written it since.
//
// A runner that sends no managedFields is never found out.
func appliedServerSide(child, managedFields []byte) bool {
	if bytes.Contains(child, lastAppliedKey) || !bytes.Contains(managedFields, []byte(`"f:ownerReferences"`)) {
		return false
	}
	start, end := bytes.IndexByte(managedFields, '['), bytes.LastIndexByte(managedFields, ']')
	if start < 0 || end < start {
		return false
	}
	var entries []struct {
		Operation string `json:"operation"`
		FieldsV1  struct {
			Metadata struct {
				OwnerReferences json.RawMessage `json:"f:ownerReferences"`
			} `json:"f:metadata"`
		} `json:"fieldsV1"`
	}
	if json.Unmarshal(managedFields[start:end+1], &entries) != nil {
		return false
	}
	for _, e := range entries {
		if e.Operation == "Apply" && len(e.FieldsV1.Metadata.OwnerReferences) > 0 {
			return true
		}
	}
	return false
}
