package hooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/test/mutation/mutant"
	"rtj.dev/rtj/test/scenario"
)

// trial is a golden case with what is decided about it.
type trial struct {
	name     string
	observed *scenario.Observed
	request  *contract.SyncRequest
	catalog  *checkpoint.Snapshot
	answer   string
}

// TestGoldenUnderMutants decides about all golden cases under one mutant after the
// other, in one process. test/mutation runs it, once TestGolden passes.
func TestGoldenUnderMutants(t *testing.T) {
	list, ok := os.LookupEnv(mutant.ListVariable)
	if !ok {
		t.Skip("test/mutation runs it")
	}
	fmt.Println("\nmutants early", mutant.Early())
	var all []*trial
	folders, err := filepath.Glob(cases + "/*/observed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range folders {
		all = append(all, newTrial(t, filepath.Dir(file)))
	}
	var numbers []int
	for _, text := range strings.Fields(list) {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	// A mutant may never end.
	watch := time.AfterFunc(time.Hour, func() { os.Exit(1) })
	defer watch.Stop()
	mutant.Each(numbers, func() string {
		watch.Reset(time.Minute)
		for i, c := range all {
			if c.decide() != c.answer {
				// It is likely to notice the next one too.
				copy(all[1:], all[:i])
				all[0] = c
				return c.name
			}
		}
		return ""
	})
	for _, c := range all {
		if c.decide() != c.answer {
			t.Errorf("a mutant changed the input of %s", c.name)
		}
	}
}

func newTrial(t *testing.T, folder string) *trial {
	t.Helper()
	c := &trial{name: filepath.Base(folder)}
	var err error
	if c.observed, err = scenario.LoadObserved(filepath.Join(folder, "observed.yaml"), bases); err != nil {
		t.Fatal(err)
	}
	if c.request, err = c.observed.Request(); err != nil {
		t.Fatal(err)
	}
	if c.catalog, err = scenario.LoadCatalog(filepath.Join(folder, "catalog.yaml"), bases, scenario.RunID(c.request)); err != nil {
		t.Fatal(err)
	}
	c.answer = c.decide()
	return c
}

// decide is all that TestGolden compares of a case.
func (c *trial) decide() (answer string) {
	defer func() {
		if why := recover(); why != nil {
			answer = fmt.Sprint("panic: ", why)
		}
	}()
	decision, response, err := scenario.Decide(c.observed, c.request, c.catalog)
	if err != nil {
		return err.Error()
	}
	desired, err := scenario.Desired(*c.observed.Now, c.request, decision, response)
	if err != nil {
		return err.Error()
	}
	text, err := utiljson.Marshal(desired)
	if err != nil {
		return err.Error()
	}
	return string(slices.Concat(text, response.AppendJSON(nil)))
}
