package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"rtj.dev/rtj/test/cluster/internal/build"
	"rtj.dev/rtj/test/cluster/internal/privatefs"
)

// Finding is one thing that a cluster needs of the machine. Problem is empty
// if it is there, else it says what to do.
type Finding struct{ What, Seen, Problem string }

// What a first build and a running cluster need, measured on two cores.
const (
	needDisk   = 8 << 30
	needMemory = 3 << 30
)

// Probe looks at everything that a cluster needs of the machine.
func Probe() []Finding {
	all := []Finding{probeSystem(), probeGo(), probeNamespaces()}
	if cache, err := CacheDir(); err != nil {
		all = append(all, Finding{"cache folder", "none", err.Error()})
	} else {
		all = append(all, probeCache(cache))
	}
	return append(all, probeMemory())
}

func probeSystem() Finding {
	f := Finding{What: "system", Seen: runtime.GOOS + "/" + runtime.GOARCH}
	if runtime.GOOS != "linux" {
		f.Problem = "the cluster's processes need Linux (namespaces, overlay mounts, /proc)"
	}
	return f
}

func probeGo() Finding {
	f := Finding{What: "Go"}
	out, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		f.Seen, f.Problem = "not found", "install Go and put it on PATH"
		return f
	}
	f.Seen = strings.TrimSpace(string(out))
	return f
}

func probeNamespaces() Finding {
	f := Finding{What: "private /etc for Kueue", Seen: fmt.Sprintf("works as user %d", os.Geteuid())}
	if err := privatefs.Probe(); err != nil {
		f.Seen, f.Problem = "does not work", err.Error()
	}
	return f
}

func probeCache(cache string) Finding {
	f := Finding{What: "cache folder", Seen: cache}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		f.Problem = err.Error() + " (set RTJ_CACHE to a folder that you may write)"
		return f
	}
	trial, err := os.CreateTemp(cache, "probe")
	if err != nil {
		f.Problem = err.Error() + " (set RTJ_CACHE to a folder that you may write)"
		return f
	}
	_ = trial.Close()
	_ = os.Remove(trial.Name())
	var fs syscall.Statfs_t
	if err := syscall.Statfs(cache, &fs); err != nil {
		f.Problem = err.Error()
		return f
	}
	free := int64(fs.Bavail) * int64(fs.Bsize)
	f.Seen = fmt.Sprintf("%s, %d GiB free", cache, free>>30)
	built, _ := filepath.Glob(filepath.Join(cache, "bin", "*", "kube-apiserver"))
	if len(built) == 0 && free < needDisk {
		f.Problem = fmt.Sprintf("the first build needs about %d GiB, Go's own caches included", needDisk>>30)
	}
	return f
}

func probeMemory() Finding {
	f := Finding{What: "memory"}
	available, err := availableMemory()
	if err != nil {
		f.Seen, f.Problem = "unknown", err.Error()
		return f
	}
	f.Seen = fmt.Sprintf("%d MiB available", available>>20)
	if available < needMemory {
		f.Problem = fmt.Sprintf("a cluster and its build need about %d MiB", needMemory>>20)
	}
	return f
}

func availableMemory() (int64, error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("no MemAvailable in /proc/meminfo")
}

// BuildPrograms builds the programs of the cluster, with those of a kubelet node
// if they are wanted, and returns the folder that holds kubectl.
func BuildPrograms(ctx context.Context, kubeletNode bool, progress io.Writer) (string, error) {
	root, err := FindRoot()
	if err != nil {
		return "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	programs, err := build.All(ctx, root, cache, build.Wanted{KubeletNode: kubeletNode}, progress)
	return programs.BinDir, err
}
