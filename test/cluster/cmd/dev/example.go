package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func example(ctx context.Context, args []string) error {
	c, _, err := open("example", args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	job, err := c.Example(ctx)
	if err != nil {
		return fmt.Errorf("example: %w", err)
	}
	name, namespace := job.GetName(), job.GetNamespace()
	phase, _, _ := unstructured.NestedString(job.Object, "status", "phase")
	switch phase {
	case "Succeeded", "Failed":
		fmt.Printf("rtj/%s in namespace %s is over (%s); delete it to train once more\n", name, namespace, phase)
	default:
		fmt.Printf("rtj/%s is applied in namespace %s\n", name, namespace)
	}
	fmt.Printf("paste this, then look, one at a time:\n%s", shellLines(c))
	fmt.Printf(`
  kubectl get rtj %[1]s -n %[2]s -w
  kubectl get workloads,jobsets,pods -n %[2]s
  kubectl logs -n %[2]s -f -l jobset.sigs.k8s.io/replicatedjob-name=trainer --prefix
  kubectl patch rtj %[1]s -n %[2]s --type merge -p '{"spec":{"suspend":true}}'     # false: it goes on
  kubectl delete rtj %[1]s -n %[2]s
`, name, namespace)
	return nil
}
