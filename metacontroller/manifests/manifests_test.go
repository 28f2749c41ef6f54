package manifests

import (
	"testing"

	"rtj.dev/rtj/metacontroller/applier"
)

func TestCompositeControllerIsRunnable(t *testing.T) {
	controllers, err := applier.Parse(CompositeController)
	if err != nil {
		t.Fatal(err)
	}
	if len(controllers) != 1 || controllers[0].Name != "rtj" {
		t.Fatalf("got %d controllers", len(controllers))
	}
	for _, child := range controllers[0].Spec.ChildResources {
		if child.UpdateStrategy == nil || child.UpdateStrategy.Method != applier.InPlace {
			t.Errorf("%s: the default strategy never updates a child", child.Resource.Resource)
		}
	}
}
