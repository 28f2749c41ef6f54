package compose

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
)

const (
	formatVersion = "1.0"
	controlKey    = "control.json"
	// maxHistory bounds the later causes that a control document lists.
	maxHistory = 8
)

// controlDocument is what the workers of an attempt read; docs/formats.md.
type controlDocument struct {
	SchemaVersion string        `json:"schemaVersion"`
	Kind          string        `json:"kind"`
	Attempt       int32         `json:"attempt"`
	Yield         *controlYield `json:"yield"`
}

type controlYield struct {
	ID       int32              `json:"id"`
	Cause    v1beta1.YieldCause `json:"cause"`
	IssuedAt time.Time          `json:"issuedAt"`
	Deadline time.Time          `json:"deadline"`
	History  []laterCause       `json:"history,omitempty"`
}

type laterCause struct {
	Cause v1beta1.YieldCause `json:"cause"`
	At    time.Time          `json:"at"`
}

func controlName(rtj string) string { return rtj + "-control" }

// readControl returns the observed control document; nil when there is none or
// it cannot be read, in which case it is written anew.
func readControl(c *ConfigMap) *controlDocument {
	if c == nil {
		return nil
	}
	return c.document.or(func() *controlDocument {
		var d controlDocument
		if json.Unmarshal([]byte(c.Data[controlKey]), &d) != nil || d.Kind != "Control" {
			return nil
		}
		if y := d.Yield; y != nil && (!isReason(string(y.Cause)) || len(y.History) > maxHistory) {
			return nil
		}
		return &d
	})
}

// isReason reports whether a condition may have the text as its reason.
func isReason(text string) bool {
	for i, r := range []byte(text) {
		letter := r|0x20 >= 'a' && r|0x20 <= 'z'
		inside := i > 0 && (r >= '0' && r <= '9' || r == '_' || i < len(text)-1 && (r == ',' || r == ':'))
		if !letter && !inside {
			return false
		}
	}
	return text != "" && len(text) <= maxCause
}

// controlChild returns the control document as a child. It exists from the
// first launch on, so that a yield is an update: in a terminating namespace
// nothing can be created.
func (s *situation) controlChild() *Child { return first(s, "control-document", controlDocuments) }

var controlDocuments = []rule[*Child]{
	{name: "DeletedWithoutDocument", when: func(s *situation) bool { return s.deleting && s.Control == nil }, then: nothing[*Child]},
	{name: "YieldAsked", when: func(s *situation) bool { return s.live() && s.yield != nil }, then: (*situation).controlWithYield,
		why: func(s *situation) string { return string(s.yield.cause) }},
	{name: "Terminal", when: (*situation).terminal, then: (*situation).controlAsObserved},
	{name: "Exists", when: func(s *situation) bool { return s.Control != nil }, then: (*situation).controlAsObserved},
	{name: "BeforeTheFirstLaunch", when: func(s *situation) bool { return s.launch.wanted != nil || s.live() || s.unstarted() }, then: (*situation).newControl},
	{name: "NotNeeded", when: always, then: nothing[*Child]},
}

func (s *situation) controlAsObserved() *Child {
	if s.Control == nil {
		return nil
	}
	return &Child{APIVersion: "v1", Kind: "ConfigMap", Name: s.Control.Meta.Name, Observed: s.Control.Raw}
}

func (s *situation) newControl() *Child {
	return s.controlWith(controlDocument{SchemaVersion: formatVersion, Kind: "Control", Attempt: s.was.Attempt})
}

func (s *situation) controlWithYield() *Child {
	want := controlDocument{SchemaVersion: formatVersion, Kind: "Control", Attempt: s.attempt.number, Yield: s.yield.document()}
	if s.Control == nil {
		return s.controlWith(want)
	}
	child := s.controlAsObserved()
	if text := encode(want); s.Control.Data[controlKey] != text {
		child.Set = []Field{{Path: []string{"data", controlKey}, Value: text}}
	}
	return child
}

func (s *situation) controlWith(d controlDocument) *Child {
	name := controlName(s.Parent.Name)
	return &Child{APIVersion: "v1", Kind: "ConfigMap", Name: name, New: &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Parent.Namespace, Labels: map[string]string{v1beta1.LabelUID: string(s.Parent.UID)}},
		Data:       map[string]string{controlKey: encode(d)},
	}}
}
