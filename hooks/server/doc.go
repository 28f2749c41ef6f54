// Package server serves the hooks over HTTP, for Metacontroller: POST /sync,
// /finalize and /customize. Beside them are /healthz, /readyz and /metrics.
//
// A request that cannot be understood is answered with 400, one that is too large
// with 413, each with a JSON object whose error says what is wrong and where. A
// fault in the hooks is a 500 and ends nothing else.
//
// Everyone who can reach the server gets answers. For a runner that is
// authenticated, by a bearer token or a client certificate, the store is read and
// patches are carried out. For others neither is done: a request claims what was
// observed, and this program's rights are not for everyone who claims something.
package server
