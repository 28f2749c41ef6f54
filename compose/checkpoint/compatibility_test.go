package checkpoint

import "testing"

func TestSelectFitsTheWorldSize(t *testing.T) {
	attempts := map[int32]Records{1: fresh(1)}
	// shaped is a checkpoint of 6 or so ranks whose model reshards as told.
	shaped := func(worldSize int32, l Layout, reshard string) Manifest {
		return with(save(1, 100), func(m *Manifest) {
			m.WorldSize, m.Layout = worldSize, l
			m.Components = map[string]Component{"model": {reshard, true}, "optimizer": {reshard, true}, "rng": {"any", true}}
		})
	}
	one := id(1, 100)
	fits := func(name string, m Manifest, q Query) row {
		return row{name: name, attempts: attempts, manifests: []Manifest{m}, query: q, selected: one}
	}
	refused := func(name string, m Manifest, q Query, reason, says string) row {
		return row{name: name, attempts: attempts, manifests: []Manifest{m}, query: q,
			latest: one, passed: []string{one + " " + reason}, says: []string{says}}
	}
	ranks := func(n int32) Query { return Query{WorldSize: n} }
	exact := func(n int32) Query { return Query{WorldSize: n, ExactWorldSize: true} }

	run(t, []row{
		fits("the same number of ranks reads anything", shaped(6, Layout{DP: 6}, "none"), ranks(6)),
		fits("a world size that is not asked for is not compared", shaped(6, Layout{DP: 6}, "none"), ranks(0)),
		fits("resharding at will: 6 to 24", shaped(6, Layout{DP: 6}, "any"), ranks(24)),
		fits("resharding at will: 6 to 5, which does not divide", shaped(6, Layout{DP: 6}, "any"), ranks(5)),
		refused("state that is bound to its world size, by name", shaped(8, Layout{DP: 8}, "none"), ranks(4), ReasonWorldSizeMismatch,
			"written by 8 ranks, 4 are admitted, and only 8 ranks can read: model, optimizer"),
		refused("a way to reshard that is not known is none", shaped(8, Layout{DP: 8}, "pp"), ranks(4), ReasonWorldSizeMismatch, "only 8 ranks can read"),
		refused("exactly the same number was asked for", shaped(8, Layout{DP: 8}, "any"), exact(4), ReasonWorldSizeMismatch,
			"spec.resume.compatibility.worldSize is Exact"),
		fits("exactly the same number it is", shaped(8, Layout{DP: 8}, "none"), exact(8)),

		fits("along dp: 8 ranks of tp=2 to 6", shaped(8, Layout{DP: 4, TP: 2}, "dp"), ranks(6)),
		fits("along dp down to one replica", shaped(16, Layout{DP: 4, TP: 2, PP: 2}, "dp"), ranks(4)),
		refused("along dp: 5 ranks are not whole replicas of tp=2", shaped(8, Layout{DP: 4, TP: 2}, "dp"), ranks(5), ReasonLayoutMismatch,
			"5 ranks are no multiple of tp=2 x pp=1 x cp=1"),
		refused("along dp: fewer ranks than one replica", shaped(16, Layout{DP: 2, TP: 4, PP: 2}, "dp"), ranks(4), ReasonLayoutMismatch,
			"4 ranks are no multiple of tp=4 x pp=2 x cp=1"),
		// 8 ranks, experts spread over dp=8: at dp=6 a group of ep=4 would be cut.
		fits("experts inside dp: dp=4 holds ep=4", shaped(8, Layout{DP: 8, EP: 4}, "dp"), ranks(4)),
		refused("experts inside dp: dp=6 does not hold ep=4", shaped(8, Layout{DP: 8, EP: 4}, "dp"), ranks(6), ReasonLayoutMismatch,
			"dp=6 x cp=1 is no multiple of ep=4"),
		fits("experts over dp and cp: dp=2 x cp=2 holds ep=4", shaped(16, Layout{DP: 4, TP: 2, CP: 2, EP: 4}, "dp"), ranks(8)),
		// 16 = dp 2 x tp 2 x ep 4: a replica takes tp*ep = 8 ranks.
		fits("experts as a dimension of their own: 24 = 3 replicas of 8", shaped(16, Layout{DP: 2, TP: 2, EP: 4}, "dp"), ranks(24)),
		refused("experts as a dimension of their own: 12 is no multiple of 8", shaped(16, Layout{DP: 2, TP: 2, EP: 4}, "dp"), ranks(12), ReasonLayoutMismatch,
			"tp=2 x pp=1 x cp=1 x ep=4"),
		refused("a layout that contradicts the ranks that saved", shaped(6, Layout{DP: 1, TP: 4}, "dp"), ranks(8), ReasonLayoutMismatch, "contradicts its 6 ranks"),
		fits("an absent layout is plain data parallelism", shaped(6, Layout{}, "dp"), ranks(5)),
		refused("degrees beyond any number", shaped(6, Layout{TP: 1 << 30, PP: 1 << 30, CP: 1 << 30}, "dp"), ranks(8), ReasonLayoutMismatch, "contradicts"),
		{
			name:      "an older one that fits is taken, and the newer one named",
			attempts:  attempts,
			manifests: []Manifest{with(save(1, 50), func(m *Manifest) { m.WorldSize = 2 }), shaped(8, Layout{DP: 8}, "none")},
			query:     ranks(2),
			selected:  id(1, 50),
			latest:    one,
			passed:    []string{one + " WorldSizeMismatch"},
		},
	})
}

