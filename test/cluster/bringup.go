package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bringUp starts what does not run and waits until everything is ready. The
// order is that of need: nothing is started before what it cannot do without.
func (c *Cluster) bringUp(ctx context.Context) error {
	begin := time.Now()
	if err := c.writePolicies(); err != nil {
		return err
	}
	existed := c.runs(APIServer)
	var added []string
	run := func(comps ...component) error {
		for _, comp := range comps {
			if c.runs(comp.name) {
				continue
			}
			if err := c.prepare(ctx, comp); err != nil {
				return err
			}
			if err := c.launch(comp); err != nil {
				return err
			}
			added = append(added, comp.name)
		}
		return nil
	}
	step := func(format string, args ...any) {
		fmt.Fprintf(c.Options.Progress, "%5.1fs  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}

	if err := run(c.keeper(), c.etcd(), c.s3()); err != nil {
		return err
	}
	if err := c.waitReady(ctx, c.etcd()); err != nil {
		return err
	}
	if err := run(c.apiServer()); err != nil {
		return err
	}
	if err := c.waitReady(ctx, c.apiServer()); err != nil {
		return err
	}
	step("API server ready at %s", c.APIServer)
	apply, err := newApplier(c.RESTConfig)
	if err != nil {
		return err
	}
	if err := c.stopOutdated(c.controllerManager()); err != nil {
		return err
	}
	if err := run(c.controllerManager(), c.scheduler()); err != nil {
		return err
	}
	managers := []component{c.kueue(), c.jobset(), c.kwok()}
	if !c.allRun(managers) { // which start only after this
		if err := c.install(ctx, apply); err != nil {
			return err
		}
		step("CRDs and roles installed")
	}
	if err := run(managers...); err != nil {
		return err
	}
	fakes, err := c.createFakeNodes(ctx)
	if err != nil {
		return err
	}
	if fakes > 0 {
		added = append(added, fmt.Sprintf("%d fake nodes", fakes))
	}
	if err := c.waitReady(ctx, append(managers, c.controllerManager(), c.scheduler(), c.s3())...); err != nil {
		return err
	}
	if err := c.applyWebhooks(ctx, apply); err != nil {
		return err
	}
	if err := c.ensureBucket(ctx); err != nil {
		return err
	}
	step("Kueue %s, JobSet %s and S3 ready", c.Programs.Versions["kueue"], c.Programs.Versions["jobset"])
	if err := installRTJ(ctx, apply, c.Options.Root, rtjUser); err != nil {
		return err
	}
	if c.Options.ProcessNodes > 0 {
		if err := c.allowNodePeers(ctx, apply); err != nil {
			return err
		}
	}
	for i := range c.Options.ProcessNodes {
		if err := run(c.processNode(i)); err != nil {
			return err
		}
	}
	if c.Options.KubeletNode {
		if err := c.bringUpKubeletNode(ctx, run); err != nil {
			return err
		}
	}
	if err := c.waitNodes(ctx); err != nil {
		return err
	}
	if n := len(c.nodeNames()); n > 0 {
		step("%d nodes Ready", n)
	}
	if c.Options.Operator {
		if err := run(c.operator()); err != nil {
			return err
		}
		if err := c.waitReady(ctx, c.operator()); err != nil {
			return err
		}
		step("operator ready")
	}
	switch {
	case len(added) == 0:
		step("already up: nothing had to be started")
	case existed:
		step("already up; added: %s", strings.Join(added, ", "))
	}
	return nil
}

func (c *Cluster) allRun(comps []component) bool {
	for _, comp := range comps {
		if !c.runs(comp.name) {
			return false
		}
	}
	return true
}

// prepare makes what a component needs before its process starts.
func (c *Cluster) prepare(ctx context.Context, comp component) error {
	switch {
	case comp.name == Operator:
		_, err := c.BuildRTJ(ctx)
		return err
	case strings.HasPrefix(comp.name, processNodePrefix):
		return c.prepareProcessNode(ctx, comp.name)
	case isKubeletNode(comp.name):
		return c.prepareKubeletNode(ctx, comp.name)
	}
	return nil
}

// stopOutdated ends a component that runs with other arguments than it is to
// have, because nodes of another kind were added.
func (c *Cluster) stopOutdated(comp component) error {
	r, err := c.table().Get(comp.name)
	if err != nil || !r.Alive() {
		return nil
	}
	spec, err := comp.spec()
	if err != nil || slices.Equal(r.Args[1:], spec.Args) {
		return err
	}
	return c.table().Stop(comp.name, comp.grace)
}

func (c *Cluster) auditPolicyFile() string { return c.path("config", "audit-policy.yaml") }

func (c *Cluster) writePolicies() error {
	if err := os.MkdirAll(filepath.Dir(c.AuditLog), 0o700); err != nil {
		return err
	}
	return writeFile(c.auditPolicyFile(), auditPolicy, 0o644)
}

// waitNodes waits until every node of the options is Ready.
func (c *Cluster) waitNodes(ctx context.Context) error {
	comps := []component{c.controllerManager(), c.kwok()}
	for i := range c.Options.ProcessNodes {
		comps = append(comps, c.processNode(i))
	}
	return c.waitReady(ctx, append(comps, component{name: Kwok, ready: c.nodesReady})...)
}

// S3Client is a client of the S3 server with its root credentials.
func (c *Cluster) S3Client() (*minio.Client, error) {
	access, secret, err := c.s3Keys()
	if err != nil {
		return nil, err
	}
	return minio.New(strings.TrimPrefix(c.S3.Endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(access, secret, ""), Region: c.S3.Region,
	})
}

func (c *Cluster) ensureBucket(ctx context.Context) error {
	client, err := c.S3Client()
	if err != nil {
		return err
	}
	there, err := client.BucketExists(ctx, c.S3.Bucket)
	if err != nil {
		return fmt.Errorf("look for bucket %s: %w", c.S3.Bucket, err)
	}
	if there {
		return nil
	}
	if err := client.MakeBucket(ctx, c.S3.Bucket, minio.MakeBucketOptions{Region: c.S3.Region}); err != nil {
		return fmt.Errorf("make bucket %s: %w", c.S3.Bucket, err)
	}
	return nil
}
