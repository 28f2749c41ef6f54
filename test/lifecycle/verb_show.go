package lifecycle

import (
	"fmt"
	"strings"

	"rtj.dev/rtj/test/scenario"
)

// show prints without deciding anything:
//
//	show status          the whole status
//	show conditions      one line each
//	show ledger          one line an attempt
//	show children        their names
//	show Workload/llama-w1
func (w *world) show(c *command) (string, error) {
	what := c.word("status")
	switch what {
	case "children":
		var out strings.Builder
		for _, o := range w.children() {
			out.WriteString(place(o) + "\n")
		}
		if out.Len() == 0 {
			return "none\n", nil
		}
		return out.String(), nil
	case "status", "conditions", "ledger":
		if w.job() == nil {
			return "there is no job\n", nil
		}
		var value any = w.job().At("status")
		if what != "status" {
			return lines(w.job().At("status", what))
		}
		text, err := scenario.Format(value)
		return string(text), err
	}
	o := w.find(what)
	if o == nil {
		return "", fmt.Errorf("there is no %s", what)
	}
	text, err := scenario.Format(o.Body)
	return string(text), err
}

// lines writes a list, an item a line; of conditions only what decides.
func lines(value any) (string, error) {
	list, _ := value.([]any)
	var out strings.Builder
	for _, item := range list {
		o, ok := item.(object)
		if ok && o["type"] != nil {
			fmt.Fprintf(&out, "%v=%v %v", o["type"], o["status"], o["reason"])
			if o["message"] != "" {
				fmt.Fprintf(&out, ": %v", o["message"])
			}
			out.WriteString("\n")
			continue
		}
		text, err := scenario.Line(item)
		if err != nil {
			return "", err
		}
		out.WriteString(text + "\n")
	}
	if out.Len() == 0 {
		return "none\n", nil
	}
	return out.String(), nil
}
