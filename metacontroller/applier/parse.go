package applier

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	controllerAPIVersion = "metacontroller.k8s.io/v1alpha1"
	controllerKind       = "CompositeController"

	defaultHookTimeout = 10 * time.Second
)

// Parse reads the CompositeControllers of a YAML or JSON text with one or more
// documents. It refuses unknown fields, documents of other kinds, and whatever
// [CompositeController.Validate] refuses.
func Parse(text []byte) ([]*CompositeController, error) {
	var controllers []*CompositeController
	all := documents(text)
	for _, d := range all {
		c, err := d.parse()
		var other *KindError
		if errors.As(err, &other) {
			other.Only = !slices.ContainsFunc(all, document.isController)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d%s: %w", len(controllers)+1, d.where(), err)
		}
		if err := c.Validate(); err != nil {
			return nil, err
		}
		controllers = append(controllers, c)
	}
	if len(controllers) == 0 {
		return nil, fmt.Errorf("no %s in the file", controllerKind)
	}
	return controllers, nil
}

// FromObject reads a CompositeController as the API server stores it. It refuses
// what [Parse] refuses.
func FromObject(object *unstructured.Unstructured) (*CompositeController, error) {
	text, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	c := &CompositeController{}
	if err := unmarshalStrict(text, c); err != nil {
		return nil, fmt.Errorf("%s %s: %w", controllerKind, object.GetName(), err)
	}
	return c, c.Validate()
}

// document is one of the documents of a text.
type document struct {
	text []byte
	// before is the number of lines of the text before it.
	before int
}

// documents splits a text at its YAML document separators and leaves out what
// holds nothing.
func documents(text []byte) []document {
	var list []document
	var d document
	lines := 0
	for line := range bytes.Lines(text) {
		lines++
		if after, ok := bytes.CutPrefix(line, []byte("---")); ok && isBlank(after) {
			list = append(list, d)
			d = document{before: lines}
			continue
		}
		d.text = append(d.text, line...)
	}
	return slices.DeleteFunc(append(list, d), func(d document) bool { return len(bytes.TrimSpace(withoutComments(d.text))) == 0 })
}

// where says where a document begins, unless it is at the top.
func (d document) where() string {
	if d.before == 0 {
		return ""
	}
	return fmt.Sprintf(" (from line %d)", d.before+1)
}

func (d document) parse() (*CompositeController, error) {
	// With as many empty lines as are before it, errors name lines of the whole text.
	text := append(bytes.Repeat([]byte{'\n'}, d.before), d.text...)
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return nil, err
	}
	if kind.APIVersion != controllerAPIVersion || kind.Kind != controllerKind {
		return nil, &KindError{Got: kind}
	}
	c := &CompositeController{}
	return c, unmarshalStrict(text, c)
}

// isController says of a document that may be faulty what it is meant to be.
func (d document) isController() bool {
	var kind metav1.TypeMeta
	return yaml.Unmarshal(d.text, &kind) == nil && kind.Kind == controllerKind
}

// KindError is a document that holds something else than a CompositeController.
type KindError struct {
	Got metav1.TypeMeta
	// Only says that no document of the text is one.
	Only bool
}

func (e *KindError) Error() string {
	return fmt.Sprintf("want %s %s, got %q %q", controllerAPIVersion, controllerKind, e.Got.APIVersion, e.Got.Kind)
}

// isBlank tells whether only white space and a comment follow a separator.
func isBlank(rest []byte) bool {
	trimmed := bytes.TrimSpace(rest)
	return len(trimmed) == 0 || len(trimmed) < len(rest) && trimmed[0] == '#' && (rest[0] == ' ' || rest[0] == '\t')
}

// unmarshalStrict refuses unknown and duplicate fields, and says where they are.
func unmarshalStrict(document []byte, into any) error {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return err
	}
	strict, err := kjson.UnmarshalStrict(text, into)
	return errors.Join(append(strict, err)...)
}

