// Package figures is how tests and benchmarks outside Go's own format hand
// measured values to `make bench`: a line of JSON after a prefix.
package figures

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Prefix begins a line with a figure.
const Prefix = "figure: "

// Figure is one measured value.
type Figure struct {
	Name  string  `json:"name"`
	Input string  `json:"input"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Print prints a figure.
func Print(name, input string, value float64, unit string) {
	line, err := json.Marshal(Figure{name, input, value, unit})
	if err != nil {
		panic(err) // a value that is no number: what was measured is wrong
	}
	fmt.Println(Prefix + string(line))
}

// Read reads a line with a figure, wherever in the line it begins.
func Read(line string) (f Figure, ok bool) {
	_, text, ok := strings.Cut(line, Prefix)
	return f, ok && json.Unmarshal([]byte(text), &f) == nil
}
