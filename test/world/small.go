package world

// Small is a world to be explored: so many jobs, of one pod each, that share quota for
// one, and trainings of three steps with two checkpoints.
func Small(jobs, urgent, acts, faults int) Config {
	return Config{Jobs: jobs, Urgent: urgent, Pods: 1, Quotas: []int64{1}, Runners: 1, Steps: 3, Acts: acts, Deletes: acts > 0, Explored: true, FaultsLeft: faults}
}

// SmallWorld is one of the worlds that are explored.
type SmallWorld struct {
	Name string
	Config
}

// SmallWorlds are those that are explored together, the smallest first.
func SmallWorlds() []SmallWorld {
	return []SmallWorld{
		{"one job", Small(1, 0, 0, 0)},
		{"one job and one fault", Small(1, 0, 0, 1)},
		{"one job and one act of people", coarse(Small(1, 0, 1, 0))},
		{"two jobs, of which one preempts the other", Small(2, 1, 0, 0)},
		{"two jobs, of which one preempts the other, and one fault", coarse(Small(2, 1, 0, 1))},
	}
}

// coarse is a world of which times are told apart by about how long ago they are.
func coarse(c Config) Config {
	c.CoarseTimes = true
	return c
}
