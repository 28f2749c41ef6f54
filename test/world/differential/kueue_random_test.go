//go:build e2e

package differential

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/test/cluster"
	"rtj.dev/rtj/test/world/kueue"
)

const (
	// envSeeds are the seeds of the random scripts, instead of the first ones.
	envSeeds = "E2E_MODEL_SEED"
	// randomScripts and randomActs are how many there are, and how long they are.
	randomScripts = 6
	randomActs    = 14
	// mostWorkloads are there at once.
	mostWorkloads = 5
)

// TestKueueAtRandom runs scripts that nobody thought of. E2E_MODEL_SEED=7,8 runs others; a
// script depends on its seed, and on what Kueue does where it may do either.
func TestKueueAtRandom(t *testing.T) {
	seeds := os.Getenv(envSeeds)
	if seeds == "" {
		for i := range randomScripts {
			seeds += "," + strconv.Itoa(i+1)
		}
	}
	c := startCluster(t, cluster.Options{})
	config := kueue.Defaults()
	config.Late = true
	p := kueuePart(config)
	for _, text := range strings.Split(strings.Trim(seeds, ","), ",") {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s=%s: %v", envSeeds, seeds, err)
		}
		t.Run("seed "+text, func(t *testing.T) {
			t.Parallel()
			p.run(t, c, func(l *lockstep) {
				w := &wanderer{scene: begin(l, "gold=4", "silver=2"), random: rand.New(rand.NewPCG(seed, 0))}
				for range randomActs {
					w.act()
				}
			})
		})
	}
}

// wanderer acts at random, on what it finds on the cluster.
type wanderer struct {
	*scene
	random *rand.Rand
	made   int
}

type choice struct {
	what string
	do   func() error
}

func (w *wanderer) act() {
	w.Helper()
	// Sometimes two at once: what Kueue does about the first may come after the second.
	n := 1
	if w.random.IntN(4) == 0 {
		n = 2
	}
	for range n {
		choices := append(w.choices(), w.queueChoices()...)
		c := choices[w.random.IntN(len(choices))]
		w.Log(c.what)
		if err := c.do(); err != nil {
			w.Logf("  refused: %v", err)
		}
	}
	w.rest()
}

func (w *wanderer) choices() (list []choice) {
	found, err := w.real.of("Workload").List(context.Background(), metav1.ListOptions{})
	w.must(err)
	if len(found.Items) < mostWorkloads {
		for range 3 {
			list = append(list, w.creation())
		}
	}
	for _, u := range found.Items {
		o, name := u.Object, u.GetName()
		add := func(what string, times int, do func() error) {
			for range times {
				list = append(list, choice{what + " " + name, do})
			}
		}
		status := func(more object, set ...[3]string) func() error {
			return func() error { return w.conditions(name, more, set...) }
		}
		spec := func(spec object) func() error {
			return func() error { return w.patch("Workload", name, object{"spec": spec}, "") }
		}
		released := [][3]string{{"QuotaReserved", "False", "Pending"}, {"Admitted", "False", "NoReservation"}}
		reserved, _ := state(o, "QuotaReserved")
		evicted, why := state(o, "Evicted")
		_, waits := state(o, "QuotaReserved")
		switch done, _ := state(o, "Finished"); {
		case done == "True":
			add("delete", 2, func() error { return w.delete("Workload", name) })
			continue
		case reserved == "True" && evicted == "True":
			back := "False"
			if why == "Preempted" || why == "NodeFailures" {
				back = "True"
			}
			if strings.HasPrefix(why, "Deactivated") {
				why = "Deactivated"
			}
			add("release", 6, status(object{"admission": nil}, append(released, [3]string{"Requeued", back, why})...))
			add("put on hold", 1, status(object{"admission": nil}, [3]string{"QuotaReserved", "False", "OnHold"}, released[1]))
		case reserved == "True":
			add("put on hold", 1, status(object{"admission": nil}, [3]string{"QuotaReserved", "False", "OnHold"}, released[1]))
			add("finish", 1, status(nil, [3]string{"Finished", "True", "Succeeded"}))
			add("make ready", 1, status(nil, [3]string{"PodsReady", "True", "Started"}))
		default:
			if waits == "OnHold" {
				add("queue", 3, status(nil, released[0]))
			}
			pods := 1 + w.random.Int64N(4)
			add(fmt.Sprintf("ask for %d pods for", pods), 1, spec(object{"podSets": []any{podSet("workers", pods)}}))
			add("delete", 1, func() error { return w.delete("Workload", name) })
		}
		if at(o, "spec", "active") == false {
			add("activate", 3, spec(object{"active": true}))
		} else {
			add("deactivate", 1, spec(object{"active": false}))
		}
		priority := w.random.Int64N(3) * 10
		add(fmt.Sprintf("give priority %d to", priority), 1, spec(object{"priority": priority}))
	}
	return list
}

func (w *wanderer) creation() choice {
	w.made++
	name := fmt.Sprintf("w%d", w.made)
	pods, priority := 1+w.random.Int64N(4), w.random.Int64N(3)*10
	set := podSet("workers", pods)
	if w.random.IntN(4) == 0 {
		set["minCount"] = int64(1)
	}
	return choice{fmt.Sprintf("create %s, %d pods (%v), priority %d", name, pods, set["minCount"], priority), func() error {
		w.second()
		return w.create(object{"kind": "Workload", "metadata": object{"namespace": w.namespace(), "name": name}, "spec": object{
			"queueName": "queue", "priority": priority, "active": true, "podSets": []any{set},
		}})
	}}
}

func (w *wanderer) queueChoices() (list []choice) {
	for _, kind := range []string{"ClusterQueue", "LocalQueue"} {
		name := w.queueName(kind)
		u, err := w.real.of(kind).Get(context.Background(), name, metav1.GetOptions{})
		w.must(err)
		is, _ := at(u.Object, "spec", "stopPolicy").(string)
		for _, policy := range []string{"None", "Hold", "HoldAndDrain"} {
			times := 1
			switch {
			case policy == is:
				continue
			case policy == "None":
				times = 4
			}
			for range times {
				list = append(list, choice{"stop " + kind + ": " + policy, func() error {
					return w.patch(kind, name, object{"spec": object{"stopPolicy": policy}}, "")
				}})
			}
		}
	}
	return list
}

func state(o object, kind string) (status, reason string) {
	for _, c := range items(at(o, "status", "conditions")) {
		if c["type"] == kind {
			status, _ = c["status"].(string)
			reason, _ = c["reason"].(string)
		}
	}
	return status, reason
}
