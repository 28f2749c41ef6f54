package hooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/test/scenario"
)

// mutationsEach is how many mutants of each golden case are tried.
const mutationsEach = 20

// Requests in which values are missing, of another type or absurd are refused
// with a reason or answered; nothing makes the hooks panic, and no answer is one
// that a runner refuses.
func TestMutatedRequestsAreAnsweredOrRefused(t *testing.T) {
	all := requests(t)
	names := slices.Sorted(maps.Keys(all))
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range names {
		body, err := json.Marshal(all[name])
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(cases, name)
		snapshot, err := scenario.LoadCatalog(filepath.Join(folder, "catalog.yaml"), bases, scenario.RunID(all[name]))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for i := range mutationsEach {
			var value map[string]any
			if err := json.Unmarshal(body, &value); err != nil {
				t.Fatal(err)
			}
			for range 1 + random.IntN(3) {
				mutate(random, value)
			}
			mutant, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if fault := tryMutant(mutant, all[name].Finalizing, snapshot); fault != nil {
				t.Fatalf("mutant %d of %s: %v\n%s", i, name, fault, mutant)
			}
		}
	}
}

// tryMutant returns what must not be.
func tryMutant(body []byte, finalizing bool, snapshot *checkpoint.Snapshot) (fault error) {
	defer func() {
		if p := recover(); p != nil {
			fault = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	var refused *contract.Error
	request, err := contract.DecodeSyncRequest(body)
	if err != nil {
		if !errors.As(err, &refused) {
			return err
		}
		return nil
	}
	h := hooks.New(hooks.Options{
		Observer: "rtj", PodIntegration: true, Now: func() time.Time { return time.Date(2026, 11, 29, 10, 10, 0, 0, time.UTC) },
		Store: storeFunc(func(context.Context, catalog.Run, catalog.Ask) *checkpoint.Snapshot {
			if snapshot == nil {
				return &checkpoint.Snapshot{ListedAt: time.Date(2026, 11, 29, 10, 10, 0, 0, time.UTC)}
			}
			return snapshot
		}),
	})
	defer h.Close()
	answer, err := h.Answer(context.Background(), request, finalizing)
	if err != nil {
		if !errors.As(err, &refused) {
			return err
		}
		return nil
	}
	if _, err := contract.DecodeSyncResponse(answer.Response.AppendJSON(nil)); err != nil {
		return fmt.Errorf("a runner refuses the answer: %w", err)
	}
	for _, p := range answer.Decision.Patches {
		if !json.Valid(p.Body) {
			return fmt.Errorf("patch %s: %s", p.Name, p.Body)
		}
	}
	return nil
}

// absurd are values to be found anywhere.
var absurd = []string{
	`null`, `""`, `"x"`, `"-1"`, `"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`, `true`, `false`,
	`0`, `-1`, `2147483647`, `-2147483648`, `2147483648`, `9223372036854775807`, `1.5`, `1e300`,
	`{}`, `[]`, `[null]`, `{"":null}`,
}

func anAbsurdValue(random *rand.Rand) (value any) {
	if err := json.Unmarshal([]byte(absurd[random.IntN(len(absurd))]), &value); err != nil {
		panic(err)
	}
	return value
}

// mutate changes one value somewhere: it removes or replaces it.
func mutate(random *rand.Rand, value any) {
	switch v := value.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) == 0 {
			return
		}
		key := keys[random.IntN(len(keys))]
		if below := v[key]; deep(below) && random.IntN(8) > 0 {
			mutate(random, below)
			return
		}
		switch random.IntN(3) {
		case 0:
			delete(v, key)
		default:
			v[key] = anAbsurdValue(random)
		}
	case []any:
		i := random.IntN(len(v))
		if deep(v[i]) && random.IntN(4) > 0 {
			mutate(random, v[i])
			return
		}
		v[i] = anAbsurdValue(random)
	}
}

// deep tells whether there is something to change further down.
func deep(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}
