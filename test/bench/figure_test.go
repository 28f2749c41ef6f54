package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/development.md has a row for each promise.
func TestPromisesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/development.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, promise := range promises {
		if row := fmt.Sprintf("| %s | %s |", name, promise); !strings.Contains(string(text), row) {
			t.Errorf("docs/development.md has no row %s", row)
		}
	}
}
