package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/test/node/hosts"
	"rtj.dev/rtj/test/node/podenv"
	"rtj.dev/rtj/test/node/sandbox"
	"rtj.dev/rtj/test/node/volume"
)

// graceOfGone is the grace period of a pod whose object is gone without the
// node's consent (a forced deletion), the same as a kubelet's.
const graceOfGone = time.Second

// minGrace is what containers get between SIGTERM and SIGKILL, also if their pod is
// deleted without any grace, as long as a finalizer keeps it.
const minGrace = 2 * time.Second

// worker owns one pod, from the first that is heard of it until its containers
// have ended and its object is gone.
type worker struct {
	*manager
	dir  string
	wake chan struct{}

	// Inputs, set by the watch.
	inputs  sync.Mutex
	latest  *corev1.Pod
	gone    bool
	results map[*container]probeResults

	// Owned by run.
	rec     podRecord
	pod     *corev1.Pod
	inits   []*container
	mains   []*container
	volumes *volume.Set
	aliases []hosts.Alias
	// mounted: all volumes were written once; refresh is when they are next.
	mounted bool
	refresh time.Time
	stale   bool     // the pod has changed since they were written
	blocked *waiting // why they cannot be written
	ending  *ending
	due     time.Time // when step must be called again at the latest
}

// ending is why and until when a pod's containers are stopped.
type ending struct {
	deadline time.Time
	// failed makes the pod Failed, with this reason, whatever its exit codes.
	reason, message string
}

func newWorker(m *manager, rec podRecord) *worker {
	return &worker{
		manager: m, rec: rec, dir: filepath.Join(m.Dir, podsDir, string(rec.UID)),
		wake: make(chan struct{}, 1), results: map[*container]probeResults{},
	}
}

func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// update hands in the pod's object; an older one than the known is ignored.
func (w *worker) update(pod *corev1.Pod) {
	w.inputs.Lock()
	if w.latest == nil || !older(pod, w.latest) {
		w.latest = pod
	}
	w.inputs.Unlock()
	w.poke()
}

func older(a, b *corev1.Pod) bool {
	x, errX := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, errY := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errX == nil && errY == nil && x < y
}

// remove says that the pod's object is gone.
func (w *worker) remove() {
	w.inputs.Lock()
	w.gone = true
	w.inputs.Unlock()
	w.poke()
}

func (w *worker) isRemoved() bool {
	w.inputs.Lock()
	defer w.inputs.Unlock()
	return w.gone
}

// run works until nothing of the pod is left, or ctx ends; containers run on
// then.
func (w *worker) run(ctx context.Context) {
	defer w.stopProbes()
	for {
		w.due = time.Time{}
		done, err := w.step(ctx)
		if done || ctx.Err() != nil {
			return
		}
		if err != nil {
			w.Log.Warn("pod", "pod", w.rec.Namespace+"/"+w.rec.Name, "error", err)
			w.dueIn(time.Second)
		}
		var timer <-chan time.Time
		if !w.due.IsZero() {
			timer = time.After(max(0, time.Until(w.due)))
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-timer:
		}
	}
}

func (w *worker) dueAt(t time.Time) {
	if w.due.IsZero() || t.Before(w.due) {
		w.due = t
	}
}

func (w *worker) dueIn(d time.Duration) { w.dueAt(time.Now().Add(d)) }

// step compares what should be with what is, once.
func (w *worker) step(ctx context.Context) (done bool, err error) {
	w.inputs.Lock()
	pod, gone := w.latest, w.gone
	w.inputs.Unlock()
	if pod == nil && !gone {
		return false, nil // started, and not told yet what about
	}
	changed := pod != nil && (w.pod == nil || contentChanged(w.pod, pod))
	w.stale = w.stale || changed
	first := w.pod == nil && pod != nil
	if pod != nil {
		w.pod = pod
	}
	if first {
		if finished(pod) && !w.hasRecord() {
			return w.finishOld(ctx, gone)
		}
		if err := w.load(); err != nil {
			w.pod = nil // load again
			return false, err
		}
	}
	if gone {
		return w.endGone(ctx)
	}
	if err := w.collect(); err != nil {
		return false, err
	}
	w.noticeEnd()
	switch {
	case w.ending != nil:
		w.stopRunning(ctx, w.ending.deadline)
	default:
		// Peers and the pod's own fields need the address before it starts.
		if first {
			if err := w.report(ctx); err != nil {
				return false, err
			}
		}
		w.advance(ctx, changed)
	}
	w.pursueStops()
	if err := w.report(ctx); err != nil {
		return false, err
	}
	if w.pod.DeletionTimestamp != nil && !w.anyRunning() {
		return false, w.deleteObject(ctx)
	}
	return false, nil
}

