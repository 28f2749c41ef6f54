package server

import (
	"net/http"
	"testing"

	"rtj.dev/rtj/hooks/contract"
)

// Whatever is sent, it is answered: with an answer that a runner takes, or with a
// reason why not. Nothing makes the server fail.
func FuzzSync(f *testing.F) {
	x := newFixture(f, func(o *Options) { o.Runners = everyone{} })
	f.Add(x.body(f))
	for _, seed := range []string{
		``, `null`, `{}`, `[]`, `"x"`, `{"parent":{}}`,
		`{"controller":{},"parent":{},"children":{},"related":{},"finalizing":false}`,
		`{"controller":{},"parent":{"apiVersion":"training.rtj.dev/v1beta1","kind":"ResumableTrainingJob","metadata":{"name":"a","namespace":"b","uid":"c"}},"children":{"JobSet.jobset.x-k8s.io/v1alpha2":{"b/a-1":{"metadata":{"name":"a-1"}}},"Workload.kueue.x-k8s.io/v1beta2":{"b/a-w1":{"metadata":{"name":"a-w1"},"status":{"conditions":[{"type":"QuotaReserved","status":"True"}]}}}},"related":null,"finalizing":false}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{"/sync", "/finalize", "/customize"} {
			w := x.post(path, body)
			switch {
			case w.Code == http.StatusBadRequest:
			case w.Code == http.StatusOK && path == "/customize":
				if _, err := contract.DecodeCustomizeResponse(w.Body.Bytes()); err != nil {
					t.Errorf("%s: a runner refuses the answer: %v\n%s", path, err, w.Body)
				}
			case w.Code == http.StatusOK:
				if _, err := contract.DecodeSyncResponse(w.Body.Bytes()); err != nil {
					t.Errorf("%s: a runner refuses the answer: %v\n%s", path, err, w.Body)
				}
			default:
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
}
