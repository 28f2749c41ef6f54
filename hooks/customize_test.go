package hooks_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/contract"
)

func TestCustomizeNamesWhatDecidesAboutAJob(t *testing.T) {
	parent := `{"apiVersion":"training.rtj.dev/v1beta1","kind":"ResumableTrainingJob",
		"metadata":{"name":"llama","namespace":"team-a","uid":"u-1"},
		"spec":{"queueName":"gpus","priorityClassName":"prod","template":{"spec":{"replicatedJobs":[{"name":"prep"},{"name":"workers"}]}},"trainer":{"replicatedJob":"workers"}}}`
	h := hooks.New(hooks.Options{})
	defer h.Close()
	response, err := h.Customize(context.Background(), &contract.CustomizeRequest{Parent: json.RawMessage(parent)})
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Validate(); err != nil {
		t.Errorf("a runner refuses the answer: %v", err)
	}
	got, err := json.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"relatedResources":[
		{"apiVersion":"batch/v1","resource":"jobs","namespace":"team-a","labelSelector":{"matchLabels":{"training.rtj.dev/uid":"u-1"}}},
		{"apiVersion":"v1","resource":"pods","namespace":"team-a","labelSelector":{"matchLabels":{
			"training.rtj.dev/uid":"u-1","jobset.sigs.k8s.io/replicatedjob-name":"workers","jobset.sigs.k8s.io/job-index":"0","batch.kubernetes.io/job-completion-index":"0"}}},
		{"apiVersion":"kueue.x-k8s.io/v1beta2","resource":"localqueues","namespace":"team-a","names":["gpus","default"]},
		{"apiVersion":"kueue.x-k8s.io/v1beta2","resource":"clusterqueues"},
		{"apiVersion":"kueue.x-k8s.io/v1beta2","resource":"resourceflavors"},
		{"apiVersion":"kueue.x-k8s.io/v1beta2","resource":"workloadpriorityclasses","names":["prod"]}]}`
	if diff := cmp.Diff(decoded(t, want), decoded(t, string(got))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCustomizeAsksForNothingThatIsNotNamed(t *testing.T) {
	parent := `{"apiVersion":"training.rtj.dev/v1beta1","kind":"ResumableTrainingJob",
		"metadata":{"name":"llama","namespace":"team-a","uid":"u-1"},
		"spec":{"queueName":"default","template":{"spec":{"replicatedJobs":[{"name":"workers"}]}}}}`
	h := hooks.New(hooks.Options{})
	defer h.Close()
	response, err := h.Customize(context.Background(), &contract.CustomizeRequest{Parent: json.RawMessage(parent)})
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range response.RelatedResources {
		switch rule.Resource {
		case "workloadpriorityclasses":
			t.Error("no priority class is named, and all are asked for")
		case "localqueues":
			if len(rule.Names) != 1 {
				t.Errorf("LocalQueues %q", rule.Names)
			}
		}
	}
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
