package kueue_test

import (
	"testing"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/kueue"
)

// A Workload whose shape had no room before its LocalQueue was stopped is put aside,
// though the room is there, until Kueue is restarted.
func TestARoomThatCameInAStoppedQueueIsOverlooked(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=2")
	stop := func(policy string) {
		_, err := f.api.Patch("admin", "LocalQueue", "team", "queue", object{"spec": object{"stopPolicy": policy}}, "")
		f.must(err)
		f.settle()
	}
	remove := func(name string) {
		f.must(f.api.Delete("user", "Workload", "team", name, apiserver.Deletion{}))
		f.settle()
	}
	f.workload("a", 2, 0)
	f.settle()
	f.workload("b", 2, 0)
	f.settle()
	stop("Hold")
	remove("b")
	remove("a")
	stop("None")
	f.workload("c", 2, 0)
	f.workload("smaller", 1, 0)
	f.settle()
	f.is("smaller", "Admitted=True")
	remove("smaller") // an end in a queue that runs has all be tried again
	f.is("c", "Admitted=True")

	stop("Hold")
	f.workload("d", 2, 0)
	remove("c")
	stop("None")
	f.is("d", "Admitted=True") // what the queue brings along is tried

	f.workload("e", 2, 0)
	f.settle()
	stop("Hold")
	remove("e")
	remove("d")
	stop("None")
	f.workload("f", 2, 0)
	f.settle()
	f.is("f", "QuotaReserved=")
	if !f.Overlooks() {
		t.Error("f has room and is not tried, and that is not noticed")
	}
	f.Restart()
	f.settle()
	f.is("f", "Admitted=True")
}
