// Package harness runs ResumableTrainingJobs on the local cluster for those who
// watch them: the end-to-end tests, the demo and the count of API writes. It
// makes queues and jobs of examples/numpy, waits for what becomes of them, and
// says what was seen when a wait is in vain.
package harness
