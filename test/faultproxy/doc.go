// Package faultproxy stands between clients and a Kubernetes API server and does
// to what passes all that networks and API servers do at times: it delays and
// refuses requests, loses answers to requests that were carried out, carries one
// out twice, cuts and delays watches, and answers lists from an older state.
//
// It does nothing that a client may rely not to happen. Only lists that ask for
// any version (resourceVersion=0) are stale, and what is stale is a state that
// was, in the order in which it was.
//
// What happens to a request depends on the seed, on what is asked and on how
// often it was asked before, not on when it comes: so a seed gives the same
// request the same fate again, whatever else goes on at the time.
package faultproxy
