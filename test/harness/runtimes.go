package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"rtj.dev/rtj/api/v1beta1"
)

// WatchRuntimes watches the pods of a namespace until the returned function is
// called, which says at what moments pods of two attempts of one job might have
// run at once. There must be none.
func (n *Namespace) WatchRuntimes(ctx context.Context) (stop func() []string) {
	ctx, cancel := context.WithCancel(ctx)
	r := &runtimes{}
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			if r.watch(ctx, n) != nil {
				select {
				case <-ctx.Done():
				case <-time.After(pollEvery):
				}
			}
		}
	})
	return func() []string {
		cancel()
		watching.Wait()
		return r.twice
	}
}

// runtimes are the pods that may run, by job and attempt.
type runtimes struct {
	live  map[types.UID]place
	twice []string
}

// place is which attempt of which job a pod belongs to.
type place struct{ job, attempt, pod string }

func (r *runtimes) watch(ctx context.Context, n *Namespace) error {
	client := n.Kube.CoreV1().Pods(n.Name)
	found, err := client.List(ctx, metav1.ListOptions{LabelSelector: v1beta1.LabelUID})
	if err != nil {
		return err
	}
	r.live = map[types.UID]place{}
	for i := range found.Items {
		r.see(&found.Items[i], true)
	}
	w, err := client.Watch(ctx, metav1.ListOptions{LabelSelector: v1beta1.LabelUID, ResourceVersion: found.ResourceVersion})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-w.ResultChan():
			pod, isPod := event.Object.(*corev1.Pod)
			if !ok || !isPod {
				return nil
			}
			r.see(pod, event.Type != watch.Deleted)
		}
	}
}

// see takes note of a pod and of what runs beside it.
func (r *runtimes) see(p *corev1.Pod, exists bool) {
	if !exists || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		delete(r.live, p.UID)
		return
	}
	here := place{p.Labels[v1beta1.LabelUID], p.Labels[v1beta1.LabelAttempt], p.Name}
	r.live[p.UID] = here
	others := map[string]bool{}
	for _, there := range r.live {
		if there.job == here.job && there.attempt != here.attempt {
			others[there.pod] = true
		}
	}
	if len(others) > 0 {
		r.twice = append(r.twice, fmt.Sprintf("%s: %s beside %s", time.Now().UTC().Format(time.TimeOnly), p.Name, strings.Join(slices.Sorted(maps.Keys(others)), ", ")))
	}
}
