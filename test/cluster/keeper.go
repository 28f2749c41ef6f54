package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"rtj.dev/rtj/test/cluster/internal/proc"
)

// The keeper is one small process for each cluster. It keeps the logs from
// filling the disk, and takes a cluster that is not persistent down when the
// process that started it has ended, however it ended. It is this executable
// under another name, handled in an init function because a test binary has no
// main function of ours.
const keeperArg0 = "rtj-cluster-keeper"

const (
	keeperName    = "keeper"
	keeperBeat    = 10 * time.Second
	keeperLogSize = 32 << 20
	// keeperPipe is the descriptor on which an owned cluster's keeper waits.
	keeperPipe = 3
)

func init() {
	if len(os.Args) < 2 || os.Args[0] != keeperArg0 {
		return
	}
	if err := keep(os.Args[1], len(os.Args) > 2 && os.Args[2] == "owned"); err != nil {
		fmt.Fprintln(os.Stderr, keeperArg0+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (c *Cluster) keeper() component {
	return component{
		name: keeperName, grace: time.Second,
		spec: func() (proc.Spec, error) {
			spec := proc.Spec{Name: keeperName, Path: "/proc/self/exe", Arg0: keeperArg0, Args: []string{c.Dir}, Dir: "/"}
			// Only the owner can hold the pipe; started again by another
			// command, the keeper keeps the logs and no more.
			if self, err := proc.Self(); err == nil && c.Owner != nil && *c.Owner == self {
				r, w, err := os.Pipe()
				if err != nil {
					return proc.Spec{}, err
				}
				spec.Args = append(spec.Args, "owned")
				spec.Files = []*os.File{r}
				c.mu.Lock()
				if c.ownerPipe != nil {
					_ = c.ownerPipe.Close()
				}
				c.ownerPipe = w
				c.mu.Unlock()
			}
			for _, name := range []string{"RTJ_CACHE", "XDG_CACHE_HOME"} {
				if v, ok := os.LookupEnv(name); ok {
					spec.Env = append(spec.Env, name+"="+v)
				}
			}
			return spec, nil
		},
	}
}

func keep(dir string, owned bool) error {
	info, err := ReadInfo(dir)
	if err != nil {
		return err
	}
	orphaned := make(chan struct{})
	if owned {
		go func() {
			pipe := os.NewFile(keeperPipe, "owner")
			_, _ = io.Copy(io.Discard, pipe)
			close(orphaned)
		}()
	}
	tick := time.NewTicker(keeperBeat)
	defer tick.Stop()
	for {
		select {
		case <-orphaned:
			if now, err := ReadInfo(dir); err != nil || now.ID != info.ID {
				return nil
			}
			err := Down(context.Background(), dir, false)
			if errors.Is(err, ErrNoCluster) {
				return nil
			}
			return err
		case <-tick.C:
			now, err := ReadInfo(dir)
			if err != nil || now.ID != info.ID {
				return nil
			}
			if err := info.table().TrimLogs(keeperLogSize); err != nil {
				fmt.Fprintln(os.Stderr, "trim logs:", err)
			}
		}
	}
}
