package cmd

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
)

// explain prints a decision for people: what the job is in and why, what is done,
// and the rule of each table that matched.
func explain(out io.Writer, o *compose.Observation, d *compose.Decision) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

	line("job\t%s/%s", o.Parent.Namespace, o.Parent.Name)
	line("at\t%s", o.Now.UTC().Format(time.RFC3339))
	if s := d.Status; s != nil {
		line("phase\t%s", s.Phase)
		for _, c := range s.Conditions {
			if c.Type == v1beta1.ConditionReady {
				line("because\t%s: %s", c.Reason, c.Message)
			}
		}
		line("attempt\t%d", s.Attempt)
	}
	switch {
	case o.Catalog == nil:
		line("store\tnot read")
	case o.Catalog.Failure != nil:
		line("store\t%s: %s", o.Catalog.Failure.Kind, o.Catalog.Failure.Message)
	default:
		line("store\t%d manifests, listed at %s", len(o.Catalog.Manifests), o.Catalog.ListedAt.UTC().Format(time.RFC3339))
	}
	if d.ResyncAfter > 0 {
		line("again in\t%s", d.ResyncAfter)
	}
	if d.Finalized {
		line("finalized\tthe job may go")
	}

	line("\nCHILD\tNAME\tCHANGE")
	for _, c := range d.Children {
		line("%s\t%s\t%s", c.Kind, c.Name, changeOf(c))
	}
	for _, gone := range unwanted(o, d) {
		line("%s\t%s\tdelete", gone.Kind, gone.Name)
	}
	if len(d.Patches) > 0 {
		line("\nPATCH\tOBJECT\tBODY")
	}
	for _, p := range d.Patches {
		line("%s\t%s/%s\t%s", p.Name, p.Target.Resource, p.Target.Name, p.Body)
	}
	line("\nTABLE\tRULE\tWHY")
	for _, m := range d.Rules {
		line("%s\t%s\t%s", m.Table, m.Rule, m.Why)
	}
	return w.Flush()
}

func changeOf(c compose.Child) string {
	switch {
	case c.New != nil:
		return "create"
	case len(c.Set) == 0:
		return "keep"
	}
	text := "set"
	for _, f := range c.Set {
		text += " "
		for i, key := range f.Path {
			if i > 0 {
				text += "."
			}
			text += key
		}
	}
	return text
}

// identity is a child in the list.
type identity struct{ Kind, Name string }

// unwanted are the observed children that the decision leaves out.
func unwanted(o *compose.Observation, d *compose.Decision) []identity {
	kept := map[identity]bool{}
	for _, c := range d.Children {
		kept[identity{c.Kind, c.Name}] = true
	}
	var gone []identity
	add := func(kind, name string) {
		if id := (identity{kind, name}); !kept[id] {
			gone = append(gone, id)
		}
	}
	for i := range o.Workloads {
		add("Workload", o.Workloads[i].Meta.Name)
	}
	for i := range o.JobSets {
		add("JobSet", o.JobSets[i].Meta.Name)
	}
	if o.Control != nil {
		add("ConfigMap", o.Control.Meta.Name)
	}
	return gone
}
