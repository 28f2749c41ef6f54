package runner

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

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

// all decodes related objects; there may be none. Nothing is returned of these, so
// that their raw form is not needed.
func all[T any](objects []*apiserver.Object) (list []T, err error) {
	for _, o := range objects {
		made := o.Cached(decodedKey{}, func() any {
			value := new(T)
			return result[T]{value, fill(reflect.ValueOf(value).Elem(), o.Body)}
		}).(result[T])
		if made.err != nil {
			return nil, fmt.Errorf("%s: %w", o, made.err)
		}
		list = append(list, *made.value)
	}
	return list, nil
}

// decodedParent is a parent as decisions read it. Of an older version, nil if there is
// none, it takes over what has not changed.
func decodedParent(o, older *apiserver.Object) (*v1beta1.ResumableTrainingJob, error) {
	var was *v1beta1.ResumableTrainingJob
	if older != nil && older != o {
		was, _ = decodedParent(older, nil)
	}
	made := o.Cached(decodedKey{}, func() any {
		if was != nil && was.UID == types.UID(o.UID) {
			if value, err := changedParent(o, older, was); err == nil {
				return result[v1beta1.ResumableTrainingJob]{value, nil}
			}
		}
		value, err := hooks.DecodeParent(o.JSON())
		return result[v1beta1.ResumableTrainingJob]{value, err}
	}).(result[v1beta1.ResumableTrainingJob])
	return made.value, made.err
}

// changedParent is a parent that was decoded before, as it is now.
func changedParent(o, older *apiserver.Object, was *v1beta1.ResumableTrainingJob) (*v1beta1.ResumableTrainingJob, error) {
	is := &v1beta1.ResumableTrainingJob{TypeMeta: was.TypeMeta, Spec: was.Spec}
	if err := fill(reflect.ValueOf(&is.ObjectMeta).Elem(), o.Body["metadata"]); err != nil {
		return nil, err
	}
	if !apiserver.Identical(o.Body["spec"], older.Body["spec"]) {
		is.Spec = v1beta1.ResumableTrainingJobSpec{}
		if err := fill(reflect.ValueOf(&is.Spec).Elem(), o.Body["spec"]); err != nil {
			return nil, err
		}
	}
	before, _ := older.Body["status"].(map[string]any)
	now, _ := o.Body["status"].(map[string]any)
	from, to := reflect.ValueOf(&was.Status).Elem(), reflect.ValueOf(&is.Status).Elem()
	for _, m := range membersOf(to.Type()) {
		if apiserver.Identical(now[m.name], before[m.name]) {
			to.FieldByIndex(m.index).Set(from.FieldByIndex(m.index))
		} else if err := fill(to.FieldByIndex(m.index), now[m.name]); err != nil {
			return nil, err
		}
	}
	return is, nil
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
