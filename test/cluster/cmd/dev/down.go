package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"rtj.dev/rtj/test/cluster"
)

func shellLines(c *cluster.Cluster) string {
	return fmt.Sprintf("  export KUBECONFIG=%s\n  export PATH=%s:$PATH\n", c.Kubeconfig, c.Programs.BinDir)
}

func down(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("down", flag.ContinueOnError)
	dir := dirFlag(flags)
	keepLogs := flags.Bool("keep-logs", false, "keep logs and the audit log")
	if err := parse(flags, args); err != nil {
		return err
	}
	err := cluster.Down(ctx, *dir, *keepLogs)
	if errors.Is(err, cluster.ErrNoCluster) {
		fmt.Println("nothing to take down:", err)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Println("down:", *dir)
	// The folder around the default one is nobody's but ours; if it is not
	// empty, this fails and should.
	if parent := filepath.Dir(*dir); filepath.Base(parent) == ".local" {
		_ = os.Remove(parent)
	}
	return nil
}

func env(_ context.Context, args []string) error {
	c, _, err := open("env", args)
	if err != nil {
		return err
	}
	fmt.Print(shellLines(c))
	// As comments, so that a shell can read the whole.
	fmt.Printf("  # S3: endpoint %s, region %s, bucket %s\n  # S3: keys in %s and %s\n",
		c.S3.Endpoint, c.S3.Region, c.S3.Bucket, c.S3.AccessKeyFile, c.S3.SecretKeyFile)
	return nil
}

// dirFlag is the state folder, by default .local/cluster in the checkout.
func dirFlag(flags *flag.FlagSet) *string {
	fallback := ".local/cluster"
	if root, err := cluster.FindRoot(); err == nil {
		fallback = filepath.Join(root, fallback)
	}
	return flags.String("dir", fallback, "state folder")
}

func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errSilent // the flag package has said why
	}
	return nil
}

// open parses the flags of a command on a cluster that exists.
func open(name string, args []string) (*cluster.Cluster, []string, error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	dir := dirFlag(flags)
	if err := parse(flags, args); err != nil {
		return nil, nil, err
	}
	c, err := cluster.Open(*dir)
	return c, flags.Args(), err
}
