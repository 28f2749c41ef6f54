// Package webhook calls the hooks of a CompositeController over HTTP, for the
// applier. Every field of Metacontroller's Webhook API does what it does there,
// except where that would be a fault; the differences are below.
//
// # A call
//
// A call is one POST of JSON, without a retry: the applier tries again. It must be
// answered within the hook's timeout (10s by default), body included, with status
// 200 and at most 32 MiB ([Options]). Everything else is an error, and nothing is
// applied:
//
//	connection   the hook cannot be reached, or breaks off
//	tls          one side does not accept the other's certificate
//	credentials  a Secret or ConfigMap that the controller names cannot be used
//	timeout      no complete answer in time
//	throttled    status 429; see below
//	status       any other status
//	too-large    more than the largest answer
//	answer       not understood, or with a null, nameless or repeated child
//
// These are the causes by which the applier counts failures
// (rtj_applier_hook_errors_total). An error names the address without user,
// password and query, the status, and the first 512 bytes of the body; never a
// header, and no secret that a body repeats.
//
// 429 is tried again after what Retry-After says, in seconds or as a date, an hour
// at the most; if it says nothing, after the ordinary back-off and not before a
// second. 503 with Retry-After is treated alike.
//
// # Where a hook is
//
// url wins over service and path. A service becomes
// <protocol>://<name>.<namespace>:<port><path>, with http and 80 as defaults. This
// name is known to the cluster's DNS only, by the search path of pods: a program
// outside of the cluster needs url. And since the name has no ".svc", a
// certificate for https must have <name>.<namespace> among its names.
//
// Proxies are those of the environment, HTTP_PROXY, HTTPS_PROXY and NO_PROXY, as
// for Metacontroller; requests to loopback addresses use none. That a hook is
// called through a proxy is logged at the start.
//
// Redirects are followed with status 307 and 308 only, since after others the
// POST would become a GET; from https not to http; and to another host only if the
// request carries no credential, client certificate or query.
//
// # Versions
//
// version v1, which is also what leaving it out means, and v2 can differ from hook
// to hook. They have the same fields. In v1 the key of an object is its name alone
// where the parent is in a namespace, and objects that are cluster-scoped or in
// another namespace are not sent; see [contract.ObjectMap.RelativeTo].
//
// Answers are read strictly in v2: a field that is unknown, or that occurs twice
// in an object, refuses the answer. In v1 such fields are passed over and logged
// at level debug. responseUnMarshallMode (strict, loose) says otherwise. In both,
// null in a field of the answer is as if it were not there.
//
// # ETag
//
// With etag enabled, an answer that has an ETag is kept, by hook and the parent's
// uid, for cacheTimeoutSeconds (an hour by default), and If-None-Match is sent with
// the next request. Status 304 or 412 then means the kept answer. What is too old
// is removed every cacheCleanupSeconds (as often as cacheTimeoutSeconds by
// default). The answers of a controller take 64 MiB at most.
//
// # TLS and authentication
//
// caBundle, clientTLS and authorization or basicAuth can be set for each hook, or
// in endpointConfigs for each host. A hook that has any of them uses only its own;
// else the first entry with its host is used. An entry's port can be left out if
// it is that of http or https.
//
// Secrets and ConfigMaps are read with one GET each, when a hook is called and the
// last time was a minute ago. After a hook has refused what was read (a failure of
// TLS, or status 401) they are read at the next call, but not more often than
// every 5 seconds. So they can be rotated; the error in between costs a retry. If
// they cannot be read, what was read last is used and that is logged; if they are
// gone or not usable, calls fail.
//
// # Differences from Metacontroller 4.17
//
//   - Secrets and ConfigMaps are read again; Metacontroller reads them once.
//   - cacheTimeoutSeconds without cacheCleanupSeconds does not crash, and a parent
//     that was made again is not answered with what its predecessor got.
//   - 429 without Retry-After is not tried again at once.
//   - Answers have a largest size, and a null child refuses the answer.
//   - In loose mode, an answer that has only unknown fields is refused: it would
//     mean that there should be no children.
//   - Strict mode refuses also a field that occurs twice in a child.
//   - Redirects that turn the POST into a GET, or take credentials elsewhere, are
//     not followed.
//   - managedFields and last-applied annotations are not sent.
package webhook
