package fingerprint

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

// taken is a text that was taken apart: what is the same in all worlds that are alike,
// and what in it is to be taken by its meaning.
type taken struct {
	digest    [16]byte
	text      []byte
	variables []variable
	// timeless: no time counts, nor who observed anything.
	timeless bool
}

// variable is what may differ between equal worlds.
type variable struct {
	kind variableKind
	text string
	at   time.Time
	as   as
}

type variableKind int8

const (
	isUID variableKind = iota
	isVersion
	isTime
	isObserver
)

// pattern of variables. JSON within JSON has its quotes escaped. The last part of the
// name of a checkpoint is a digest of bytes in which times and UIDs stand; the part
// before tells checkpoints apart.
var pattern = regexp.MustCompile(`\b[0-9]{6}-[0-9]{12}-[0-9a-f]{12}-[0-9a-f]{16}\b|\buid-[0-9]+\b|\b20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z|resourceVersion\\*":\\*"[0-9]+`)

// kept are texts that were taken apart, since most are taken up again and again.
var kept = cache{texts: map[keptText]*taken{}}

type cache struct {
	mu    sync.RWMutex
	texts map[keptText]*taken
}

type keptText struct {
	text string
	as   as
}

// keptAtMost bounds them.
const keptAtMost = 200_000

func ofText(text string, how as) *taken {
	key := keptText{text, how}
	kept.mu.RLock()
	t := kept.texts[key]
	kept.mu.RUnlock()
	if t != nil {
		return t
	}
	t = &taken{}
	t.add(text, &how)
	t.done()
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if len(kept.texts) >= keptAtMost {
		clear(kept.texts)
	}
	kept.texts[key] = t
	return t
}

func (t *taken) done() *taken {
	sum := sha256.Sum256(t.text)
	copy(t.digest[:], sum[:])
	return t
}

// add takes a text apart; how says what of times in it counts.
func (t *taken) add(text string, how *as) {
	if how == nil {
		how = &as{age: Horizon}
	}
	if len(text) < len("uid-1") || !strings.ContainsAny(text, "-:") {
		t.text = append(t.text, text...)
		return
	}
	end := 0
	for _, m := range pattern.FindAllStringIndex(text, -1) {
		t.text = append(t.text, text[end:m[0]]...)
		end = m[1]
		switch found := text[m[0]:m[1]]; found[0] {
		case 'u':
			t.variable('u', variable{kind: isUID, text: found})
		case 'r':
			digits := len(found)
			for digits > 0 && found[digits-1] >= '0' && found[digits-1] <= '9' {
				digits--
			}
			t.variable('v', variable{kind: isVersion, text: found[digits:]})
		default:
			if found[len("000000")] == '-' {
				t.text = append(t.text, found[:len(found)-len("0123456789abcdef")]...)
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, found)
			switch {
			case err != nil:
				t.text = append(t.text, found...)
			case how.what == presence || t.timeless:
				t.text = append(t.text, 0, 't')
			default:
				t.variable('t', variable{kind: isTime, at: at, as: *how})
			}
		}
	}
	t.text = append(t.text, text[end:]...)
}

// variable notes where one stands.
func (t *taken) variable(mark byte, v variable) {
	t.text = append(t.text, 0, mark)
	t.variables = append(t.variables, v)
}

// ofObject takes an object apart.
func ofObject(o *apiserver.Object, bits uint64) *taken {
	t := &taken{timeless: bits&timeless != 0}
	t.value(read(o), waysOf(bits&^timeless))
	return t.done()
}

// value takes up a JSON value, in the ways that are for it.
func (t *taken) value(v any, w *ways) {
	switch v := v.(type) {
	case map[string]any:
		t.text = append(t.text, '{')
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below := w.at(key)
			if below.as != nil && below.as.what == nothing {
				continue
			}
			t.text = append(t.text, key...)
			t.text = append(t.text, ':')
			if key == "resourceVersion" {
				if text, ok := v[key].(string); ok {
					t.variable('v', variable{kind: isVersion, text: text})
					continue
				}
			}
			t.value(v[key], below)
		}
		t.text = append(t.text, '}')
	case []any:
		t.text = append(t.text, '[')
		for _, item := range v {
			t.value(item, w.at("*"))
			t.text = append(t.text, ',')
		}
		t.text = append(t.text, ']')
	case string:
		t.text = append(t.text, '"')
		if w.as != nil && w.as.what == observer && t.timeless {
		} else if w.as != nil && w.as.what == observer {
			t.variable('o', variable{kind: isObserver, text: v})
		} else {
			t.add(v, w.as)
		}
		t.text = append(t.text, '"')
	case int64:
		t.text = strconv.AppendInt(t.text, v, 10)
	case bool:
		t.text = strconv.AppendBool(t.text, v)
	case nil:
		t.text = append(t.text, '-')
	default:
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // JSON values
		}
		t.text = append(t.text, text...)
	}
}
