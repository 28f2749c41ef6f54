package trainer

import "rtj.dev/rtj/test/world/store"

// Fingerprint takes up what decides the workers' future. Attempts that are over have
// none.
func (t *Trainer) Fingerprint(h store.Hash) {
	h.Int(int64(len(t.processes)))
	for i := range t.processes {
		p := &t.processes[i]
		h.JSON(p.uid)
		h.Text(p.env.podName)
		h.Int(int64(t.place(p.gang)))
		takeRequest(h, p.control)
		takeRequest(h, p.notice)
		h.Time(p.terminated)
		h.Time(p.readyAt)
		h.Bool(p.hung)
	}
	for _, e := range t.ended {
		h.JSON(e.uid)
		h.Int(int64(e.code))
	}
	for _, u := range t.unborn {
		h.JSON(u.uid + u.control + u.notice)
	}
	h.Int(int64(len(t.gangs)))
	for i := range t.gangs {
		t.gangs[i].fingerprint(h)
	}
}

// place of a gang among those that run: its number counts those that are over, too.
func (t *Trainer) place(number int) int {
	for i := range t.gangs {
		if t.gangs[i].number == number {
			return i
		}
	}
	return -1
}

func takeRequest(h store.Hash, r *request) {
	if h.Bool(r != nil); r != nil {
		h.Int(int64(r.id))
		h.Text(r.cause)
		h.Time(r.deadline)
	}
}

func (g *gang) fingerprint(h store.Hash) {
	h.JSON(g.env.prefix)
	h.Text(g.label)
	h.Text(g.behaves)
	h.Text(store.Plain(g.Selected.ID))
	h.Time(g.StartedAt)
	h.Int(int64(g.present))
	h.Time(g.ledAt)
	for _, at := range g.firsts {
		h.Int(int64(at))
	}
	for _, is := range []bool{g.leads, g.opened, g.started, g.trains, g.halted, g.Restored, g.decided, g.finishing, g.news, g.Acknowledged, g.Recorded} {
		h.Bool(is)
	}
	h.Time(g.leaderGone)
	h.Time(g.followerGone)
	h.Text(g.gone)
	h.Time(g.since)
	h.Time(g.restoreAt)
	h.Time(g.firstStepAt)
	h.Int(int64(g.restoreTook))
	h.Int(g.Step)
	h.Int(int64(len(g.flying)))
	for i := range g.flying {
		s := &g.flying[i]
		h.Text(s.nonce)
		h.Int(s.step)
		h.Int(int64(s.stored))
		h.Bool(s.yielding)
		h.Bool(s.final)
		h.Bool(s.lost)
		h.JSON(store.Plain(string(s.manifest)))
		h.Time(s.begun)
		h.Time(s.from)
	}
	h.Int(int64(g.saves))
	h.Int(int64(len(g.Commits)))
	h.Int(g.committed())
	h.Time(g.lastWish)
	h.Int(int64(g.estimate))
	if h.Bool(g.asked != nil); g.asked != nil {
		takeRequest(h, &g.asked.request)
		h.Time(g.asked.killAt)
		h.Time(g.AskedAt)
	}
	h.Int(g.Agreed)
	h.Text(g.Outcome)
	h.Text(store.Plain(g.Message))
	h.Time(g.concludedAt)
	h.JSON(store.Plain(string(g.result)))
	if h.Bool(g.told != nil); g.told != nil {
		h.Text(*g.told)
	}
	h.Time(g.progressAt)
	for _, what := range []string{"start", "result"} {
		h.Bool(g.lost[what])
	}
}
