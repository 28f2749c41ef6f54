// Package differential has the tests that run the same script on a local cluster and in
// the simulated world, and compare what can be seen.
//
// A script is a function over a [lockstep]. Each of its acts is done on the cluster,
// which then comes to rest. What objects went through until then, in the order of their
// resourceVersions and without times, must be something that the model can go through
// too, by some order of its events; and at its end the model must be at rest, and show
// the same. A refusal must be one in both. What the cluster does in one of several
// orders is so compared as strictly as what it always does in the same.
//
// Of JobSets, Jobs and pods there are too many orders: the model plays many of them, and
// what the cluster shows of each object, and after what, must be among that, as what it
// comes to rest in.
//
// A difference is a fault of the model. What belongs to one part of the world (Kueue,
// JobSet) is a [part]: its actors, its kinds, how an object's state reads; and scripts.
package differential
