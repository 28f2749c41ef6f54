package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
)

// podSets is the shape that the template asks for: one podSet for each
// replicatedJob, of the same name.
func (s *situation) podSets() []kueue.PodSet {
	jobs := s.spec.Template.Spec.ReplicatedJobs
	sets := make([]kueue.PodSet, len(jobs))
	for i := range jobs {
		template := *jobs[i].Template.Spec.Template.DeepCopy()
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		sets[i] = kueue.PodSet{
			Name:     kueue.PodSetReference(jobs[i].Name),
			Count:    replicas(&jobs[i]) * parallelism(&jobs[i]),
			Template: template,
		}
	}
	return sets
}

// worldSize is the number of ranks of the admitted shape; while nothing is
// admitted, of the template's.
func (s *situation) worldSize() int32 {
	i := trainer(s.spec)
	if i < 0 {
		return 0
	}
	job := &s.spec.Template.Spec.ReplicatedJobs[i]
	count := replicas(job) * parallelism(job)
	if s.workload.reserved() && s.workload.Status.Admission != nil {
		for _, a := range s.workload.Status.Admission.PodSetAssignments {
			if a.Name == job.Name && a.Count != nil {
				count = *a.Count
			}
		}
	}
	return count * s.processesPerPod()
}

// shapeHash is of everything in the podSets that needs another admission when
// it changes. Image, command, args and env do not: they apply at the next
// attempt, also on the admission that is held.
func shapeHash(sets []kueue.PodSet) string {
	plain := make([]kueue.PodSet, len(sets))
	for i := range sets {
		plain[i] = *sets[i].DeepCopy()
		for _, list := range [][]corev1.Container{plain[i].Template.Spec.InitContainers, plain[i].Template.Spec.Containers} {
			for j := range list {
				list[j].Image, list[j].Command, list[j].Args, list[j].Env, list[j].EnvFrom = "", nil, nil, nil, nil
			}
		}
	}
	return hash(plain)
}

func hash(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		// The API's own types always encode; a hash that never matches is safe.
		return "unhashable"
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// shapeMark is what a Workload's annotation says of its podSets: the generation
// of the RTJ and the hash, so that the hash is only computed after an edit.
func (s *situation) shapeMark(sets []kueue.PodSet) string {
	return fmt.Sprintf("%d:%s", s.Parent.Generation, shapeHash(sets))
}

// shapeCurrent reports whether the Workload's podSets are what the template asks for.
func (s *situation) shapeCurrent() bool {
	generation, sum := splitMark(s.workload.Meta.Annotations[v1beta1.AnnotationShape])
	return generation == s.Parent.Generation || sum == shapeHash(s.podSets())
}

// templateMark is what a JobSet's annotation says of the template that it was
// built from.
func (s *situation) templateMark() string {
	return fmt.Sprintf("%d:%s", s.Parent.Generation, s.templateHash())
}

func (s *situation) templateHash() string {
	if s.Template != "" {
		return s.Template
	}
	return TemplateHash(s.spec)
}

// TemplateHash is the hash of what JobSets are built from.
func TemplateHash(spec *v1beta1.ResumableTrainingJobSpec) string {
	return hash(struct {
		Template *v1beta1.JobSetTemplate
		Trainer  v1beta1.Trainer
	}{&spec.Template, spec.Trainer})
}

// templateCurrent reports whether the JobSet was built from the template as it
// is now.
func (s *situation) templateCurrent(j *JobSet) bool {
	generation, sum := splitMark(j.Meta.Annotations[v1beta1.AnnotationTemplate])
	return generation == s.Parent.Generation || sum == s.templateHash()
}

func splitMark(mark string) (generation int64, sum string) {
	digits, sum, _ := strings.Cut(mark, ":")
	generation, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return -1, sum
	}
	return generation, sum
}
