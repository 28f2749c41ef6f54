package kubelet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/apimachinery/lease"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/utils/clock"
)

const (
	// statusCheck is how often the node's status is compared with what it
	// should be, as a kubelet does; statusReport is how often it is written
	// although nothing changed.
	statusCheck  = 10 * time.Second
	statusReport = 5 * time.Minute
)

// register creates the node, or makes an existing one its own again.
func (a *kubelet) register(ctx context.Context, port int) error {
	want := a.nodeObject()
	for {
		node, err := a.registerOnce(ctx, want)
		if err == nil {
			a.node = &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: types.UID(node.Name)}
			if err = a.writeNodeStatus(ctx, port); err == nil {
				a.Log.Info("registered", "node", a.Name, "address", a.nodeIP, "port", port)
				return nil
			}
		}
		// Refused for what it asks: no retry helps.
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInvalid(err) {
			return fmt.Errorf("register node %s: %w", a.Name, err)
		}
		a.Log.Warn("cannot register yet", "error", err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

func (a *kubelet) registerOnce(ctx context.Context, want *corev1.Node) (*corev1.Node, error) {
	nodes := a.client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, want, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return node, err
	}
	node, err = nodes.Get(ctx, a.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	changed := node.DeepCopy()
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	maps.Copy(changed.Labels, want.Labels)
	if equality.Semantic.DeepEqual(changed, node) {
		return node, nil
	}
	return nodes.Update(ctx, changed, metav1.UpdateOptions{})
}

func (a *kubelet) nodeObject() *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname:   a.Name,
		corev1.LabelOSStable:   runtime.GOOS,
		corev1.LabelArchStable: runtime.GOARCH,
	}
	maps.Copy(labels, a.Labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: a.Name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: a.Taints},
	}
}

// heartbeat renews the lease and keeps the node's status true.
func (a *kubelet) heartbeat(ctx context.Context, port int) error {
	owner := func(l *coordinationv1.Lease) error {
		if len(l.OwnerReferences) > 0 {
			return nil
		}
		node, err := a.client.CoreV1().Nodes().Get(ctx, a.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
		return nil
	}
	leases := lease.NewController(clock.RealClock{}, a.client, a.Name, int32(a.LeaseDuration.Seconds()), nil,
		a.LeaseDuration/4, a.Name, corev1.NamespaceNodeLease, owner)
	done := make(chan struct{})
	go func() {
		defer close(done)
		leases.Run(ctx)
	}()
	defer func() { <-done }()
	ticker := time.NewTicker(statusCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			err := a.writeNodeStatus(ctx, port)
			if apierrors.IsNotFound(err) {
				// Somebody deleted the node; as long as this runs, there is one.
				_, err = a.registerOnce(ctx, a.nodeObject())
			}
			if err != nil && ctx.Err() == nil {
				a.Log.Warn("node status not written", "error", err)
			}
		}
	}
}

func (a *kubelet) writeNodeStatus(ctx context.Context, port int) error {
	node, err := a.client.CoreV1().Nodes().Get(ctx, a.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	changed := node.DeepCopy()
	a.setNodeStatus(&changed.Status, port, metav1.Now())
	if !statusDue(&node.Status, &changed.Status) {
		return nil
	}
	_, _, err = nodeutil.PatchNodeStatus(a.client.CoreV1(), types.NodeName(a.Name), node, changed)
	return err
}

// statusDue says whether anything but heartbeat times changed, or those are old.
func statusDue(old, want *corev1.NodeStatus) bool {
	beat := want.DeepCopy()
	for i := range beat.Conditions {
		for _, c := range old.Conditions {
			if c.Type != beat.Conditions[i].Type {
				continue
			}
			if beat.Conditions[i].LastHeartbeatTime.Sub(c.LastHeartbeatTime.Time) >= statusReport {
				return true
			}
			beat.Conditions[i].LastHeartbeatTime = c.LastHeartbeatTime
		}
	}
	return !equality.Semantic.DeepEqual(old, beat)
}

func (a *kubelet) setNodeStatus(s *corev1.NodeStatus, port int, now metav1.Time) {
	s.Capacity, s.Allocatable = a.Allocatable, a.Allocatable
	s.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: a.nodeIP.String()}}
	s.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	machine, _ := os.ReadFile("/etc/machine-id")
	s.NodeInfo = corev1.NodeSystemInfo{
		MachineID: strings.TrimSpace(string(machine)), BootID: strings.TrimSpace(string(boot)),
		KernelVersion: strings.TrimSpace(string(release)), OSImage: "the machine itself",
		ContainerRuntimeVersion: "process://1", KubeletVersion: kubeletVersion,
		OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
	}
	for _, c := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "NotMeasured", Message: "memory is not measured"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "NotMeasured", Message: "disks are not measured"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "NotMeasured", Message: "processes are not counted"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "ProcessNodeReady", Message: a.host.String()},
	} {
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		setNodeCondition(s, c)
	}
}

func setNodeCondition(s *corev1.NodeStatus, c corev1.NodeCondition) {
	for i := range s.Conditions {
		if old := &s.Conditions[i]; old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			*old = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}

// kubeletVersion is the version whose behaviour this follows.
const kubeletVersion = "v1.36.3"
