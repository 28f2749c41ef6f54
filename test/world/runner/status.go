package runner

import (
	"maps"
	"reflect"

	"rtj.dev/rtj/api/v1beta1"
)

// statusOf is the decided status as decoded JSON. Fields that are as they were
// observed are shared with what was observed: it is rtj that wrote them, in the
// same form. same tells that all are.
func statusOf(observed any, was, next *v1beta1.ResumableTrainingJobStatus) (status map[string]any, same bool, err error) {
	if next == nil {
		return nil, false, nil
	}
	before, _ := observed.(map[string]any)
	old, now := reflect.ValueOf(was).Elem(), reflect.ValueOf(next).Elem()
	status, same = maps.Clone(before), true
	if status == nil {
		status = map[string]any{}
	}
	for _, m := range membersOf(now.Type()) {
		field := now.FieldByIndex(m.index)
		_, exists := before[m.name]
		switch {
		case exists && alike(old.FieldByIndex(m.index), field):
		case m.omits(field):
			same = same && !exists
			delete(status, m.name)
		default:
			same = false
			if status[m.name], err = valueOf(field); err != nil {
				return nil, false, err
			}
		}
	}
	return status, same, nil
}
