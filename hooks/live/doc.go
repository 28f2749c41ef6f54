// Package live asks the API server for what no runner observes: the Secret with
// the credentials of a store, and whether a JobSet would be created.
package live
