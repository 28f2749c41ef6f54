package crd

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/apicases"
)

// A rule that stands at several fields needs a case for each of them.
func TestEveryRuleHasACase(t *testing.T) {
	cases, err := apicases.All()
	if err != nil {
		t.Fatal(err)
	}
	var refusals []apicases.Refusal
	for _, c := range cases {
		refusals = append(refusals, c.Refused...)
	}
	for path, props := range everyField(t) {
		for _, rule := range props.XValidations {
			if foreign(path, rule) {
				continue
			}
			exercised := slices.ContainsFunc(refusals, func(r apicases.Refusal) bool {
				return withoutIndex(r.Field) == strings.TrimPrefix(path+rule.FieldPath, ".") && strings.Contains(rule.Message, afterColon(r.Message))
			})
			if !exercised {
				t.Errorf("no case is refused at %s with %q", path+rule.FieldPath, rule.Message)
			}
		}
	}
}

// JobSet forbids changes of its fields; a template may change between attempts.
func TestTemplateMayChangeBetweenAttempts(t *testing.T) {
	for path, props := range everyField(t) {
		for _, rule := range props.XValidations {
			if strings.HasPrefix(path, "spec.template") && strings.Contains(rule.Rule, "oldSelf") {
				t.Errorf("%s has a transition rule: %s", path, rule.Rule)
			}
		}
	}
}

func TestEveryListAndMapOfOursIsBounded(t *testing.T) {
	for path, props := range everyField(t) {
		if !ours(path) {
			continue
		}
		if props.Type == "array" && props.MaxItems == nil {
			t.Errorf("%s is a list without a bound", path)
		}
		if props.AdditionalProperties != nil && props.MaxProperties == nil {
			t.Errorf("%s is a map without a bound", path)
		}
		if path == "status.conditions[].type" || path == "metadata" {
			continue
		}
		if props.Type == "string" && props.MaxLength == nil && len(props.Enum) == 0 && props.Format == "" && !strings.HasSuffix(path, "{}") {
			t.Errorf("%s is a string without a bound", path)
		}
	}
}

func TestEveryFieldOfOursIsDescribed(t *testing.T) {
	for path, props := range everyField(t) {
		if ours(path) && props.Description == "" && !strings.HasSuffix(path, "[]") && !strings.HasSuffix(path, "{}") {
			t.Errorf("%s has no description: kubectl explain says nothing about it", path)
		}
	}
}

func TestBoundsOfStatusAreTheConstants(t *testing.T) {
	fields := everyField(t)
	for path, want := range map[string]int64{
		"status.ledger":                v1beta1.MaxLedgerEntries,
		"status.checkpoint.passedOver": v1beta1.MaxPassedOver,
		"status.forced":                v1beta1.MaxForced,
		"status.restoreFailures":       v1beta1.MaxRestoreFailures,
	} {
		if got := fields[path].MaxItems; got == nil || *got != want {
			t.Errorf("%s: maxItems %v, want %d", path, got, want)
		}
	}
}

// everyField is the definition's schema by path, [] for items of a list and {} for
// values of a map.
func everyField(t *testing.T) map[string]*apiextensions.JSONSchemaProps {
	t.Helper()
	out := map[string]*apiextensions.JSONSchemaProps{}
	var walk func(string, *apiextensions.JSONSchemaProps)
	walk = func(path string, at *apiextensions.JSONSchemaProps) {
		out[path] = at
		for name := range at.Properties {
			field := at.Properties[name]
			walk(strings.TrimPrefix(path+"."+name, "."), &field)
		}
		if at.Items != nil && at.Items.Schema != nil {
			walk(path+"[]", at.Items.Schema)
		}
		if at.AdditionalProperties != nil && at.AdditionalProperties.Schema != nil {
			walk(path+"{}", at.AdditionalProperties.Schema)
		}
	}
	walk("", load(t).internal.Spec.Validation.OpenAPIV3Schema)
	return out
}

// ours are the fields that are not JobSet's or every object's.
func ours(path string) bool {
	if path == "" || path == "metadata" || path == "apiVersion" || path == "kind" {
		return false
	}
	return !strings.HasPrefix(path, "spec.template.spec.")
}

// foreign are JobSet's own rules.
func foreign(path string, rule apiextensions.ValidationRule) bool {
	return path == "spec.template.spec.volumeClaimPolicies[]" ||
		path == "spec.template.spec" && strings.HasPrefix(rule.Message, "StartupPolicy")
}

func withoutIndex(path string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(path, "[")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		_, path, _ = strings.Cut(after, "]")
		out.WriteString("[]")
	}
}

// afterColon drops the kind of error before the rule's message.
func afterColon(message string) string {
	return strings.TrimPrefix(message, "Required value: ")
}
