package hooks

import (
	"context"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/edge"
)

// Launcher finds out why a JobSet does not come into being.
type Launcher interface {
	// DryRun tries to create the child of the parent, without effect. An error means
	// that it is not known what would happen.
	DryRun(ctx context.Context, parent *v1beta1.ResumableTrainingJob, child *compose.Child) (*compose.LaunchProbe, error)
}

// tryLaunch tries the creation of a child; nil: it is not known what would happen.
func (h *Hooks) tryLaunch(ctx context.Context, parent *v1beta1.ResumableTrainingJob, wanted *compose.Child) *compose.LaunchProbe {
	ctx, cancel := context.WithTimeout(ctx, edge.LaunchTimeout)
	defer cancel()
	probe, err := h.options.Launcher.DryRun(ctx, parent, wanted)
	if err != nil {
		h.logger.Warn("dry run of a JobSet's creation", "namespace", parent.Namespace, "name", parent.Name, "jobSet", wanted.Name, "error", err)
		return nil
	}
	return probe
}
