package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/probe"
	probehttp "k8s.io/kubernetes/pkg/probe/http"
	probetcp "k8s.io/kubernetes/pkg/probe/tcp"

	"rtj.dev/rtj/test/node/sandbox"
)

// probeResults is what the probes of a running container have found; nil means
// that they have not found anything yet.
type probeResults struct {
	started, ready *bool
	// sick is why the container must be stopped.
	sick  string
	grace *int64 // in seconds; nil is the pod's
}

type probeKind string

const (
	startup   probeKind = "Startup"
	readiness probeKind = "Readiness"
	liveness  probeKind = "Liveness"
)

func (w *worker) probesOf(c *container) probeResults {
	w.inputs.Lock()
	defer w.inputs.Unlock()
	return w.results[c]
}

func (w *worker) started(c *container) bool {
	if !c.running() {
		return false
	}
	if c.spec.StartupProbe == nil {
		return true
	}
	if r := w.probesOf(c); r.started != nil {
		return *r.started
	}
	return c.wasStarted
}

func (w *worker) ready(c *container) bool {
	if c.init {
		end := c.ended()
		return end != nil && end.Code == 0
	}
	if !w.started(c) {
		return false
	}
	if c.spec.ReadinessProbe == nil {
		return true
	}
	if r := w.probesOf(c); r.ready != nil {
		return *r.ready
	}
	return c.wasReady
}

// watchProbes starts the probes of a running container, and stops a container
// that they found to be sick.
func (w *worker) watchProbes(ctx context.Context, c *container) {
	if r := w.probesOf(c); r.sick != "" && c.stop == nil {
		grace := graceOf(w.pod)
		if r.grace != nil {
			grace = seconds(*r.grace)
		}
		w.event(corev1.EventTypeNormal, "Killing", fmt.Sprintf("Container %s failed %s, will be restarted or fail", c.spec.Name, r.sick))
		w.stopContainer(ctx, c, time.Now().Add(grace))
		return
	}
	if c.probes != nil || c.init {
		return
	}
	probes := map[probeKind]*corev1.Probe{startup: c.spec.StartupProbe, readiness: c.spec.ReadinessProbe, liveness: c.spec.LivenessProbe}
	run, cancel := context.WithCancel(ctx)
	c.probes = cancel
	w.inputs.Lock()
	w.results[c] = probeResults{}
	w.inputs.Unlock()
	for kind, p := range probes {
		if p != nil {
			box, pod, started := c.box, w.pod, w.started(c)
			w.running.Go(func() { w.probe(run, kind, p, c, box, pod, started) })
		}
	}
}

func (w *worker) stopProbes() {
	for _, c := range w.all() {
		w.endWatches(c)
	}
}

// probe runs one probe of a container until it ends.
func (w *worker) probe(ctx context.Context, kind probeKind, p *corev1.Probe, c *container, box *sandbox.Container, pod *corev1.Pod, started bool) {
	pause := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	if !pause(time.Duration(p.InitialDelaySeconds) * time.Second) {
		return
	}
	streak, good := int32(0), false
	for first := true; ; first = false {
		if !first && !pause(time.Duration(max(1, p.PeriodSeconds))*time.Second) {
			return
		}
		if kind != startup && !started {
			if r := w.probesOf(c); c.spec.StartupProbe != nil && (r.started == nil || !*r.started) {
				continue
			}
		}
		err := runProbe(ctx, p, c.spec, box, w.rec.IP.String())
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.events.Event(pod, corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %v", kind, err))
		}
		if ok := err == nil; streak == 0 || ok != good {
			streak, good = 1, ok
		} else {
			streak++
		}
		if good && streak >= max(1, p.SuccessThreshold) || !good && streak >= max(1, p.FailureThreshold) {
			if w.found(kind, p, c, good) {
				return
			}
		}
	}
}

// found records a result that has reached its threshold, and says whether the
// probe has done its work.
func (w *worker) found(kind probeKind, p *corev1.Probe, c *container, good bool) (over bool) {
	w.inputs.Lock()
	defer w.inputs.Unlock()
	defer w.poke()
	r := w.results[c]
	switch {
	case kind == readiness:
		r.ready = &good
	case !good:
		r.sick, r.grace = strings.ToLower(string(kind))+" probe", p.TerminationGracePeriodSeconds
		over = true
	case kind == startup:
		r.started = &good
		over = true
	}
	w.results[c] = r
	return over
}

func runProbe(ctx context.Context, p *corev1.Probe, c *corev1.Container, box *sandbox.Container, ip string) error {
	timeout := time.Duration(max(1, p.TimeoutSeconds)) * time.Second
	switch {
	case p.Exec != nil:
		return runExec(ctx, timeout, p.Exec.Command, box)
	case p.HTTPGet != nil:
		return httpGet(p.HTTPGet, c, ip, timeout)
	case p.TCPSocket != nil:
		host := p.TCPSocket.Host
		if host == "" {
			host = ip
		}
		port, err := probe.ResolveContainerPort(p.TCPSocket.Port, c)
		if err != nil {
			return err
		}
		return verdict(probetcp.New().Probe(host, port, timeout))
	}
	return fmt.Errorf("a probe of this kind is not supported")
}

func runExec(ctx context.Context, timeout time.Duration, command []string, box *sandbox.Container) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out bytes.Buffer
	code, err := box.Exec(ctx, command, nil, &out, &out)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("command %q timed out after %s", command, timeout)
	case err != nil:
		return err
	case code != 0:
		return fmt.Errorf("command %q exited with %d: %s", command, code, firstBytes(out.String(), 1024))
	}
	return nil
}

func httpGet(get *corev1.HTTPGetAction, c *corev1.Container, ip string, timeout time.Duration) error {
	request, err := probehttp.NewRequestForHTTPGetAction(get, c, ip, "probe")
	if err != nil {
		return err
	}
	return verdict(probehttp.New(false).Probe(request, timeout))
}

func verdict(result probe.Result, message string, err error) error {
	if err == nil && result != probe.Success && result != probe.Warning {
		err = fmt.Errorf("%s", message)
	}
	return err
}

func firstBytes(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}

// runHook runs a lifecycle hook until it is over or ctx ends.
func runHook(ctx context.Context, hook *corev1.LifecycleHandler, c *corev1.Container, box *sandbox.Container, ip string) error {
	deadline, _ := ctx.Deadline()
	switch {
	case hook.Exec != nil:
		return runExec(ctx, time.Until(deadline), hook.Exec.Command, box)
	case hook.HTTPGet != nil:
		return httpGet(hook.HTTPGet, c, ip, time.Until(deadline))
	case hook.Sleep != nil:
		select {
		case <-ctx.Done():
		case <-time.After(seconds(hook.Sleep.Seconds)):
		}
		return nil
	}
	return fmt.Errorf("a hook of this kind is not supported")
}
