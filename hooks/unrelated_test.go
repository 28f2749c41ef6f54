package hooks_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/compose"
)

// The order of map keys, and of lists that are maps by the type of their items,
// changes nothing: not a byte of what is decided, and of what is carried back only
// the order in which it was observed. That of the objects is none: they come as maps,
// and [compose] is held to it where it has them as lists.
func TestOrderChangesNothing(t *testing.T) {
	eachMoment(t, 8, func(t *testing.T, seed uint64, m *moment) {
		random := rand.New(rand.NewPCG(seed, 1))
		other := eachObject(m.request, func(_ string, raw json.RawMessage) json.RawMessage {
			o := parsed(t, raw)
			shuffleConditions(random, o)
			return scrambled(random, o)
		})
		other.Parent = scrambled(random, parsed(t, m.request.Parent))
		if change := difference(t, m, m.with(other), func(v any) any { return sortedConditions(v) }); change != "" {
			t.Fatalf("%s: the order changes the answer:\n%s", m.name, change)
		}
	})
}

// What is not read changes nothing but what is carried back: fields that are not
// known, annotations and labels of others, managedFields, conditions of others.
func TestWhatIsUnrelatedChangesNothing(t *testing.T) {
	eachMoment(t, 8, func(t *testing.T, seed uint64, m *moment) {
		random := rand.New(rand.NewPCG(seed, 2))
		other := eachObject(m.request, func(_ string, raw json.RawMessage) json.RawMessage {
			o := parsed(t, raw)
			addForeign(random, o)
			addForeignCondition(random, o)
			return encoded(t, o)
		})
		parent := parsed(t, m.request.Parent)
		addForeign(random, parent)
		other.Parent = encoded(t, parent)
		if change := difference(t, m, m.with(other), withoutForeign); change != "" {
			t.Fatalf("%s: what is unrelated changes the answer:\n%s", m.name, change)
		}
	})
}

// foreign begins what others write.
const foreign = "foreign.example/"

// addForeign adds what others write into an object, and what a later version has.
func addForeign(random *rand.Rand, o object) {
	sometimes := func(into object, key string, value any) {
		if random.IntN(3) > 0 {
			into[foreign+key] = value
		}
	}
	sometimes(o, "field", object{"a": []any{int64(1), "b"}})
	for _, key := range []string{"spec", "status"} {
		if below, ok := o[key].(object); ok {
			sometimes(below, "field", "later")
			sometimes(below, "list", []any{object{"name": "x"}})
		}
	}
	metadata := o["metadata"].(object)
	sometimes(metadata, "field", true)
	for _, key := range []string{"annotations", "labels"} {
		below, ok := metadata[key].(object)
		if !ok {
			below = object{}
		}
		sometimes(below, "key", "value")
		if len(below) > 0 {
			metadata[key] = below
		}
	}
	metadata["managedFields"] = []any{object{"manager": "kubectl", "operation": "Update", "fieldsV1": object{"f:spec": object{}}}}
	metadata["selfLink"] = "/somewhere"
}

func addForeignCondition(random *rand.Rand, o object) {
	status, ok := o["status"].(object)
	if !ok {
		return
	}
	list, _ := status["conditions"].([]any)
	at := random.IntN(len(list) + 1)
	status["conditions"] = slices.Insert(slices.Clone(list), at, any(object{
		"type": foreign + "Condition", "status": "True", "reason": "Foreign", "message": "of someone else", "lastTransitionTime": "2026-11-29T09:00:00Z",
	}))
}

// withoutForeign is a value without what addForeign and addForeignCondition added.
func withoutForeign(value any) any {
	switch v := value.(type) {
	case object:
		kept := object{}
		for key, below := range v {
			if strings.HasPrefix(key, foreign) {
				continue
			}
			below = withoutForeign(below)
			// Nothing was there before something foreign was.
			if list, ok := below.([]any); ok && key == "conditions" && len(list) == 0 {
				continue
			}
			if o, ok := below.(object); ok && key == "labels" && len(o) == 0 {
				continue
			}
			if o, ok := below.(object); ok && key == "annotations" && len(o) == 0 {
				continue
			}
			kept[key] = below
		}
		return kept
	case []any:
		kept := []any{}
		for _, item := range v {
			if o, ok := item.(object); ok {
				if kind, _ := o["type"].(string); strings.HasPrefix(kind, foreign) {
					continue
				}
			}
			kept = append(kept, withoutForeign(item))
		}
		return kept
	}
	return value
}

// difference is how two moments are answered otherwise. Of what is carried back,
// children and patches, that is told which is left by the filter; all else must be
// the same bytes.
func difference(t *testing.T, a, b *moment, filter func(any) any) string {
	t.Helper()
	before, after := tell(t, a, filter), tell(t, b, filter)
	if equal(before, after) {
		return ""
	}
	return cmp.Diff(before, after)
}

// told is an answer to compare.
type told struct {
	Status, Rules, Rest string
	Children, Patches   []any
}

func tell(t *testing.T, m *moment, filter func(any) any) told {
	t.Helper()
	d, response := m.mustAnswer(t)
	n := told{Status: string(response.Status), Rules: fmt.Sprintf("%q", d.Rules)}
	n.Rest = fmt.Sprint("again in ", response.ResyncAfterSeconds, ", finalized ", d.Finalized, ", reading ", d.Catalog)
	if d.Launch != nil {
		n.Rest += ", launch " + d.Launch.Name
	}
	for _, raw := range response.Children {
		n.Children = append(n.Children, filter(parsed(t, raw)))
	}
	for _, p := range d.Patches {
		n.Patches = append(n.Patches, filter(tellPatch(t, p)))
	}
	return n
}

func tellPatch(t *testing.T, p compose.Patch) object {
	t.Helper()
	o := parsed(t, encoded(t, p))
	o["body"] = parsed(t, p.Body)
	return o
}

// scrambled is a value as JSON with the members of each object in another order.
func scrambled(random *rand.Rand, value any) json.RawMessage {
	switch v := value.(type) {
	case object:
		keys := slices.Sorted(maps.Keys(v))
		random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		members := make([]string, len(keys))
		for i, key := range keys {
			name, _ := json.Marshal(key)
			members[i] = string(name) + ":" + string(scrambled(random, v[key]))
		}
		return json.RawMessage("{" + strings.Join(members, ",") + "}")
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = string(scrambled(random, item))
		}
		return json.RawMessage("[" + strings.Join(items, ",") + "]")
	}
	text, _ := json.Marshal(value)
	return text
}

// shuffleConditions puts conditions, and what is counted by name, into another order.
func shuffleConditions(random *rand.Rand, o object) {
	status, _ := o["status"].(object)
	for _, key := range []string{"conditions", "replicatedJobsStatus"} {
		if list, ok := status[key].([]any); ok {
			random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
	}
}

// sortedConditions is a value with every list of conditions in the order of their types.
func sortedConditions(value any) any {
	switch v := value.(type) {
	case object:
		for key, below := range v {
			v[key] = sortedConditions(below)
		}
	case []any:
		for i := range v {
			v[i] = sortedConditions(v[i])
		}
		slices.SortStableFunc(v, func(a, b any) int { return strings.Compare(kindOf(a), kindOf(b)) })
	}
	return value
}

// kindOf is the type of a condition; empty: it is none.
func kindOf(v any) string {
	o, _ := v.(object)
	kind, _ := o["type"].(string)
	return kind
}
