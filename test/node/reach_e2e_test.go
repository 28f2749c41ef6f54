//go:build e2e

package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
)

func TestLogsFollowAndTail(t *testing.T) {
	w := newWorld(t)
	w.pod("a", "seq 1 1000; sleep 0.5; echo more; until test -e /tmp/stop; do sleep 0.05; done", func(p *corev1.Pod) {
		p.Spec.Containers[0].Command[2] = "seq 1 1000; sleep 0.5; echo more; sleep 0.5; echo end"
	})
	w.waitPod("a", "started", func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodPending })
	tail := int64(2)
	stream, err := w.client.CoreV1().Pods(w.ns).GetLogs("a", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	all, err := io.ReadAll(stream)
	if err != nil || !strings.HasPrefix(string(all), "1\n2\n") || !strings.HasSuffix(string(all), "1000\nmore\nend\n") {
		t.Errorf("followed to the end: %d bytes, %v", len(all), err)
	}
	b, err := w.client.CoreV1().Pods(w.ns).GetLogs("a", &corev1.PodLogOptions{TailLines: &tail}).DoRaw(t.Context())
	if err != nil || string(b) != "more\nend\n" {
		t.Errorf("tail: %q, %v", b, err)
	}
}

func TestExec(t *testing.T) {
	w := newWorld(t)
	w.pod("a", "echo in-here > /tmp/f; echo up; exec sleep 1000")
	w.waitLog("a", "up")
	run := func(stdin string, command ...string) (string, error) {
		request := w.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(w.ns).Name("a").SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Command: command, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec)
		executor, err := remotecommand.NewSPDYExecutor(w.config, "POST", request.URL())
		if err != nil {
			t.Fatal(err)
		}
		var out, errOut bytes.Buffer // written at the same time
		err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errOut})
		return out.String() + errOut.String(), err
	}
	if out, err := run("from outside\n", "sh", "-c", "cat /tmp/f -; echo complaint >&2"); err != nil || out != "in-here\nfrom outside\ncomplaint\n" {
		t.Errorf("%q, %v", out, err)
	}
	_, err := run("", "sh", "-c", "exit 6")
	if exit := (utilexec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitStatus() != 6 {
		t.Errorf("exit code: %v", err)
	}
}

func TestNamesResolveAcrossNodes(t *testing.T) {
	w := newWorld(t)
	other := w.newNode()
	in := func(node *node) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.Hostname, p.Spec.Subdomain = node.name, p.Name+"-host", "job"
		}
	}
	find := func(names ...string) string {
		script := ""
		for _, n := range names {
			script += "until getent hosts " + n + "; do sleep 0.05; done; "
		}
		return script + "echo done; exec sleep 1000"
	}
	full := "second-host.job." + w.ns + ".svc.cluster.local"
	w.pod("first", find("first-host.job", "second-host.job", full), in(w.node))
	w.waitPhase("first", corev1.PodRunning)
	second := w.pod("second", find("first-host.job"), in(other))
	w.waitLog("first", "done")
	w.waitLog("second", "done")
	second = w.get("second")
	for _, line := range strings.Split(strings.TrimSpace(w.log("first")), "\n")[1:3] {
		if !strings.HasPrefix(line, second.Status.PodIP+" ") {
			t.Errorf("%q does not name the address %s", line, second.Status.PodIP)
		}
	}
}
