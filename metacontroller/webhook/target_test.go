package webhook

import (
	"fmt"
	"strings"
	"testing"
)

func TestAddress(t *testing.T) {
	for webhook, want := range map[string]string{
		`{url: "http://h/p"}`:         "http://h/p",
		`{url: "https://h:8443/a/b"}`: "https://h:8443/a/b",
		// The URL wins over everything else.
		`{url: "http://h/p", path: /q, service: {name: s, namespace: ns}}`:                 "http://h/p",
		`{path: /q, service: {name: s, namespace: ns}}`:                                    "http://s.ns:80/q",
		`{path: "/q?x=1", service: {name: s, namespace: ns, port: 8443, protocol: https}}`: "https://s.ns:8443/q",
		`{url: "http://user:secret@h/p?key=secret"}`:                                       "http://h/p",
		`{url: "http://[::1]:8080"}`:                                                       "http://[::1]:8080",
	} {
		h := newFixture(t, controllerOf(t, `{sync: {webhook: `+webhook+`}}`))
		if got := h.sync.String(); got != want {
			t.Errorf("%s: %s, want %s", webhook, got, want)
		}
	}
}

func TestRefusedSettings(t *testing.T) {
	const at = "CompositeController c: spec.hooks.sync.webhook"
	const ref = `secretRef: {name: s, namespace: ns}`
	for hook, want := range map[string]string{
		`{}`:                    at + ": missing: it says where the hook is",
		`{webhook: {}}`:         at + ": want url, or service and path: they say where the hook is",
		`{webhook: {path: /q}}`: at + ": service: missing: want url, or service and path",
		`{webhook: {service: {name: s, namespace: ns}}}`:                                                                       at + ": path: missing: want url, or service and path",
		`{webhook: {path: /q, service: {name: s, namespace: ""}}}`:                                                             at + ": service: want name and namespace",
		`{webhook: {path: q, service: {name: s, namespace: ns}}}`:                                                              at + `: path: must begin with /, got "q"`,
		`{webhook: {path: /q, service: {name: s, namespace: ns, port: 70000}}}`:                                                at + ": service.port: want 1 to 65535, got 70000",
		`{webhook: {path: /q, service: {name: s, namespace: ns, protocol: gopher}}}`:                                           at + `: service.protocol: want http or https, got "gopher"`,
		`{webhook: {url: "h/p"}}`:                                                                                              at + ": url: must begin with http:// or https://",
		`{webhook: {url: "ftp://h/p"}}`:                                                                                        at + ": url: must begin with http:// or https://",
		`{webhook: {url: "http:///p"}}`:                                                                                        at + ": url: names no host",
		`{webhook: {url: "http://h/p#x"}}`:                                                                                     at + ": url: has a fragment (#), which is never sent",
		`{webhook: {url: "http://user:secret@h h/"}}`:                                                                          at + `: url: invalid character " " in host name`,
		`{webhook: {url: "http://h", responseUnMarshallMode: Strict}}`:                                                         at + `.responseUnMarshallMode: want strict or loose, got "Strict"`,
		`{webhook: {url: "http://h", etag: {enabled: true, cacheTimeoutSeconds: -1}}}`:                                         at + ".etag.cacheTimeoutSeconds: must not be below zero",
		`{webhook: {url: "http://h", caBundle: {}}}`:                                                                           at + ".caBundle: want exactly one of inline, secretRef and configMapRef, got 0",
		`{webhook: {url: "http://h", caBundle: {inline: x, ` + ref + `}}}`:                                                     at + ".caBundle: want exactly one of inline, secretRef and configMapRef, got 2",
		`{webhook: {url: "http://h", caBundle: {inline: no certificate}}}`:                                                     at + ".caBundle.inline: has no certificate in PEM form",
		`{webhook: {url: "http://h", caBundle: {configMapRef: {name: a, namespace: ""}}}}`:                                     at + ".caBundle: want name and namespace of the Secret or ConfigMap",
		`{webhook: {url: "http://h", clientTLS: {secretRef: {name: a, namespace: ""}}}}`:                                       at + ".clientTLS: want name and namespace of the Secret or ConfigMap",
		`{webhook: {url: "http://h", authorization: {secretRef: {name: a, namespace: ns}}}}`:                                   at + ".authorization.secretRef.key: missing; it has no default",
		`{webhook: {url: "http://h", authorization: {type: basic, secretRef: {name: a, namespace: ns, key: k}}}}`:              at + ".authorization.type: Basic is not for here: use basicAuth",
		`{webhook: {url: "http://h", authorization: {type: "A B", secretRef: {name: a, namespace: ns, key: k}}}}`:              at + `.authorization.type: want one word, such as Bearer, got "A B"`,
		`{webhook: {url: "http://h", authorization: {secretRef: {name: a, namespace: ns, key: k}}, basicAuth: {` + ref + `}}}`: at + ".authorization: excludes basicAuth: a request has one Authorization header",
		`{webhook: {url: "http://h", basicAuth: {` + ref + `}}}`:                                                               at + ".basicAuth.usernameKey: there is no API client to read Secret ns/s with",
	} {
		_, err := New(Options{Controller: controllerOf(t, `{sync: `+hook+`}`)})
		if err == nil || !strings.Contains(err.Error()+"\n", want+"\n") {
			t.Errorf("%s\ngot  %v\nwant %s", hook, err, want)
		}
		if needsClient := strings.Contains(want, "there is no API client"); (Validate(controllerOf(t, `{sync: `+hook+`}`)) == nil) != needsClient {
			t.Errorf("%s: Validate refuses other things", hook)
		}
		if err != nil && strings.Contains(err.Error(), "secret@") {
			t.Errorf("a password is shown: %v", err)
		}
	}
}

