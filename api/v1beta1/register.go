package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind and Resource are the kind and the lowercase plural of the
// ResumableTrainingJob.
const (
	Kind     = "ResumableTrainingJob"
	Resource = "resumabletrainingjobs"
)

// GroupVersion is the group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "training.rtj.dev", Version: "v1beta1"}

// SchemeBuilder registers the types of this package.
var SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds the types of this package to a scheme.
var AddToScheme = SchemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ResumableTrainingJob{}, &ResumableTrainingJobList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