// contentChanged says whether anything but the status differs; that is what a
// kubelet calls an update of the pod.
func contentChanged(a, b *corev1.Pod) bool {
	return !reflect.DeepEqual(a.Labels, b.Labels) || !reflect.DeepEqual(a.Annotations, b.Annotations) ||
		!reflect.DeepEqual(a.Spec, b.Spec) || !a.DeletionTimestamp.Equal(b.DeletionTimestamp)
}

func (w *worker) hasRecord() bool {
	_, err := os.Stat(filepath.Join(w.dir, podFile))
	return err == nil
}

// finishOld deals with a pod that was over before this node heard of it.
func (w *worker) finishOld(ctx context.Context, gone bool) (bool, error) {
	defer func() { w.pod = nil }() // so that the next step comes here again
	if gone {
		return true, nil
	}
	if w.pod.DeletionTimestamp != nil {
		return false, w.deleteObject(ctx)
	}
	return false, nil
}

// load makes the pod's directory, or takes over what an earlier node left.
func (w *worker) load() error {
	if !w.rec.IP.IsValid() {
		ip := w.nodeIP
		if !w.pod.Spec.HostNetwork {
			var err error
			if ip, err = w.addresses.take(); err != nil {
				return err
			}
		}
		w.rec.IP = ip
	}
	if !w.hasRecord() {
		if err := os.MkdirAll(w.dir, 0o755); err != nil {
			return err
		}
		b, err := json.Marshal(w.rec)
		if err != nil {
			return err
		}
		tmp := filepath.Join(w.dir, podFile+".new")
		if err := os.WriteFile(tmp, b, 0o644); err != nil {
			return err
		}
		if err := os.Rename(tmp, filepath.Join(w.dir, podFile)); err != nil {
			return err
		}
	}
	// Before the pod is a peer: from then on, others write its hosts file.
	w.aliases = nil
	for _, a := range w.pod.Spec.HostAliases {
		w.aliases = append(w.aliases, hosts.Alias{IP: a.IP, Names: a.Hostnames})
	}
	w.setPeer(w.rec.UID, peer(w.pod, w.rec.IP.String()))
	w.volumes = volume.NewSet(filepath.Join(w.dir, volumesDir), objects{w.client})
	var err error
	if w.inits, err = w.loadContainers(w.pod.Spec.InitContainers, w.pod.Status.InitContainerStatuses, true); err != nil {
		return err
	}
	if w.mains, err = w.loadContainers(w.pod.Spec.Containers, w.pod.Status.ContainerStatuses, false); err != nil {
		return err
	}
	// Where a container was started, the volumes were written before.
	for _, c := range w.all() {
		w.mounted = w.mounted || c.box != nil
	}
	return nil
}

// endGone ends the containers of a pod whose object is gone, and its directory.
func (w *worker) endGone(ctx context.Context) (bool, error) {
	if w.pod == nil {
		// The object went while no node ran: only the directory tells.
		if err := w.loadFromDir(); err != nil {
			return false, err
		}
	} else if err := w.collect(); err != nil {
		return false, err
	}
	w.stopRunning(ctx, time.Now().Add(graceOfGone))
	w.pursueStops()
	if w.anyRunning() {
		return false, nil
	}
	w.stopProbes()
	w.setPeer(w.rec.UID, hosts.Peer{})
	if err := sandbox.RemoveTree(w.dir); err != nil {
		return false, err
	}
	if w.rec.IP.IsValid() && w.rec.IP != w.nodeIP {
		w.addresses.free(w.rec.IP)
	}
	return true, nil
}

