//go:build e2e

package election_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"rtj.dev/rtj/metacontroller/election"
	"rtj.dev/rtj/test/cluster"
)

const namespace = "default"

// config reaches the API server of a local cluster.
var config *rest.Config

func TestMain(m *testing.M) {
	os.Exit(cluster.RunTests(func(c *cluster.Cluster) error {
		config = c.RESTConfig
		return nil
	}, m.Run))
}

// candidate is a replica in this process.
type candidate struct {
	t      *testing.T
	name   string
	writes kubernetes.Interface
	// cut breaks the connection of the election.
	cut     atomic.Bool
	leading chan struct{}
	stop    context.CancelFunc
	ended   chan error
	*election.Election
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// contend lets a replica contend for the lease of the test. Once it leads it does
// nothing until its context ends.
func contend(t *testing.T, name string) *candidate {
	t.Helper()
	c := &candidate{t: t, name: name, leading: make(chan struct{}), ended: make(chan error, 1)}
	fence := election.NewFence(2 * time.Second)
	fenced := rest.CopyConfig(config)
	fenced.Wrap(fence.Wrap)
	var err error
	if c.writes, err = kubernetes.NewForConfig(fenced); err != nil {
		t.Fatal(err)
	}
	own := rest.CopyConfig(config)
	own.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if c.cut.Load() {
				return nil, errors.New("cut off")
			}
			return next.RoundTrip(r)
		})
	})
	if c.Election, err = election.New(election.Options{
		Config: own, Fence: fence, Namespace: namespace, Name: strings.ToLower(t.Name()), Identity: name,
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 500 * time.Millisecond,
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	go func() {
		c.ended <- c.Run(ctx, func(ctx context.Context) error {
			close(c.leading)
			<-ctx.Done()
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-c.ended:
		case <-time.After(time.Minute):
			t.Errorf("%s does not end", name)
		}
	})
	return c
}

// write tries to write.
func (c *candidate) write() error {
	_, err := c.writes.CoreV1().ConfigMaps(namespace).Create(c.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "election-" + c.name + "-"},
	}, metav1.CreateOptions{})
	return err
}

func (c *candidate) untilLeading() {
	c.t.Helper()
	select {
	case <-c.leading:
	case <-time.After(time.Minute):
		c.t.Fatalf("%s does not come to lead", c.name)
	}
}

func (c *candidate) isStandby() {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); c.Standby() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s is no standby: %v", c.name, c.Standby())
		}
	}
	if c.Leading() {
		c.t.Fatalf("%s leads too", c.name)
	}
	if err := c.write(); !errors.Is(err, election.ErrClosed) {
		c.t.Errorf("%s is a standby and writes: %v", c.name, err)
	}
}

// holder is who the lease says.
func holder(t *testing.T) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := client.CoordinationV1().Leases(namespace).Get(t.Context(), strings.ToLower(t.Name()), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// A leader that ends gives the lease back, and a standby has it at once.
func TestHandOver(t *testing.T) {
	a := contend(t, "a")
	a.untilLeading()
	if err := a.write(); err != nil {
		t.Errorf("the leader cannot write: %v", err)
	}
	b := contend(t, "b")
	b.isStandby()
	begun := time.Now()
	a.stop()
	b.untilLeading()
	t.Logf("handed over in %s", time.Since(begun).Round(time.Millisecond))
	if err := <-a.ended; err != nil {
		t.Errorf("a leader that was stopped ends with %v", err)
	}
	a.ended <- nil
	if got := holder(t); got != "b" {
		t.Errorf("the lease says %q", got)
	}
	if err := a.write(); !errors.Is(err, election.ErrClosed) {
		t.Errorf("it writes after it gave the lease back: %v", err)
	}
	if err := b.write(); err != nil {
		t.Errorf("the new leader cannot write: %v", err)
	}
}

// A leader that is cut off stops writing before another can lead, and says so.
func TestLeaderThatCannotRenew(t *testing.T) {
	a := contend(t, "a")
	a.untilLeading()
	b := contend(t, "b")
	b.isStandby()
	a.cut.Store(true)
	// Only its election is cut off, so each of its writes would arrive.
	for {
		another := b.Leading()
		if a.write() != nil {
			break
		}
		if another {
			t.Fatal("it writes although another leads")
		}
		time.Sleep(10 * time.Millisecond)
	}
	err := <-a.ended
	a.ended <- nil
	var lost *election.LostError
	if !errors.As(err, &lost) {
		t.Errorf("want a LostError, got %v", err)
	}
	b.untilLeading()
	a.cut.Store(false)
	if err := a.write(); !errors.Is(err, election.ErrClosed) {
		t.Errorf("it writes again: %v", err)
	}
}

// A lease that someone else is seen to have ends the term at once.
func TestLeaseTakenByHand(t *testing.T) {
	a := contend(t, "a")
	a.untilLeading()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"spec":{"holderIdentity":"someone"}}`)
	if _, err := client.CoordinationV1().Leases(namespace).Patch(t.Context(), strings.ToLower(t.Name()), "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	err = <-a.ended
	a.ended <- nil
	var lost *election.LostError
	if !errors.As(err, &lost) {
		t.Errorf("want a LostError, got %v", err)
	}
	if got := holder(t); got != "someone" {
		t.Errorf("the lease was given back though it was someone else's: %q", got)
	}
}

// A standby that is stopped leaves the lease alone.
func TestStandbyEnds(t *testing.T) {
	a := contend(t, "a")
	a.untilLeading()
	b := contend(t, "b")
	b.isStandby()
	b.stop()
	if err := <-b.ended; err != nil {
		t.Error(err)
	}
	b.ended <- nil
	if got := holder(t); got != "a" {
		t.Errorf("the lease says %q", got)
	}
}

// A lease that cannot be made is no reason to be ready.
func TestLeaseThatCannotBeCreated(t *testing.T) {
	e, err := election.New(election.Options{
		Config: config, Fence: election.NewFence(2 * time.Second), Namespace: "not-there", Name: "lease", Identity: "a",
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 500 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx, func(context.Context) error { return errors.New("it leads") }) }()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := e.Standby()
		if err != nil && strings.Contains(err.Error(), `lease not-there/lease cannot be created: namespaces "not-there" not found`) {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("got %v", err)
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
