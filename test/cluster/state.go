package cluster

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"rtj.dev/rtj/test/cluster/internal/build"
	"rtj.dev/rtj/test/cluster/internal/proc"
	"rtj.dev/rtj/test/cluster/internal/slot"
)

// stateFile names the file in a state folder that marks it as one.
const stateFile = "cluster.json"

// Info is the content of cluster.json: where everything of a cluster is.
// Secrets are named by the files that hold them.
type Info struct {
	Schema int    `json:"schema"`
	ID     string `json:"id"`
	Dir    string `json:"dir"`

	APIServer string `json:"apiServer"`
	// Kubeconfig is the administrator's, RTJKubeconfig that of user "rtj", as
	// which RTJ's own clients run.
	Kubeconfig    string `json:"kubeconfig"`
	RTJKubeconfig string `json:"rtjKubeconfig"`
	ClusterCA     string `json:"clusterCA"`
	// Programs says where the programs are; kubectl is in its binDir.
	Programs build.Result `json:"programs"`

	S3 S3Info `json:"s3"`
	// PodRange is the loopback range of this cluster's pods.
	PodRange string `json:"podRange"`
	// AuditLog holds one JSON line for every write by anyone and every request
	// by user "rtj".
	AuditLog string         `json:"auditLog"`
	Ports    map[string]int `json:"ports"`

	Slot    int            `json:"slot"`
	Owner   *proc.Identity `json:"owner,omitempty"`
	Options Options        `json:"options"`
}

// S3Info says how to reach the S3 server.
type S3Info struct {
	Endpoint string `json:"endpoint"`
	Region   string `json:"region"`
	// Bucket exists.
	Bucket        string `json:"bucket"`
	AccessKeyFile string `json:"accessKeyFile"`
	SecretKeyFile string `json:"secretKeyFile"`
}

const infoSchema = 1

// ErrNoCluster is returned where a folder holds no cluster.
var ErrNoCluster = errors.New("no cluster")

// ReadInfo reads the cluster.json of a state folder.
func ReadInfo(dir string) (Info, error) {
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, fmt.Errorf("%w in %s", ErrNoCluster, dir)
	}
	if err != nil {
		return Info{}, err
	}
	var info Info
	if err := json.Unmarshal(data, &info); err != nil {
		return Info{}, fmt.Errorf("%s: %w", filepath.Join(dir, stateFile), err)
	}
	if info.Schema != infoSchema {
		return Info{}, fmt.Errorf("%s: schema %d is not %d: made by another version of this command",
			filepath.Join(dir, stateFile), info.Schema, infoSchema)
	}
	return info, nil
}

func (i Info) write() error {
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(i.Dir, stateFile), append(data, '\n'), 0o644)
}

// MarkerEnv is the environment variable with the cluster's ID by which a process
// that somebody else starts becomes the cluster's, to be ended with it.
const MarkerEnv = proc.MarkerEnv

// table is the cluster's records of processes.
func (i Info) table() proc.Table {
	return proc.Table{RunDir: i.path("run"), LogDir: i.path("logs"), Marker: i.ID}
}

func (i Info) path(elem ...string) string {
	return filepath.Join(append([]string{i.Dir}, elem...)...)
}

func (i Info) slot() slot.Slot { return slot.Slot{Index: i.Slot} }

// create makes the state folder of a new cluster with its share of the machine
// and its cluster.json, before anything else is written or runs, so that
// whatever happens next can be cleaned up.
func create(ctx context.Context, opts Options, programs build.Result) (Info, error) {
	cache, err := CacheDir()
	if err != nil {
		return Info{}, err
	}
	if err := mustBeNew(opts.Dir); err != nil {
		return Info{}, err
	}
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return Info{}, err
	}
	info := Info{Schema: infoSchema, ID: randomText(16), Dir: opts.Dir, Programs: programs, Options: opts}
	info.Kubeconfig = info.path("kubeconfig")
	info.RTJKubeconfig = info.path("rtj.kubeconfig")
	info.ClusterCA = info.path("pki", "ca.crt")
	info.AuditLog = info.path("audit", "audit.log")
	if !opts.Persistent {
		self, err := proc.Self()
		if err != nil {
			return Info{}, err
		}
		info.Owner = &self
	}
	_, err = registry(cache).Take(ctx, opts.Dir, info.ID, func(taken slot.Slot) error {
		info.settle(taken)
		return info.write()
	})
	return info, err
}

// settle gives the cluster its share of the machine.
func (i *Info) settle(taken slot.Slot) {
	i.Slot, i.PodRange, i.Ports = taken.Index, taken.Range(), ports(taken)
	i.APIServer = fmt.Sprintf("https://127.0.0.1:%d", i.Ports["kube-apiserver"])
	i.S3 = S3Info{
		Endpoint: fmt.Sprintf("http://127.0.0.1:%d", i.Ports["s3"]), Region: "us-east-1", Bucket: "rtj",
		AccessKeyFile: i.path("secrets", "s3-access-key"), SecretKeyFile: i.path("secrets", "s3-secret-key"),
	}
}

// issueS3Keys makes the credentials of the S3 server, once for each cluster.
func issueS3Keys(info Info) error {
	if err := os.MkdirAll(info.path("secrets"), 0o700); err != nil {
		return err
	}
	for path, key := range map[string]string{
		info.S3.AccessKeyFile: strings.ToUpper(randomText(20)),
		info.S3.SecretKeyFile: randomText(40),
	} {
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := writeFile(path, []byte(key), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// leftovers are what `down` keeps when it is asked to keep logs.
var leftovers = map[string]bool{"logs": true, "audit": true}

// mustBeNew refuses a folder with other content: `down` deletes state folders.
func mustBeNew(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if !leftovers[e.Name()] {
			return fmt.Errorf("%s holds other files (%s) and no %s: it is not a cluster's state folder; choose an empty or new one",
				dir, e.Name(), stateFile)
		}
	}
	return nil
}

// ports gives each listener its place in the cluster's block.
func ports(s slot.Slot) map[string]int {
	names := []string{
		"etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
		"kueue-health", "kueue-metrics", "kueue-webhook", "jobset-health", "jobset-webhook",
		"kwok", "s3", "operator-hooks", "operator-health", "operator-metrics", "operator-webhook",
		Kubelet, CoreDNS,
	}
	all := map[string]int{}
	for i, name := range names {
		all[name] = s.Port(i)
	}
	// The last ports are the process nodes', for logs.
	for n := range slot.NodesEach {
		all[ProcessNodeName(n)] = s.Port(slot.PortsEach - slot.NodesEach + n)
	}
	return all
}

func registry(cache string) slot.Registry {
	return slot.Registry{Dir: filepath.Join(cache, "slots"), Free: slot.PortFree, Live: claimLive}
}

// claimLive: a slot is taken as long as its cluster's state folder is there.
func claimLive(c slot.Claim) bool {
	info, err := ReadInfo(c.Dir)
	if err != nil {
		return !errors.Is(err, ErrNoCluster)
	}
	return info.ID == c.ID
}

// lockDir takes the lock on a state folder. It lies in the cache, not in the
// folder, since the folder comes and goes under it.
func lockDir(ctx context.Context, dir string, waiting func(pid int)) (*slot.Lock, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(dir))
	return slot.Acquire(ctx, filepath.Join(cache, "locks", hex.EncodeToString(sum[:8])), waiting)
}

func randomText(n int) string {
	buf := make([]byte, n)
	_, _ = rand.Read(buf) // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(buf))[:n]
}

// writeFile replaces a file as a whole.
func writeFile(path string, data []byte, mode os.FileMode) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, mode); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
