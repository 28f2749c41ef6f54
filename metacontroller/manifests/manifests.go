// Package manifests holds the objects with which RTJ is installed.
package manifests

import _ "embed"

// CompositeController says what RTJ's hooks are run for: parents, children and
// update strategies. Both runners read it.
//
//go:embed compositecontroller.yaml
var CompositeController []byte

// RBAC is what the operator may do, and what Kueue needs to read RTJs.
//
//go:embed rbac.yaml
var RBAC []byte
