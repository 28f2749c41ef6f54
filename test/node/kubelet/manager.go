package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"rtj.dev/rtj/test/node/hosts"
	"rtj.dev/rtj/test/node/sandbox"
)

const (
	podsDir       = "pods"
	podFile       = "pod.json"
	hostsFile     = "hosts"
	volumesDir    = "volumes"
	containersDir = "containers"
)

// podRecord is what the node must still know about a pod after a restart.
type podRecord struct {
	Namespace, Name string
	UID             types.UID
	IP              netip.Addr
}

// manager starts a worker for each pod and knows who can be found by name.
type manager struct {
	*kubelet
	addresses *addresses
	records   map[types.UID]podRecord // found at the start, not yet taken over

	mu      sync.Mutex
	workers map[types.UID]*worker
	// peers are pods that can be found by name: those of this node from their
	// start on, others once their status says their address.
	peers   map[types.UID]hosts.Peer
	running sync.WaitGroup
	ctx     context.Context
}

func newManager(a *kubelet) (*manager, error) {
	m := &manager{
		kubelet: a, addresses: newAddresses(a.PodCIDR, a.nodeIP), records: map[types.UID]podRecord{},
		workers: map[types.UID]*worker{}, peers: map[types.UID]hosts.Peer{},
	}
	dirs, err := os.ReadDir(filepath.Join(a.Dir, podsDir))
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		path := filepath.Join(a.Dir, podsDir, d.Name())
		var rec podRecord
		b, err := os.ReadFile(filepath.Join(path, podFile))
		if err == nil {
			err = json.Unmarshal(b, &rec)
		}
		if errors.Is(err, fs.ErrNotExist) {
			// Written first of all, so nothing was started here.
			if err := sandbox.RemoveTree(path); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		m.records[rec.UID] = rec
		m.addresses.reserve(rec.IP)
	}
	return m, nil
}

// run watches pods until ctx ends and all workers have returned.
func (m *manager) run(ctx context.Context) error {
	m.ctx = ctx
	defer m.running.Wait()
	mine := informers.NewSharedInformerFactoryWithOptions(m.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", m.Name).String()
	}))
	pods := mine.Core().V1().Pods().Informer()
	registration, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { m.changed(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { m.changed(o.(*corev1.Pod)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			m.removed(o.(*corev1.Pod).UID)
		},
	})
	if err != nil {
		return err
	}
	mine.StartWithContext(ctx)
	defer mine.Shutdown()
	m.running.Go(func() { m.watchPeers(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	m.adoptOrphans()
	<-ctx.Done()
	return nil
}

// changed tells a pod's worker, and starts one for a pod that has none.
func (m *manager) changed(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.workers[pod.UID]
	if w == nil {
		rec, known := m.records[pod.UID]
		delete(m.records, pod.UID)
		if !known {
			rec = podRecord{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
		}
		w = m.start(rec)
	}
	w.update(pod)
}

func (m *manager) removed(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.workers[uid]; w != nil {
		w.remove()
	}
}

// adoptOrphans ends the containers of pods that went while no node ran here.
func (m *manager) adoptOrphans() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, rec := range m.records {
		m.Log.Info("ending the containers of a pod that is gone", "pod", rec.Namespace+"/"+rec.Name)
		m.start(rec).remove()
		delete(m.records, uid)
	}
}

func (m *manager) start(rec podRecord) *worker {
	w := newWorker(m, rec)
	m.workers[rec.UID] = w
	m.running.Go(func() {
		w.run(m.ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.ctx.Err() == nil {
			delete(m.workers, rec.UID)
		}
	})
	return w
}

// find returns the worker of a pod by name: of several, the one whose pod is
// not deleted.
func (m *manager) find(namespace, name string) *worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found *worker
	for _, w := range m.workers {
		if w.rec.Namespace == namespace && w.rec.Name == name && (found == nil || !w.isRemoved()) {
			found = w
		}
	}
	return found
}

// watchPeers follows the pods of other nodes, for their names. Where the node
// may not do that, names of other nodes' pods do not resolve.
func (m *manager) watchPeers(ctx context.Context) {
	elsewhere := fields.AndSelectors(
		fields.OneTermNotEqualSelector("spec.nodeName", m.Name), fields.OneTermNotEqualSelector("spec.nodeName", ""))
	options := func(o *metav1.ListOptions) { o.FieldSelector = elsewhere.String() }
	for {
		_, err := m.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: elsewhere.String(), Limit: 1})
		if err == nil {
			break
		}
		if apierrors.IsForbidden(err) {
			m.Log.Warn("pods on other nodes cannot be found by name: this node may not list pods", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Minute):
		}
	}
	others := informers.NewSharedInformerFactoryWithOptions(m.client, 0, informers.WithTweakListOptions(options),
		informers.WithTransform(func(o any) (any, error) {
			if pod, ok := o.(*corev1.Pod); ok {
				return namesOnly(pod), nil
			}
			return o, nil
		}))
	set := func(o any) {
		if pod := o.(*corev1.Pod); finished(pod) {
			m.setPeer(pod.UID, hosts.Peer{})
		} else {
			m.setPeer(pod.UID, peer(pod, pod.Status.PodIP))
		}
	}
	if _, err := others.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, o any) { set(o) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			m.setPeer(o.(*corev1.Pod).UID, hosts.Peer{})
		},
	}); err != nil {
		m.Log.Error("watch pods of other nodes", "error", err)
		return
	}
	others.StartWithContext(ctx)
	<-ctx.Done()
	others.Shutdown()
}

// namesOnly drops what is not needed to find a pod, to bound memory.
func namesOnly(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Spec:       corev1.PodSpec{Hostname: pod.Spec.Hostname, Subdomain: pod.Spec.Subdomain},
		Status:     corev1.PodStatus{PodIP: pod.Status.PodIP, Phase: pod.Status.Phase},
	}
}

func peer(pod *corev1.Pod, ip string) hosts.Peer {
	return hosts.Peer{Namespace: pod.Namespace, Hostname: hostname(pod), Subdomain: pod.Spec.Subdomain, IP: ip}
}

func hostname(pod *corev1.Pod) string {
	name := pod.Spec.Hostname
	if name == "" {
		name = pod.Name
	}
	// The kernel's limit for a host name, which is also a kubelet's.
	if len(name) > 63 {
		name = name[:63]
	}
	return name
}

// setPeer adds, changes or, with an empty peer, removes a pod that can be found
// by name, and rewrites the files of those who can find it.
func (m *manager) setPeer(uid types.UID, p hosts.Peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.peers[uid]
	if old == p {
		return
	}
	if p == (hosts.Peer{}) {
		delete(m.peers, uid)
	} else {
		m.peers[uid] = p
	}
	for _, w := range m.workers {
		mine, ok := m.peers[w.rec.UID]
		sees := func(p hosts.Peer) bool { return p.Subdomain == mine.Subdomain && p.Namespace == mine.Namespace }
		if ok && (w.rec.UID == uid || mine.Subdomain != "" && (sees(old) || sees(p))) {
			if err := m.writeHosts(w, mine); err != nil {
				m.Log.Error("write hosts", "pod", w.rec.Name, "error", err)
			}
		}
	}
}

func (m *manager) writeHosts(w *worker, mine hosts.Peer) error {
	all := make([]hosts.Peer, 0, len(m.peers))
	for _, p := range m.peers {
		all = append(all, p)
	}
	return hosts.Write(filepath.Join(w.dir, hostsFile), hosts.Render(mine, all, w.aliases))
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
