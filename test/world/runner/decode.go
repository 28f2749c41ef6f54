package runner

import (
	"fmt"

	"rtj.dev/rtj/api/v1beta1"
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

// decoded is an object as decisions read it. It is decoded once for each version.
func decoded[T any](kind hooks.Kind[T], o *apiserver.Object) (*T, error) {
	raw := o.JSON()
	made := o.Cached(decodedKey{}, func() any {
		value := new(T)
		err := kind.Decode(raw, value)
		return result[T]{value, err}
	}).(result[T])
	if made.err != nil {
		return nil, fmt.Errorf("%s: %w", o, made.err)
	}
	return made.value, nil
}

// add appends the decoded object to a list.
func add[T any](list *[]T, kind hooks.Kind[T], o *apiserver.Object) error {
	value, err := decoded(kind, o)
	if err == nil {
		*list = append(*list, *value)
	}
	return err
}

// all decodes objects; there may be none.
func all[T any](kind hooks.Kind[T], objects []*apiserver.Object) (list []T, err error) {
	for _, o := range objects {
		if err = add(&list, kind, o); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func decodedParent(o *apiserver.Object) (*v1beta1.ResumableTrainingJob, error) {
	raw := o.JSON()
	made := o.Cached(decodedKey{}, func() any {
		value, err := hooks.DecodeParent(raw)
		return result[v1beta1.ResumableTrainingJob]{value, err}
	}).(result[v1beta1.ResumableTrainingJob])
	return made.value, made.err
}

// rulesOf are the rules of the customize hook.
func rulesOf(parent *v1beta1.ResumableTrainingJob) ([]*plan.Rule, error) {
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
