package compose

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Object is what every observed object has. Raw is the whole object as it was
// observed: a child is returned from it, so that fields which this version does
// not know survive.
type Object struct {
	Raw  json.RawMessage `json:"-"`
	Meta Meta            `json:"metadata"`
}

// Meta is the metadata that decisions read.
type Meta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               types.UID         `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	Generation        int64             `json:"generation"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	CreationTimestamp metav1.Time       `json:"creationTimestamp"`
	DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
}

// Condition is an observed condition. Raw keeps fields that are not known here,
// since patches write the whole list back.
type Condition struct {
	Raw json.RawMessage `json:"-"`

	Type               string      `json:"type"`
	Status             string      `json:"status"`
	Reason             string      `json:"reason"`
	Message            string      `json:"message"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	ObservedGeneration int64       `json:"observedGeneration"`
}

// UnmarshalJSON keeps the raw condition beside the known fields.
func (c *Condition) UnmarshalJSON(data []byte) error {
	type known Condition
	if err := json.Unmarshal(data, (*known)(c)); err != nil {
		return err
	}
	c.Raw = append(json.RawMessage(nil), data...)
	return nil
}

// condition returns the condition of the type, or an empty one.
func condition(list []Condition, kind string) (found Condition) {
	if i := conditionAt(list, kind); i >= 0 {
		found = list[i]
	}
	return found
}

// isTrue reports whether the condition of the type is True.
func isTrue(list []Condition, kind string) bool {
	i := conditionAt(list, kind)
	return i >= 0 && list[i].Status == "True"
}

// conditionAt returns the index of the condition of the type; -1: there is none.
func conditionAt(list []Condition, kind string) int {
	for i := range list {
		if list[i].Type == kind {
			return i
		}
	}
	return -1
}

// document is what a document of ours in an observed object says. It is read once,
// when whoever decoded the object calls its ReadDocuments; else by each decision.
type document[T any] struct {
	known bool
	says  *T
}

func (d *document[T]) or(read func() *T) *T {
	if d.known {
		return d.says
	}
	return read()
}

// ReadDocuments reads the claim, and the reservation that it may be of, for all
// decisions that are made upon the object.
func (w *Workload) ReadDocuments() {
	r := w.reservation()
	w.claimed, w.reserves = document[claim]{true, w.claim()}, document[reservation]{true, &r}
}

// ReadDocuments reads the reservation, for all decisions that are made upon the object.
func (j *JobSet) ReadDocuments() {
	r := j.builtFor()
	j.reserved = document[reservation]{true, &r}
}

// ReadDocuments reads the control document, for all decisions that are made upon the
// object.
func (c *ConfigMap) ReadDocuments() { c.document = document[controlDocument]{true, readControl(c)} }
