package live

import (
	"context"
	"fmt"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
)

// maxRefusal is how much of the API server's text is kept, in bytes.
const maxRefusal = 1024

var jobSets = v1alpha2.GroupVersion.WithResource("jobsets")

// Launcher dry-runs the creation of JobSets.
type Launcher struct{ Client dynamic.Interface }

// DryRun asks the API server to create a JobSet without doing it, admission
// webhooks and quotas included. An error means that it did not answer.
func (l Launcher) DryRun(ctx context.Context, parent *v1beta1.ResumableTrainingJob, child *compose.Child) (*compose.LaunchProbe, error) {
	object, err := child.Render()
	if err != nil {
		return nil, err
	}
	jobSet := &unstructured.Unstructured{Object: object}
	jobSet.SetNamespace(parent.Namespace)
	// As the runner creates it: Kueue's webhook follows the owner.
	jobSet.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(parent, v1beta1.GroupVersion.WithKind(v1beta1.Kind))})
	client := l.Client.Resource(jobSets).Namespace(parent.Namespace)
	_, err = client.Create(ctx, jobSet, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return &compose.LaunchProbe{JobSet: child.Name}, nil
	case apierrors.IsAlreadyExists(err):
		return l.whose(ctx, parent, child.Name)
	case refused(err):
		return &compose.LaunchProbe{JobSet: child.Name, Refused: trim(err.Error())}, nil
	default:
		return nil, err
	}
}

// whose finds out who has the name of a JobSet that exists and was not observed.
func (l Launcher) whose(ctx context.Context, parent *v1beta1.ResumableTrainingJob, name string) (*compose.LaunchProbe, error) {
	live, err := l.Client.Resource(jobSets).Namespace(parent.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	owner := metav1.GetControllerOf(live)
	if owner != nil && owner.UID == parent.UID {
		// It is ours; the observation is late.
		return &compose.LaunchProbe{JobSet: name}, nil
	}
	by := "is controlled by nobody"
	if owner != nil {
		by = "belongs to " + owner.Kind + " " + owner.Name
	}
	return &compose.LaunchProbe{JobSet: name, Foreign: true, Refused: trim(fmt.Sprintf("a JobSet %s exists and %s", name, by))}, nil
}

// refused tells an answer that stands from one that may pass by itself.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsNotAcceptable(err)
}

func trim(text string) string {
	if len(text) <= maxRefusal {
		return text
	}
	cut := maxRefusal - len("…")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
