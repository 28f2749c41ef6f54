// Package cluster runs a real Kubernetes control plane with real Kueue, JobSet
// and an S3 server as ordinary processes on loopback, for development and for
// end-to-end tests. It needs Go and Linux: no container runtime, no images and
// no root (without root, unprivileged user namespaces).
//
// Everything of one cluster lies in one folder: data, certificates, logs,
// records of processes, and cluster.json, which says where things are. Each
// cluster has ports and a loopback range for pods of its own, so clusters run
// side by side. The programs are built once and kept in a cache
// (RTJ_CACHE, else rtj in the user's cache folder).
//
// Tests call [Start] and [Cluster.Close]; people use the command in cmd/dev.
package cluster
