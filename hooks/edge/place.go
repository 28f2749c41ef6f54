package edge

import (
	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/catalog"
)

// Place is where a run is in which store. It is comparable, unlike a catalog.Run.
type Place struct {
	location               catalog.Location
	secret                 string
	namespace, name, runID string
}

// PlaceOf returns where the run of a job is.
func PlaceOf(parent *v1beta1.ResumableTrainingJob) Place {
	storage := parent.Spec.Checkpoint.Storage
	p := Place{
		location:  catalog.Location{URI: storage.URI, Endpoint: storage.Endpoint, Region: storage.Region},
		namespace: parent.Namespace,
		name:      parent.Name,
		runID:     compose.RunID(parent),
	}
	if c := storage.Credentials; c != nil {
		p.secret = c.SecretName
	}
	return p
}

// Secret is where the credentials are: in the namespace of the job, by name; empty:
// none are named.
func (p Place) Secret() (namespace, name string) { return p.namespace, p.secret }

// Job is whose run it is.
func (p Place) Job() (namespace, name string) { return p.namespace, p.name }

// Run is the run, to be read with the credentials.
func (p Place) Run(credentials *catalog.Credentials) catalog.Run {
	return catalog.Run{Namespace: p.namespace, Name: p.name, RunID: p.runID, Location: p.location, Credentials: credentials}
}

// Include are checkpoints that have to be read however old they are.
func Include(parent *v1beta1.ResumableTrainingJob) []string {
	if from := parent.Spec.Resume.From; from != "" {
		return []string{from}
	}
	return nil
}