func withoutComments(document []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(document) {
		trimmed := bytes.TrimSpace(line)
		if !bytes.HasPrefix(trimmed, []byte("#")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// Validate refuses what cannot be run: missing fields, and what Metacontroller's
// API has but this package does not do. Every fault is reported, by field.
func (c *CompositeController) Validate() error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s %s: %s: %s", controllerKind, c.Name, field, fmt.Sprintf(format, args...)))
	}
	if c.Name == "" {
		fault("metadata.name", "missing")
	}
	switch c.Annotations[ChildrenAnnotation] {
	case "", ChildrenPartial, ChildrenComplete:
	default:
		fault("metadata.annotations["+ChildrenAnnotation+"]", "want %q or %q, got %q", ChildrenPartial, ChildrenComplete, c.Annotations[ChildrenAnnotation])
	}
	if _, err := warningConditions(c.Annotations[WarningsAnnotation]); err != nil {
		fault("metadata.annotations["+WarningsAnnotation+"]", "%v", err)
	}
	resource := func(field string, r Resource) {
		if gv, err := schema.ParseGroupVersion(r.APIVersion); err != nil || gv.Version == "" {
			fault(field+".apiVersion", "want group/version or version, got %q", r.APIVersion)
		}
		if r.Resource == "" {
			fault(field+".resource", `missing: the lowercase plural of the kind, such as "configmaps"`)
		}
	}
	parent := c.Spec.ParentResource
	resource("spec.parentResource", parent.Resource)
	if _, err := metav1.LabelSelectorAsSelector(parent.LabelSelector); err != nil {
		fault("spec.parentResource.labelSelector", "%v", err)
	}
	if parent.RevisionHistory != nil {
		fault("spec.parentResource.revisionHistory", "belongs to rolling updates, which are not supported; remove it")
	}
	seen := map[string]bool{}
	for i, child := range c.Spec.ChildResources {
		field := fmt.Sprintf("spec.childResources[%d]", i)
		resource(field, child.Resource)
		gv, _ := schema.ParseGroupVersion(child.APIVersion)
		if key := child.Resource.Resource + "." + gv.Group; seen[key] {
			fault(field, "%s occurs twice", key)
		} else {
			seen[key] = true
		}
		if child.UpdateStrategy == nil {
			continue
		}
		switch method := child.UpdateStrategy.Method; method {
		case "", OnDelete, InPlace, Recreate:
		case RollingInPlace, RollingRecreate:
			fault(field+".updateStrategy.method", "%s is not supported; use InPlace or Recreate and let the hook return one changed child at a time", method)
		default:
			fault(field+".updateStrategy.method", "unknown method %q", method)
		}
		if child.UpdateStrategy.StatusChecks != nil {
			fault(field+".updateStrategy.statusChecks", "belongs to rolling updates, which are not supported; remove it")
		}
	}
	if period := c.Spec.ResyncPeriodSeconds; period != nil && *period < 1 {
		fault("spec.resyncPeriodSeconds", "must be at least 1")
	}
	c.validateLists(fault)
	c.validateHooks(fault)
	return errors.Join(faults...)
}

func (c *CompositeController) validateHooks(fault func(field, format string, args ...any)) {
	hooks := c.Spec.Hooks
	if hooks == nil || hooks.Sync == nil && hooks.Finalize == nil {
		fault("spec.hooks", "neither a sync nor a finalize hook is defined")
		return
	}
	for _, h := range []struct {
		name string
		hook *Hook
	}{{"sync", hooks.Sync}, {"finalize", hooks.Finalize}, {"customize", hooks.Customize}} {
		if h.hook == nil {
			continue
		}
		switch h.hook.Version {
		case "", HookV1, HookV2:
		default:
			fault("spec.hooks."+h.name+".version", "want %s or %s, got %q", HookV1, HookV2, h.hook.Version)
		}
	}
	for name, hook := range map[string]*Hook{"preUpdateChild": hooks.PreUpdateChild, "postUpdateChild": hooks.PostUpdateChild} {
		if hook != nil {
			fault("spec.hooks."+name, "is called by no version of Metacontroller; remove it")
		}
	}
}

// SpeaksV1 tells whether the messages are of version v1, the API's default.
func (h *Hook) SpeaksV1() bool { return h.Version != HookV2 }

// Timeout of one call of the hook.
func (h *Hook) Timeout() time.Duration {
	if h.Webhook == nil || h.Webhook.Timeout == nil || h.Webhook.Timeout.Duration <= 0 {
		return defaultHookTimeout
	}
	return h.Webhook.Timeout.Duration
}

func (c *CompositeController) generatesSelector() bool {
	return c.Spec.GenerateSelector != nil && *c.Spec.GenerateSelector
}

func (c *CompositeController) childrenAreComplete() bool {
	return c.Annotations[ChildrenAnnotation] == ChildrenComplete
}

// Finalizer is what parents get while there is a finalize hook. It is
// Metacontroller's name, so that either can take over from the other.
func (c *CompositeController) Finalizer() string {
	return "metacontroller.io/compositecontroller-" + c.Name
}

func (c ChildResource) method() UpdateMethod {
	if c.UpdateStrategy == nil || c.UpdateStrategy.Method == "" {
		return OnDelete
	}
	return c.UpdateStrategy.Method
}
