package runner

import (
	"fmt"
	"reflect"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/metacontroller/applier/plan"
	"rtj.dev/rtj/test/world/apiserver"
)

// result is what was made of one version of an object.
type result[T any] struct {
	value *T
	err   error
}

type decodedKey struct{}

// decoded is an object as decisions read it. It is decoded once for each version, and
// takes over from an older one what has not changed. Its raw form is left out: what
// stays as it was observed is told by identity.
func decoded[T any](o *apiserver.Object) (*T, error) {
	made := o.Derived(decodedKey{}, func(before map[string]any, was any) any {
		value := new(T)
		var from reflect.Value
		if old, ok := was.(result[T]); ok && old.err == nil {
			from = reflect.ValueOf(old.value).Elem()
		}
		err := formOf(reflect.TypeFor[T]()).refill(reflect.ValueOf(value).Elem(), o.Body, from, before)
		if with, ok := any(value).(interface{ ReadDocuments() }); ok {
			with.ReadDocuments()
		}
		return result[T]{value, err}
	}).(result[T])
	if made.err != nil {
		return nil, fmt.Errorf("%s: %w", o, made.err)
	}
	return made.value, nil
}

// all are several objects as decisions read them.
func all[T any](objects []*apiserver.Object) (list []T, err error) {
	for _, o := range objects {
		value, err := decoded[T](o)
		if err != nil {
			return nil, err
		}
		list = append(list, *value)
	}
	return list, nil
}

// add appends an object as decisions read it to a list.
func add[T any](list *[]T, o *apiserver.Object) error {
	value, err := decoded[T](o)
	if err == nil {
		*list = append(*list, *value)
	}
	return err
}

// decodedParent is a parent as decisions read it.
func decodedParent(o *apiserver.Object) (*v1beta1.ResumableTrainingJob, error) {
	return decoded[v1beta1.ResumableTrainingJob](o)
}

type rulesKey struct{}

// rulesOf are the rules of the customize hook, which is asked once for a generation.
func rulesOf(o *apiserver.Object, parent *v1beta1.ResumableTrainingJob) ([]*plan.Rule, error) {
	asked := o.Cached(rulesKey{}, func() any {
		rules, err := askForRules(parent)
		return result[[]*plan.Rule]{&rules, err}
	}).(result[[]*plan.Rule])
	return *asked.value, asked.err
}

type templateKey struct{}

// templateOf is the hash of a parent's template.
func templateOf(o *apiserver.Object, parent *v1beta1.ResumableTrainingJob) string {
	return o.Cached(templateKey{}, func() any { return compose.TemplateHash(&parent.Spec) }).(string)
}

func askForRules(parent *v1beta1.ResumableTrainingJob) ([]*plan.Rule, error) {
	response := hooks.RelatedTo(parent)
	if err := response.Validate(); err != nil {
		return nil, err
	}
	rules := make([]*plan.Rule, 0, len(response.RelatedResources))
	for _, asked := range response.RelatedResources {
		k, ok := byResource(asked.Resource)
		if !ok {
			return nil, fmt.Errorf("the world has no %s", asked.Resource)
		}
		rule, err := plan.NewRule(watched[k], asked)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	return rules, nil
}
