package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// benchmarkRequest is a sync request as it comes for a running job: the parent,
// a JobSet, a Workload and a ConfigMap as children, 8 Jobs and what Kueue has
// for the queue as related objects.
func benchmarkRequest(managedFields bool) []byte {
	object := func(apiVersion, kind, name, spec, status string, managers int) json.RawMessage {
		var managed string
		if managedFields {
			var entries []string
			for i := range managers {
				entries = append(entries, fmt.Sprintf(`{"manager":"manager-%d","operation":"Update","apiVersion":%q,"time":"2026-11-29T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{%s"f:metadata":{"f:labels":{}}}}`,
					i, apiVersion, strings.Repeat(`"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"worker\"}":{".":{},"f:image":{},"f:name":{},"f:resources":{".":{},"f:limits":{}}}}}}},`, 6)))
			}
			managed = `,"managedFields":[` + strings.Join(entries, ",") + `]`
		}
		return json.RawMessage(fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":"team-a","uid":"3f0c4d1e-7a55-4b5e-9a83-2d8b0b6f4a10","resourceVersion":"123456","generation":3,"creationTimestamp":"2026-11-29T10:00:00Z","labels":{"controller-uid":"c6a2a1a0-4d6f-4a44-8f0e-0d1f0c1b2a3c","training.rtj.dev/attempt":"3"}%s},"spec":%s,"status":%s}`,
			apiVersion, kind, name, managed, spec, status))
	}
	pod := `{"metadata":{"labels":{"app":"llama"}},"spec":{"restartPolicy":"Never","containers":[{"name":"worker","image":"registry.example/llama:v12","command":["rtj-run","python","train.py"],"args":["--epochs","40","--lr","0.0003"],"env":[` +
		strings.TrimSuffix(strings.Repeat(`{"name":"RTJ_SOMETHING","value":"a value of ordinary length"},`, 10), ",") +
		`],"resources":{"limits":{"nvidia.com/gpu":"8"},"requests":{"cpu":"32","memory":"400Gi"}},"volumeMounts":[{"name":"rtj","mountPath":"/etc/rtj"}]}],"volumes":[{"name":"rtj","projected":{"sources":[{"configMap":{"name":"llama-control","optional":true}}]}}],"terminationGracePeriodSeconds":330}}`
	jobSpec := `{"parallelism":4,"completions":4,"completionMode":"Indexed","backoffLimit":0,"suspend":false,"template":` + pod + `}`
	conditions := `[` + strings.TrimSuffix(strings.Repeat(`{"type":"Suspended","status":"False","lastProbeTime":"2026-11-29T10:00:00Z","lastTransitionTime":"2026-11-29T10:00:00Z","reason":"JobResumed","message":"Job resumed"},`, 4), ",") + `]`

	r := SyncRequest{
		Controller: object("metacontroller.k8s.io/v1alpha1", "CompositeController", "rtj", `{"generateSelector":true}`, `{}`, 1),
		Parent:     object("training.rtj.dev/v1beta1", "ResumableTrainingJob", "llama", `{"queueName":"team-a","template":{"spec":{"replicatedJobs":[{"name":"workers","replicas":8,"template":{"spec":`+jobSpec+`}}]}}}`, `{"phase":"Running","attempt":3,"conditions":`+conditions+`}`, 3),
		Children: ObjectMap{
			"JobSet.jobset.x-k8s.io/v1alpha2": {"team-a/llama-3": object("jobset.x-k8s.io/v1alpha2", "JobSet", "llama-3", `{"replicatedJobs":[{"name":"workers","replicas":8,"template":{"spec":`+jobSpec+`}}]}`, `{"conditions":`+conditions+`}`, 3)},
			"Workload.kueue.x-k8s.io/v1beta2": {"team-a/llama-w1": object("kueue.x-k8s.io/v1beta2", "Workload", "llama-w1", `{"podSets":[{"name":"workers","count":32,"template":`+pod+`}]}`, `{"conditions":`+conditions+`}`, 3)},
			"ConfigMap.v1":                    {"team-a/llama-control": object("v1", "ConfigMap", "llama-control", `{}`, `{}`, 1)},
		},
		Related: ObjectMap{"Job.batch/v1": {}},
	}
	for i := range 8 {
		name := fmt.Sprintf("llama-3-workers-%d", i)
		r.Related["Job.batch/v1"]["team-a/"+name] = object("batch/v1", "Job", name, jobSpec, `{"active":4,"ready":4,"terminating":0,"conditions":`+conditions+`}`, 2)
	}
	body, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return body
}

// The envelope of a sync request, against what encoding/json needs for the same:
// splitting it into raw objects, none of which is decoded yet.
func BenchmarkDecodeSyncRequest(b *testing.B) {
	for _, managedFields := range []bool{true, false} {
		body := benchmarkRequest(managedFields)
		suffix := fmt.Sprintf("/managedFields=%v/%dKB", managedFields, len(body)>>10)
		b.Run("contract"+suffix, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeSyncRequest(body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("encoding/json"+suffix, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				decoder := json.NewDecoder(bytes.NewReader(body))
				decoder.DisallowUnknownFields()
				if err := decoder.Decode(&SyncRequest{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
