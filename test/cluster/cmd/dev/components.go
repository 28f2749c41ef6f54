package main

import (
	"context"
	"errors"
	"fmt"

	"rtj.dev/rtj/test/cluster"
)

func startComponents(ctx context.Context, args []string) error {
	return each("start", args, func(c *cluster.Cluster, name string) error {
		return c.StartComponent(ctx, name)
	})
}

func stopComponents(_ context.Context, args []string) error {
	return each("stop", args, func(c *cluster.Cluster, name string) error {
		return c.StopComponent(name)
	})
}

func killComponents(_ context.Context, args []string) error {
	return each("kill", args, func(c *cluster.Cluster, name string) error {
		return c.KillComponent(name)
	})
}

func restartComponents(ctx context.Context, args []string) error {
	return each("restart", args, func(c *cluster.Cluster, name string) error {
		if err := c.StopComponent(name); err != nil {
			return err
		}
		return c.StartComponent(ctx, name)
	})
}

func each(verb string, args []string, do func(*cluster.Cluster, string) error) error {
	c, names, err := open(verb, args)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New(verb + " needs the name of a component (see status)")
	}
	for _, name := range names {
		if err := do(c, name); err != nil {
			return fmt.Errorf("%s %s: %w", verb, name, err)
		}
		fmt.Println(verb, name+": done")
	}
	return nil
}
