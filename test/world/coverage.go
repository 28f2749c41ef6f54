package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Coverage is what of the core's rule tables decided in an exploration.
type Coverage struct {
	// Rules are "table rule", with how many decisions they made in the steps tried.
	Rules map[string]int
	// Pairs are those of a rule after another of the same table and job, of all runs:
	// "table rule > rule".
	Pairs map[string]bool
}

// Add takes in what another exploration covered.
func (c *Coverage) Add(other Coverage) {
	if c.Rules == nil {
		c.Rules, c.Pairs = map[string]int{}, map[string]bool{}
	}
	for rule, n := range other.Rules {
		c.Rules[rule] += n
	}
	maps.Copy(c.Pairs, other.Pairs)
}

// Lines are the rules and pairs, for people.
func (c *Coverage) Lines() (lines []string) {
	for _, rule := range slices.Sorted(maps.Keys(c.Rules)) {
		lines = append(lines, fmt.Sprintf("%9d  %s", c.Rules[rule], rule))
	}
	for _, pair := range slices.Sorted(maps.Keys(c.Pairs)) {
		lines = append(lines, "           "+pair)
	}
	return lines
}

// coverage gathers the decisions on the ways from state to state. Which rule was the
// last one in a state depends on the way there: that is found in the end, on the
// whole graph.
type coverage struct {
	rules map[string]int
	pairs map[string]bool
	// tables are of one job each: "job table"; names are their rules.
	tables map[string]int
	names  []map[string]uint64
	rule   [][]string
	// effects are the different ones of ways, edges where they lead.
	effects map[string]int32
	effect  [][]passage
	edges   []edge
}

// passage is the first and the last rule of a table on a way.
type passage struct {
	table       int
	first, last uint64
}

type edge struct{ from, to, effect int32 }

func (c *coverage) begin() {
	c.rules, c.pairs = map[string]int{}, map[string]bool{}
	c.tables, c.effects = map[string]int{}, map[string]int32{}
}

// bit of a rule in its table, which has at most 64.
func (c *coverage) bit(table int, rule string) uint64 {
	bit, ok := c.names[table][rule]
	if !ok {
		bit = 1 << len(c.rule[table])
		c.names[table][rule] = bit
		c.rule[table] = append(c.rule[table], rule)
	}
	return bit
}

// edge adds a way and what was decided on it.
func (c *coverage) edge(from, to int32, decided []decision) {
	var key strings.Builder
	for i := range decided {
		fmt.Fprintf(&key, "%s %s %s\n", decided[i].job, decided[i].table, decided[i].rule)
		c.rules[decided[i].table+" "+decided[i].rule]++
	}
	if from < 0 {
		return
	}
	id, ok := c.effects[key.String()]
	if !ok {
		id = int32(len(c.effect))
		c.effects[key.String()] = id
		c.effect = append(c.effect, c.passages(decided))
	}
	c.edges = append(c.edges, edge{from, to, id})
}

// passages also notes the pairs on the way.
func (c *coverage) passages(decided []decision) (list []passage) {
	at := map[int]int{}
	for i := range decided {
		d := &decided[i]
		key := d.job + " " + d.table
		table, ok := c.tables[key]
		if !ok {
			table = len(c.names)
			c.tables[key] = table
			c.names, c.rule = append(c.names, map[string]uint64{}), append(c.rule, nil)
		}
		bit := c.bit(table, d.rule)
		place, ok := at[table]
		if !ok {
			at[table] = len(list)
			list = append(list, passage{table, bit, bit})
			continue
		}
		c.pair(table, list[place].last, bit)
		list[place].last = bit
	}
	return list
}

// pair notes that a rule came after each of some.
func (c *coverage) pair(table int, before, rule uint64) {
	for i, name := range c.rule[table] {
		if before&(1<<i) == 0 || rule == 1<<i {
			continue
		}
		for j, next := range c.rule[table] {
			if rule == 1<<j {
				c.pairs[c.tableName(table)+" "+name+" > "+next] = true
			}
		}
	}
}

func (c *coverage) tableName(table int) string {
	for key, n := range c.tables {
		if n == table {
			_, name, _ := strings.Cut(key, " ")
			return name
		}
	}
	return ""
}

// close finds what may have been the last rule of each table in each state: that is
// carried along the ways until nothing is added.
func (c *coverage) close() Coverage {
	states := int32(0)
	for _, e := range c.edges {
		states = max(states, e.from+1, e.to+1)
	}
	slices.SortFunc(c.edges, func(a, b edge) int { return int(a.from - b.from) })
	starts := make([]int32, states+1)
	for _, e := range c.edges {
		starts[e.from+1]++
	}
	for i := range states {
		starts[i+1] += starts[i]
	}
	width := len(c.names)
	last := make([]uint64, int(states)*width)
	queued := make([]bool, states)
	var queue []int32
	for i := range states {
		queue, queued[i] = append(queue, i), true
	}
	seen := map[[2]uint64]bool{} // table and before, rule: pairs that were noted
	for len(queue) > 0 {
		from := queue[len(queue)-1]
		queue, queued[from] = queue[:len(queue)-1], false
		was := last[int(from)*width : (int(from)+1)*width]
		for _, e := range c.edges[starts[from]:starts[from+1]] {
			is := last[int(e.to)*width : (int(e.to)+1)*width]
			grew := false
			add := func(table int, bits uint64) {
				if is[table]|bits != is[table] {
					is[table] |= bits
					grew = true
				}
			}
			passed := uint64(0)
			for _, p := range c.effect[e.effect] {
				passed |= 1 << p.table
				if key := [2]uint64{was[p.table], uint64(p.table)<<56 ^ p.first}; was[p.table] != 0 && !seen[key] {
					seen[key] = true
					c.pair(p.table, was[p.table], p.first)
				}
				add(p.table, p.last)
			}
			for table := range width {
				if passed&(1<<table) == 0 {
					add(table, was[table])
				}
			}
			if grew && !queued[e.to] {
				queue, queued[e.to] = append(queue, e.to), true
			}
		}
	}
	return Coverage{Rules: c.rules, Pairs: c.pairs}
}
