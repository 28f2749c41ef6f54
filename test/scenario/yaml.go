package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"

	yamlv3 "go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// Parse reads YAML as JSON values. Duplicate keys are an error.
func Parse(text []byte) (map[string]any, error) {
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	var value map[string]any
	return value, utiljson.Unmarshal(data, &value)
}

// Plain turns a Go value into JSON values.
func Plain(value any) (any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var p any
	return p, utiljson.Unmarshal(data, &p)
}

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }

// flowWidth is how long a mapping may be to stand on one line.
const flowWidth = 120

// first are the keys that come before others, in this order.
var first = []string{
	"table", "rule", "why",
	"keep", "create", "update", "delete",
	"apiVersion", "kind", "type", "name", "namespace", "metadata",
	"phase", "status", "reason", "attempt", "step", "message",
	"spec",
	"children", "patches", "launch", "catalog", "finalized", "resyncAfterSeconds", "rules",
}

// Format writes JSON values as YAML: keys in a fixed order, and what fits on one
// line on one line.
func Format(value any) ([]byte, error) {
	n, err := node(value)
	if err != nil {
		return nil, err
	}
	// The outermost mapping is never on one line.
	n.Style = 0
	var out bytes.Buffer
	encoder := yamlv3.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(n); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

func node(value any) (*yamlv3.Node, error) {
	n := &yamlv3.Node{}
	switch v := value.(type) {
	case map[string]any:
		n.Kind = yamlv3.MappingNode
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.SortFunc(keys, compareKeys)
		for _, key := range keys {
			below, err := node(v[key])
			if err != nil {
				return nil, err
			}
			name, err := scalar(key)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, name, below)
		}
	case []any:
		n.Kind = yamlv3.SequenceNode
		for _, item := range v {
			below, err := node(item)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, below)
		}
	case string, bool, int64, float64, nil:
		return scalar(v)
	default:
		return n, n.Encode(v)
	}
	if width(n) <= flowWidth || isMatchOrCondition(value) {
		n.Style = yamlv3.FlowStyle
	}
	return n, nil
}

// scalars are the nodes that were made, by value: an encoder is made for each.
var scalars sync.Map

func scalar(value any) (*yamlv3.Node, error) {
	if known, ok := scalars.Load(value); ok {
		n := known.(yamlv3.Node)
		return &n, nil
	}
	n := yamlv3.Node{}
	if err := n.Encode(value); err != nil {
		return nil, err
	}
	scalars.Store(value, n)
	return &n, nil
}

// isMatchOrCondition: these read best as a table, however long the last column.
func isMatchOrCondition(value any) bool {
	m, ok := value.(map[string]any)
	if !ok {
		return false
	}
	_, rule := m["rule"]
	_, kind := m["type"]
	_, status := m["status"].(string)
	return rule || kind && status
}

func compareKeys(a, b string) int {
	i, j := slices.Index(first, a), slices.Index(first, b)
	switch {
	case i >= 0 && j >= 0:
		return i - j
	case i >= 0:
		return -1
	case j >= 0:
		return 1
	}
	return strings.Compare(a, b)
}

// width is about how long a value is on one line.
func width(n *yamlv3.Node) int {
	if n.Kind == yamlv3.ScalarNode {
		if strings.Contains(n.Value, "\n") {
			return flowWidth + 1
		}
		return len(n.Value)
	}
	total := 2
	for _, below := range n.Content {
		total += width(below) + 2
	}
	return total
}

// Reformat reads a YAML file and writes it as [Format] does.
func Reformat(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	value, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return Format(value)
}

// Line writes JSON values as YAML on one line.
func Line(value any) (string, error) {
	n, err := node(value)
	if err != nil {
		return "", err
	}
	n.Style = yamlv3.FlowStyle
	text, err := yamlv3.Marshal(n)
	return strings.TrimSpace(string(text)), err
}