// noticeEnd notices what ends the pod as a whole.
func (w *worker) noticeEnd() {
	pod := w.pod
	switch {
	case pod.DeletionTimestamp != nil:
		grace := graceOf(pod)
		if s := pod.DeletionGracePeriodSeconds; s != nil {
			grace = max(seconds(*s), minGrace)
		}
		w.endBy(time.Now().Add(grace), "", "")
	case finished(pod) && w.phase() != pod.Status.Phase:
		// Somebody else, such as pod garbage collection, declared it over.
		w.endBy(time.Now().Add(graceOf(pod)), "", "")
	case pod.Spec.ActiveDeadlineSeconds != nil && pod.Status.StartTime != nil && !w.over():
		at := pod.Status.StartTime.Add(seconds(*pod.Spec.ActiveDeadlineSeconds))
		if time.Now().Before(at) {
			w.dueAt(at)
			return
		}
		w.endBy(time.Now().Add(graceOf(pod)), "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
	}
}

// endBy starts the end of the pod; a later call can only shorten the grace.
func (w *worker) endBy(deadline time.Time, reason, message string) {
	if w.ending == nil {
		w.ending = &ending{deadline: deadline, reason: reason, message: message}
	}
	// The grace period of a deletion is asked for anew at each step, so only
	// one that was shortened by the user ends before the known deadline.
	if deadline.Before(w.ending.deadline) {
		w.ending.deadline = deadline
	}
}

func graceOf(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return seconds(*s)
	}
	return 30 * time.Second
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// advance starts and restarts what should run, and keeps volumes fresh.
func (w *worker) advance(ctx context.Context, changed bool) {
	if w.over() {
		return
	}
	if !w.keepVolumes(ctx, changed) {
		return
	}
	for _, c := range w.inits {
		if !w.ensure(ctx, c) {
			return
		}
	}
	for _, c := range w.mains {
		w.ensure(ctx, c)
	}
}

// keepVolumes writes volumes that are due; false means that nothing may start.
func (w *worker) keepVolumes(ctx context.Context, changed bool) bool {
	now := time.Now()
	if next := w.nextVolumes(); w.mounted && !w.stale && now.Before(next) {
		w.dueAt(next)
		return true
	}
	if w.blocked != nil && !changed && now.Before(w.blocked.retry) {
		w.dueAt(w.blocked.retry)
		return w.mounted
	}
	if err := w.volumes.Write(ctx, w.view()); err != nil {
		if ctx.Err() != nil {
			return w.mounted
		}
		// What was written before stays, as with a kubelet.
		most := 10 * time.Second
		if w.mounted {
			most = time.Minute
		}
		w.blocked = w.blocked.again("CreateContainerConfigError", err, time.Second, most)
		w.event(corev1.EventTypeWarning, "FailedMount", err.Error())
		w.dueAt(w.blocked.retry)
		return w.mounted
	}
	w.mounted, w.stale, w.blocked = true, false, nil
	// The period is counted from the start; an update in between does not
	// move it.
	for !w.refresh.After(now) {
		if w.refresh.IsZero() {
			w.refresh = now
		}
		w.refresh = w.refresh.Add(w.ConfigRefresh)
	}
	w.dueAt(w.nextVolumes())
	return true
}

// nextVolumes is when volumes are written next, if nothing changes before.
func (w *worker) nextVolumes() time.Time {
	if renew := w.volumes.Renew(); !renew.IsZero() && renew.Before(w.refresh) {
		return renew
	}
	return w.refresh
}

// view is the pod as its containers see it.
func (w *worker) view() podenv.Pod {
	port := w.APIServer.Port()
	if port == "" {
		port = "443"
	}
	home := "/root"
	if w.host.UserNamespace {
		home = "/"
	}
	return podenv.Pod{
		Pod: w.pod, NodeName: w.Name, HostIP: w.nodeIP.String(), IP: w.rec.IP.String(), Hostname: hostname(w.pod),
		Allocatable: w.Allocatable, Home: home,
		Services: map[string]string{
			"KUBERNETES_SERVICE_HOST":       w.APIServer.Hostname(),
			"KUBERNETES_SERVICE_PORT":       port,
			"KUBERNETES_SERVICE_PORT_HTTPS": port,
			"KUBERNETES_PORT":               fmt.Sprintf("tcp://%s:%s", w.APIServer.Hostname(), port),
		},
	}
}

// deleteObject is the node's consent to a deletion: everything has ended and
// the status says how. The object may stay, for finalizers.
func (w *worker) deleteObject(ctx context.Context) error {
	if s := w.pod.DeletionGracePeriodSeconds; s != nil && *s == 0 && len(w.pod.Finalizers) > 0 {
		return nil
	}
	zero := int64(0)
	err := w.client.CoreV1().Pods(w.rec.Namespace).Delete(ctx, w.rec.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &zero, Preconditions: metav1.NewUIDPreconditions(string(w.rec.UID)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (w *worker) event(kind, reason, message string) {
	if w.pod != nil {
		w.events.Event(w.pod, kind, reason, message)
	}
}
