package harness

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/cluster"
)

const (
	reportPodLines      = 15
	reportOperatorLines = 40
	reportEvents        = 30
)

// Report says all that there is to see of a namespace: jobs, their children,
// pods with the end of their logs, events, and what the operator said about it.
func (n *Namespace) Report(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var b strings.Builder
	found, err := n.Dynamic.Resource(jobs).Namespace(n.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Fprintf(&b, "jobs cannot be listed: %v\n", err)
		return b.String()
	}
	for i := range found.Items {
		job := &v1beta1.ResumableTrainingJob{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Items[i].Object, job); err != nil {
			fmt.Fprintf(&b, "%s: %v\n", found.Items[i].GetName(), err)
			continue
		}
		n.reportJob(ctx, &b, job)
	}
	n.reportPods(ctx, &b)
	n.reportEvents(ctx, &b)
	n.reportOperator(&b)
	return b.String()
}

func (n *Namespace) reportJob(ctx context.Context, b *strings.Builder, job *v1beta1.ResumableTrainingJob) {
	fmt.Fprintf(b, "--- job %s: %s\n", job.Name, Standing(job))
	if job.DeletionTimestamp != nil {
		fmt.Fprintf(b, "being deleted since %s; finalizers %v\n", job.DeletionTimestamp, job.Finalizers)
	}
	status, _ := yaml.Marshal(job.Status)
	b.Write(status)
	all, err := n.Workloads(ctx, job)
	if err != nil {
		fmt.Fprintf(b, "Workloads: %v\n", err)
	}
	for _, w := range all {
		fmt.Fprintf(b, "--- Workload %s, active %v, reserved %v, annotations %s\n", w.Name, w.Spec.Active == nil || *w.Spec.Active, Reserved(&w), text(w.Annotations))
		writeConditions(b, w.Status.Conditions)
	}
	sets, err := n.JobSets(ctx, job)
	if err != nil {
		fmt.Fprintf(b, "JobSets: %v\n", err)
	}
	for _, s := range sets {
		fmt.Fprintf(b, "--- JobSet %s, suspend %v, %s\n", s.Name, s.Spec.Suspend != nil && *s.Spec.Suspend, text(s.Status.ReplicatedJobsStatus))
		writeConditions(b, s.Status.Conditions)
	}
	children, err := n.Jobs(ctx, job)
	if err != nil {
		fmt.Fprintf(b, "Jobs: %v\n", err)
	}
	for _, j := range children {
		fmt.Fprintf(b, "--- Job %s: %s\n", j.Name, text(j.Status))
	}
	keys, err := n.List(ctx, n.RunPrefix(job))
	if err != nil {
		fmt.Fprintf(b, "store: %v\n", err)
		return
	}
	fmt.Fprintf(b, "--- store, %s\n", n.RunPrefix(job))
	for _, key := range keys {
		if rest := strings.TrimPrefix(key, n.RunPrefix(job)); !strings.HasPrefix(rest, "checkpoints/") {
			fmt.Fprintf(b, "  %s\n", rest)
		}
	}
}

func writeConditions(b *strings.Builder, conditions []metav1.Condition) {
	for _, c := range conditions {
		fmt.Fprintf(b, "  %s=%s/%s since %s: %s\n", c.Type, c.Status, c.Reason, c.LastTransitionTime.UTC().Format(time.TimeOnly), c.Message)
	}
}

func (n *Namespace) reportPods(ctx context.Context, b *strings.Builder) {
	pods, err := n.Kube.CoreV1().Pods(n.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Fprintf(b, "pods: %v\n", err)
		return
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		fmt.Fprintf(b, "--- pod %s on %s: %s %s\n", p.Name, p.Spec.NodeName, p.Status.Phase, containerState(p))
		if p.DeletionTimestamp != nil {
			fmt.Fprintf(b, "  being deleted since %s\n", p.DeletionTimestamp)
		}
		lines := int64(reportPodLines)
		out, err := n.Kube.CoreV1().Pods(n.Name).GetLogs(p.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
		if err != nil {
			fmt.Fprintf(b, "  no logs: %v\n", err)
			continue
		}
		for line := range strings.Lines(string(out)) {
			b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
		}
	}
}

func containerState(p *corev1.Pod) string {
	var all []string
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Terminated != nil:
			all = append(all, fmt.Sprintf("%s exited %d (%s)", s.Name, s.State.Terminated.ExitCode, s.State.Terminated.Reason))
		case s.State.Waiting != nil:
			all = append(all, fmt.Sprintf("%s waits: %s %s", s.Name, s.State.Waiting.Reason, s.State.Waiting.Message))
		default:
			all = append(all, s.Name+" runs")
		}
	}
	return strings.Join(all, ", ")
}

func (n *Namespace) reportEvents(ctx context.Context, b *strings.Builder) {
	events, err := n.Kube.CoreV1().Events(n.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Fprintf(b, "events: %v\n", err)
		return
	}
	fmt.Fprintf(b, "--- events\n")
	items := events.Items
	if len(items) > reportEvents {
		items = items[len(items)-reportEvents:]
	}
	for _, e := range items {
		fmt.Fprintf(b, "  %s %s %s/%s: %s\n", e.LastTimestamp.UTC().Format(time.TimeOnly), e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
	}
}

// reportOperator quotes what the operator's log says about the namespace.
func (n *Namespace) reportOperator(b *strings.Builder) {
	var ours []string
	for line := range strings.Lines(n.LogTail(cluster.Operator, 100000)) {
		if strings.Contains(line, n.Name) || strings.Contains(line, "panic") {
			ours = append(ours, strings.TrimRight(line, "\n"))
		}
	}
	fmt.Fprintf(b, "--- operator's log about it\n")
	if len(ours) > reportOperatorLines {
		ours = ours[len(ours)-reportOperatorLines:]
	}
	for _, line := range ours {
		fmt.Fprintf(b, "  %s\n", line)
	}
}
