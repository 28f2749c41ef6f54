//go:build e2e

package applier_test

import (
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"rtj.dev/rtj/metacontroller/applier"
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// A hook over TLS that wants a token, with the authority in a ConfigMap and the
// token in a Secret of the cluster, which is rotated while the hook is in use.
func TestHooksOverTLSWithATokenThatRotates(t *testing.T) {
	x := newWireOn(t, httptest.NewTLSServer)
	authority := object("v1", "ConfigMap", "authority", nil)
	authority.Object["data"] = map[string]any{"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: x.server.Certificate().Raw}))}
	x.create(configMaps, x.namespace, authority)
	encoded := func(token string) string { return base64.StdEncoding.EncodeToString([]byte(token)) }
	token := object("v1", "Secret", "token", nil)
	token.Object["data"] = map[string]any{"token": encoded("the-first-token")}
	x.create(secrets, x.namespace, token)

	var wanted atomic.Value
	wanted.Store("the-first-token")
	x.answers(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+wanted.Load().(string) {
			http.Error(w, "no such token: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		saying(`{status: {phase: Fine, message: "`+wanted.Load().(string)[:10]+`"}}`)(w, r)
	})
	told := &eventLog{}
	x.events = told
	x.start(func(c *applier.CompositeController) {
		c.Spec.EndpointConfigs = []applier.EndpointConfig{{
			Host: strings.TrimPrefix(x.url, "https://"),
			EndpointSettings: applier.EndpointSettings{
				CABundle:      &applier.CABundle{ConfigMapRef: &applier.KeyReference{Namespace: x.namespace, Name: "authority"}},
				Authorization: &applier.Authorization{SecretRef: applier.KeyReference{Namespace: x.namespace, Name: "token", Key: "token"}},
			},
		}}
	})
	x.parent("p", nil)
	x.eventually("the hook is reached", func() bool { return field(x.get(trains, "p"), "status", "message") == "the-first-" })

	wanted.Store("the-second-token")
	x.patch(trains, "p", `{"spec":{"x":1}}`)
	x.eventually("the old token is refused", func() bool {
		return told.has("p Warning SyncError", "sync hook: POST "+x.url+"/sync: status 401 Unauthorized: no such token: Bearer [redacted]")
	})
	x.patch(secrets, "token", `{"data":{"token":"`+encoded("the-second-token")+`"}}`)
	x.eventually("the new token is used", func() bool { return field(x.get(trains, "p"), "status", "message") == "the-second" })
	if x.metric("rtj_applier_hook_errors_total", "cause", "status") < 1 {
		t.Error("the refusal is not counted")
	}
	for _, secret := range []string{"first-token", "second-token"} {
		if strings.Contains(x.logs.String(), secret) || told.has(secret) {
			t.Errorf("%s is shown", secret)
		}
	}
}