func TestSelectNeedsTheComponentsThatMatter(t *testing.T) {
	attempts := map[int32]Records{1: fresh(1)}
	without := func(name string) []Manifest {
		return []Manifest{with(save(1, 100), func(m *Manifest) {
			m.Components = map[string]Component{"model": {"any", true}, "optimizer": {"any", true}, "rng": {"none", true}}
			m.Components[name] = Component{Reshard: "none", Complete: false}
		})}
	}
	one := id(1, 100)
	run(t, []row{
		{
			name:      "without its optimizer it continues another training",
			attempts:  attempts,
			manifests: without("optimizer"),
			latest:    one,
			passed:    []string{one + " ComponentIncomplete"},
			says:      []string{"left out of the save: optimizer"},
		},
		{
			name:      "without its RNG an exact resumption is refused",
			attempts:  attempts,
			manifests: without("rng"),
			query:     Query{WorldSize: 4, ExactWorldSize: true},
			latest:    one,
			passed:    []string{one + " ComponentIncomplete"},
			says:      []string{"left out of the save: rng; an exact resumption needs every component"},
		},
		{
			name:      "without its RNG it resumes otherwise",
			attempts:  attempts,
			manifests: without("rng"),
			query:     Query{WorldSize: 4},
			selected:  one,
		},
		{
			name:      "what was left out need not be read at another world size",
			attempts:  attempts,
			manifests: without("rng"),
			query:     Query{WorldSize: 8},
			selected:  one,
		},
	})
}

func TestSelectComparesIdentityAndDevices(t *testing.T) {
	attempts := map[int32]Records{1: fresh(1)}
	written := []Manifest{with(save(1, 100), func(m *Manifest) {
		m.Identity = map[string]string{"codeVersion": "v6", "tokenizer": "a", "beyond": "x"}
		m.DeviceProfile = "h100"
	})}
	one := id(1, 100)
	run(t, []row{
		{name: "equal in all that is declared", attempts: attempts, manifests: written, selected: one,
			query: Query{Identity: map[string]string{"codeVersion": "v6", "tokenizer": "a"}, DeviceProfile: "h100"}},
		{name: "nothing declared, nothing compared", attempts: attempts, manifests: written, selected: one},
		{name: "every difference is named", attempts: attempts, manifests: written, latest: one,
			query:  Query{Identity: map[string]string{"codeVersion": "v7", "tokenizer": "a", "model": "7b"}},
			passed: []string{one + " IdentityMismatch"},
			says:   []string{`identity codeVersion is "v7", the checkpoint says "v6"; identity model is "7b", the checkpoint declares none`}},
		{name: "other devices", attempts: attempts, manifests: written, latest: one,
			query:  Query{DeviceProfile: "mi300"},
			passed: []string{one + " DeviceMismatch"},
			says:   []string{`written on devices "h100", now they are "mi300"`}},
	})
}