// Every fault is told, of every hook and of the settings by host.
func TestRefusedSettingsAreAllTold(t *testing.T) {
	_, err := New(Options{Controller: controllerOf(t, `{sync: {webhook: {}}, finalize: {webhook: {url: "http://h", responseUnMarshallMode: x, caBundle: {}}}}`,
		`endpointConfigs: [{host: ""}, {host: h, caBundle: {inline: x}}, {host: "https://h"}]`)})
	want := []string{
		`CompositeController c: spec.endpointConfigs[0].host: want a host, or host:port, got ""`,
		`CompositeController c: spec.endpointConfigs[1].caBundle.inline: has no certificate in PEM form`,
		`CompositeController c: spec.endpointConfigs[2].host: want a host, or host:port, got "https://h"`,
		`CompositeController c: spec.hooks.sync.webhook: want url, or service and path: they say where the hook is`,
		`CompositeController c: spec.hooks.finalize.webhook.responseUnMarshallMode: want strict or loose, got "x"`,
		`CompositeController c: spec.hooks.finalize.webhook.caBundle: want exactly one of inline, secretRef and configMapRef, got 0`,
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got  %v\nwant %s", err, strings.Join(want, "\n"))
	}
}

func TestSettingsByHost(t *testing.T) {
	ca := newAuthority(t)
	for name, c := range map[string]struct{ webhook, configs, want string }{
		"the first that matches": {`url: "https://h/p"`, `[{host: x}, {host: h, CA}, {host: h}]`, "endpointConfigs[1]"},
		"case":                   {`url: "https://H/p"`, `[{host: h, CA}]`, "endpointConfigs[0]"},
		"port of https":          {`url: "https://h/p"`, `[{host: "h:443", CA}]`, "endpointConfigs[0]"},
		"port of https, written": {`url: "https://h:443/p"`, `[{host: h, CA}]`, "endpointConfigs[0]"},
		"port of http":           {`url: "http://h/p"`, `[{host: "h:80", CA}]`, "endpointConfigs[0]"},
		"another port":           {`url: "https://h:8443/p"`, `[{host: h, CA}]`, "none"},
		"the other port":         {`url: "https://h:8443/p"`, `[{host: "h:8443", CA}]`, "endpointConfigs[0]"},
		"http is not 443":        {`url: "http://h/p"`, `[{host: "h:443", CA}]`, "none"},
		"IPv6":                   {`url: "https://[::1]:8443/p"`, `[{host: "[::1]:8443", CA}]`, "endpointConfigs[0]"},
		"a Service":              {`service: {name: s, namespace: ns}, path: /p`, `[{host: s.ns, CA}]`, "endpointConfigs[0]"},
		"a Service with port":    {`service: {name: s, namespace: ns, port: 8443}, path: /p`, `[{host: "s.ns:8443", CA}]`, "endpointConfigs[0]"},
		// Nothing is merged.
		"the hook has its own": {`url: "https://h/p", authorization: {secretRef: {name: a, namespace: ns, key: k}}`, `[{host: h, CA}]`, "own"},
		"no configs":           {`url: "https://h/p"`, `[]`, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			configs := strings.ReplaceAll(c.configs, "CA", `caBundle: {inline: "`+strings.ReplaceAll(ca.pem, "\n", `\n`)+`"}`)
			controller := controllerOf(t, `{sync: {webhook: {`+c.webhook+`}}}`, `endpointConfigs: `+configs)
			h := newFixture(t, controller, withObjects())
			got := "none"
			settings := h.sync.connection.settings
			switch {
			case settings.Authorization != nil && settings.CABundle == nil:
				got = "own"
			case settings.CABundle != nil:
				for i := range controller.Spec.EndpointConfigs {
					if settings == &controller.Spec.EndpointConfigs[i].EndpointSettings {
						got = fmt.Sprintf("endpointConfigs[%d]", i)
					}
				}
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			// Configs that are there for nothing are told of.
			for i := range controller.Spec.EndpointConfigs {
				field := fmt.Sprintf("endpointConfigs[%d]", i)
				if told := strings.Contains(h.log.String(), field); told == (got == field) {
					t.Errorf("%s is told of as unused: %v", field, told)
				}
			}
		})
	}
}
