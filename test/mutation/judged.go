package main

import (
	"errors"
	"os"
	"strings"
)

// judgement names survivors that were judged: a row of the table in
// docs/mutation.md, without the reason.
type judgement struct{ file, where, change string }

func (c *change) judgement() judgement {
	return judgement{c.File, c.Where, strings.ReplaceAll(c.text(), "|", "¦")}
}

// readJudged reads the rows "| `file` | `function` | `change` | reason |".
func readJudged(file string) (map[judgement]string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	judged := map[judgement]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !strings.Contains(cells[0], ".go`") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		unquote := func(s string) string { return strings.Trim(s, "`") }
		judged[judgement{unquote(cells[0]), unquote(cells[1]), unquote(cells[2])}] = cells[3]
	}
	return judged, err
}
