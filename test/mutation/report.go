package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// key names a mutant from one version of the sources to the next.
type key struct{ File, Where, Kind, Before, After string }

func (c *change) key() key { return key{c.File, c.Where, c.Kind, c.Before, c.After} }

// report is the result of a run; its JSON is the same for the same tree.
type report struct {
	Mutants int `json:"mutants"`
	Killed  int `json:"killed"`
	// Units of the killed are killed only by tests of a part of the core.
	Units   int     `json:"units"`
	Percent float64 `json:"percent"` // killed of all, without Units
	// Judged survivors are equivalent; Open ones are not judged.
	Judged int       `json:"judged"`
	Open   int       `json:"open"`
	Files  []*tally  `json:"files"`
	List   []*result `json:"list"`
	// stale judgements are of mutants that are gone or are killed.
	Stale []string `json:"staleJudgements,omitempty"`
}

// tally counts the mutants of one file.
type tally struct {
	File     string         `json:"file"`
	Mutants  int            `json:"mutants"`
	Killed   map[string]int `json:"killed"` // by suite
	Units    int            `json:"units"`
	Survived int            `json:"survived"`
	Judged   int            `json:"judged"`
}

func (t *tally) percent() float64 { return percent(t.Mutants-t.Survived-t.Units, t.Mutants) }

func percent(n, of int) float64 { return 100 * float64(n) / float64(of) }

// newReport counts. Whether a judgement is stale is known only of a complete run.
func newReport(results []*result, judged map[judgement]string, complete bool) *report {
	r := &report{Mutants: len(results), List: results}
	files := map[string]*tally{}
	used := map[judgement]bool{}
	for _, m := range results {
		t := files[m.File]
		if t == nil {
			t = &tally{File: m.File, Killed: map[string]int{}}
			files[m.File] = t
			r.Files = append(r.Files, t)
		}
		t.Mutants++
		if m.killed() {
			t.Killed[m.By]++
			r.Killed++
			if isUnit(m.By) {
				t.Units++
				r.Units++
			}
			continue
		}
		t.Survived++
		j := m.judgement()
		if why, ok := judged[j]; ok {
			m.Judged = why
			used[j] = true
			t.Judged++
			r.Judged++
		} else {
			r.Open++
		}
	}
	r.Percent = percent(r.Killed-r.Units, r.Mutants)
	for j := range judged {
		if complete && !used[j] {
			r.Stale = append(r.Stale, fmt.Sprintf("%s %s %s", j.file, j.where, j.change))
		}
	}
	slices.Sort(r.Stale)
	return r
}

func (r *report) writeJSON(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if file == "-" {
		_, err = os.Stdout.Write(text)
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// readReport reads the results of an earlier run by mutant; of several that are named
// alike one that survived.
func readReport(file string) (map[key]*result, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r struct {
		List []struct {
			change
			By, Test         string
			Timeout, Reached bool
		}
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	before := map[key]*result{}
	for i := range r.List {
		m := &r.List[i]
		if known := before[m.key()]; known == nil || known.killed() {
			before[m.key()] = &result{change: &m.change, By: m.By, Test: m.Test, Timeout: m.Timeout, Reached: m.Reached}
		}
	}
	return before, nil
}

// carried are the results of those that are not run again, in the order of all.
func carried(all []*change, ran []*result, before map[key]*result) []*result {
	results := map[int]*result{}
	for _, r := range ran {
		results[r.ID] = r
	}
	var list []*result
	for _, c := range all {
		r := results[c.ID]
		if old := before[c.key()]; r == nil && old != nil {
			r = &result{change: c, By: old.By, Test: old.Test, Timeout: old.Timeout, Reached: old.Reached}
		}
		if r != nil {
			list = append(list, r)
		}
	}
	return list
}

// print prints the table, the survivors that are not judged, and one line of figures.
func (r *report) print(took time.Duration) {
	r.survivors()
	r.table()
	for _, s := range r.Stale {
		fmt.Printf("judged, but it is killed or gone: %s\n", s)
	}
	fmt.Printf("mutation: %d mutants, %d killed (%.1f %%), with tests of a part %d (%.1f %%), %d survived: %d judged equivalent, %d open, %.0f s\n",
		r.Mutants, r.Killed-r.Units, r.Percent, r.Killed, percent(r.Killed, r.Mutants), r.Mutants-r.Killed, r.Judged, r.Open, took.Seconds())
}

func (r *report) survivors() {
	for _, m := range r.List {
		if m.killed() || m.Judged != "" {
			continue
		}
		fmt.Println(m.survival())
	}
}

// survival is a survivor in one line.
func (r *result) survival() string {
	reached := ""
	if !r.Reached {
		reached = "  (no test runs it)"
	}
	return fmt.Sprintf("survived %5d  %s:%d  %s  %s%s", r.ID, r.File, r.Line, r.Where, r.text(), reached)
}

func (r *report) table() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	total := &tally{File: "all", Killed: map[string]int{}}
	row := func(t *tally) {
		fmt.Fprintf(w, "%s\t%d\t", t.File, t.Mutants)
		for _, name := range suiteNames() {
			fmt.Fprintf(w, "%d\t", t.Killed[name])
			if t != total {
				total.Killed[name] += t.Killed[name]
			}
		}
		fmt.Fprintf(w, "%d\t%d\t%.1f %%\t\n", t.Survived, t.Judged, t.percent())
	}
	fmt.Fprint(w, "file\tmutants\t")
	for _, name := range suiteNames() {
		fmt.Fprintf(w, "by %s\t", name)
	}
	fmt.Fprint(w, "survived\tjudged\tkilled\t\n")
	for _, t := range r.Files {
		row(t)
		total.Mutants += t.Mutants
		total.Units += t.Units
		total.Survived += t.Survived
		total.Judged += t.Judged
	}
	row(total)
	w.Flush()
}
