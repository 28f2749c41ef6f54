package trainer

// Heal ends what would never end by itself: the processes of pods whose main threads
// hang. Somebody looks after them, as an alert on missing progress asks for.
func (t *Trainer) Heal() {
	var hung []string
	for i := range t.processes {
		if t.processes[i].hung {
			hung = append(hung, t.processes[i].uid)
		}
	}
	for _, uid := range hung {
		t.exit(uid, 1)
	}
}
