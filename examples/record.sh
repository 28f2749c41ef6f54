#!/bin/sh
# Writes what the hooks are asked about a job, from the cluster of the current
# context, as `rtj hook sync --request` takes it. Needs kubectl and jq.
#
#   examples/record.sh NAMESPACE JOB >request.json
set -eu
[ $# = 2 ] || { echo "usage: $0 NAMESPACE JOB >request.json" >&2; exit 2; }
namespace=$1 job=$2

parent=$(kubectl get resumabletrainingjobs.v1beta1.training.rtj.dev "$job" -n "$namespace" -o json)
of() { printf %s "$parent" | jq -r "$1"; }
uid=$(of .metadata.uid)
trainer=$(of '.spec.trainer.replicatedJob // .spec.template.spec.replicatedJobs[0].name')

# objects KIND RESOURCE OPTION...: the objects by kind and namespace/name.
objects() {
  kind=$1
  shift
  list=$(kubectl get "$@" -o json)
  printf %s "$list" | jq --arg kind "$kind" '{($kind): [.items[] |
    {key: ([.metadata.namespace // empty, .metadata.name] | join("/")), value: .}] | from_entries}'
}

children=$(
  objects Workload.kueue.x-k8s.io/v1beta2 workloads.v1beta2.kueue.x-k8s.io -n "$namespace" -l "controller-uid=$uid"
  objects JobSet.jobset.x-k8s.io/v1alpha2 jobsets.v1alpha2.jobset.x-k8s.io -n "$namespace" -l "controller-uid=$uid"
  objects ConfigMap.v1 configmaps -n "$namespace" -l "controller-uid=$uid"
)
leader="jobset.sigs.k8s.io/replicatedjob-name=$trainer,jobset.sigs.k8s.io/job-index=0,batch.kubernetes.io/job-completion-index=0"
related=$(
  objects Job.batch/v1 jobs.v1.batch -n "$namespace" -l "training.rtj.dev/uid=$uid"
  objects Pod.v1 pods -n "$namespace" -l "training.rtj.dev/uid=$uid,$leader"
  objects LocalQueue.kueue.x-k8s.io/v1beta2 localqueues.v1beta2.kueue.x-k8s.io -n "$namespace"
  objects ClusterQueue.kueue.x-k8s.io/v1beta2 clusterqueues.v1beta2.kueue.x-k8s.io
  objects ResourceFlavor.kueue.x-k8s.io/v1beta2 resourceflavors.v1beta2.kueue.x-k8s.io
  objects WorkloadPriorityClass.kueue.x-k8s.io/v1beta2 workloadpriorityclasses.v1beta2.kueue.x-k8s.io
)
jq -n --argjson parent "$parent" \
  --argjson children "$(printf %s "$children" | jq -s add)" \
  --argjson related "$(printf %s "$related" | jq -s add)" \
  '{controller: {}, finalizing: ($parent.metadata.deletionTimestamp != null), parent: $parent, children: $children, related: $related}'
