package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// command is a verb with words and key=value pairs; quotes keep blanks together.
type command struct {
	verb  string
	words []string
	pairs map[string]string
	used  map[string]bool
	// next is the first word that was not taken.
	next int
}

func parseCommand(line string) (*command, error) {
	fields, err := split(line)
	if err != nil {
		return nil, err
	}
	c := &command{verb: fields[0], pairs: map[string]string{}, used: map[string]bool{}}
	for _, field := range fields[1:] {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			c.words = append(c.words, field)
			continue
		}
		if _, twice := c.pairs[key]; twice {
			return nil, fmt.Errorf("%s occurs twice", key)
		}
		c.pairs[key] = value
	}
	return c, nil
}

// split splits at blanks that are not within double quotes.
func split(line string) ([]string, error) {
	var fields []string
	var field strings.Builder
	var quoted, any bool
	for _, r := range line {
		switch {
		case r == '"':
			quoted, any = !quoted, true
		case r == ' ' && !quoted:
			if any {
				fields = append(fields, field.String())
			}
			field.Reset()
			any = false
		default:
			field.WriteRune(r)
			any = true
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote is not closed")
	}
	if any {
		fields = append(fields, field.String())
	}
	return fields, nil
}

// word takes the next word; without one it is the fallback.
func (c *command) word(fallback string) string {
	if c.next >= len(c.words) {
		return fallback
	}
	c.next++
	return c.words[c.next-1]
}

// has reports whether a pair is there.
func (c *command) has(key string) bool {
	_, ok := c.pairs[key]
	return ok
}

// text takes a pair; without it, it is the fallback.
func (c *command) text(key, fallback string) string {
	value, ok := c.pairs[key]
	if !ok {
		return fallback
	}
	c.used[key] = true
	return value
}

// number takes a pair that is a whole number.
func (c *command) number(key string, fallback int64) (int64, error) {
	value, ok := c.pairs[key]
	if !ok {
		return fallback, nil
	}
	c.used[key] = true
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: want a number, got %q", key, value)
	}
	return n, nil
}

// numbers takes several; a fault of any is returned.
func (c *command) numbers(fallbacks map[string]int64) (map[string]int64, error) {
	values := map[string]int64{}
	for key, fallback := range fallbacks {
		n, err := c.number(key, fallback)
		if err != nil {
			return nil, err
		}
		values[key] = n
	}
	return values, nil
}

// value takes a pair as YAML.
func (c *command) value(key string) (any, error) {
	var value any
	err := yaml.Unmarshal([]byte(c.text(key, "")), &value)
	return value, err
}

// done reports what the verb did not know.
func (c *command) done() error {
	if c.next < len(c.words) {
		return fmt.Errorf("unknown word %q", c.words[c.next])
	}
	for _, key := range slices.Sorted(maps.Keys(c.pairs)) {
		if !c.used[key] {
			return fmt.Errorf("unknown %s=", key)
		}
	}
	return nil
}

// verb changes the world. Each is in a file of its own, and registered here.
type verb func(*world, *command) error

var verbs = map[string]verb{
	"apply":   (*world).verbApply,
	"rtj":     (*world).verbRTJ,
	"delete":  (*world).verbDelete,
	"kueue":   (*world).verbKueue,
	"queue":   (*world).verbQueue,
	"workers": (*world).verbWorkers,
	"node":    (*world).verbNode,
	"pods":    (*world).verbPods,
	"catalog": (*world).verbCatalog,
	"store":   (*world).verbStore,
	"launch":  (*world).verbLaunch,
	"clock":   (*world).verbClock,
	"sync":    func(*world, *command) error { return nil },
}

// run runs one command and returns what was decided after it.
func (w *world) run(line string) (string, error) {
	c, err := parseCommand(line)
	if err != nil {
		return "", err
	}
	if c.verb == "show" {
		text, err := w.show(c)
		if err == nil {
			err = c.done()
		}
		return w.plain(text), err
	}
	change, ok := verbs[c.verb]
	if !ok {
		return "", fmt.Errorf("unknown command; there are show, %s", strings.Join(slices.Sorted(maps.Keys(verbs)), ", "))
	}
	if err := change(w, c); err != nil {
		return "", err
	}
	if err := c.done(); err != nil {
		return "", err
	}
	// No two things happen at the same instant.
	w.now = w.now.Add(time.Millisecond)
	text, err := w.settle()
	return w.plain(text), err
}
