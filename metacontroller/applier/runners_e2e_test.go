//go:build e2e

package applier_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

// metacontroller is an installed Metacontroller, one process for each benchmark.
type metacontroller struct {
	binary string
	pid    int
}

var (
	definitions          = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	compositeControllers = schema.GroupVersionResource{Group: "metacontroller.k8s.io", Version: "v1alpha1", Resource: "compositecontrollers"}
)

func (m *metacontroller) start(w *world, c *applier.CompositeController) {
	w.t.Helper()
	if err := installDefinitions(); err != nil {
		w.t.Fatal(err)
	}
	hooks := httptest.NewServer(http.HandlerFunc(w.serveSync))
	w.t.Cleanup(hooks.Close)

	url := hooks.URL + "/sync"
	c.Spec.Hooks.Sync.Webhook = &applier.Webhook{URL: &url}
	text, err := json.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &object.Object); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the CompositeController is made", func() bool {
		_, err := server.client.Resource(compositeControllers).Create(context.Background(), object, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err)
	})
	w.t.Cleanup(func() {
		_ = server.client.Resource(compositeControllers).Delete(context.Background(), c.Name, metav1.DeleteOptions{})
	})

	log, err := os.Create(filepath.Join(w.t.TempDir(), "metacontroller.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	address := probe.Addr().String()
	probe.Close()
	cmd := exec.Command(m.binary, "--metrics-address=0", "--health-probe-bind-address="+address, "--discovery-interval=2s",
		"--client-go-qps=1000", "--client-go-burst=2000", "--workers=50")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+server.cluster.RTJKubeconfig)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	m.pid = cmd.Process.Pid
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if w.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			w.t.Logf("Metacontroller said:\n%.4000s", text)
		}
	})
}

func (m *metacontroller) cpu() time.Duration { return cpuOf(m.pid) }

// serveSync answers the sync hook over HTTP.
func (w *world) serveSync(out http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(in.Body)
	if err == nil {
		var request *contract.SyncRequest
		if request, err = contract.DecodeSyncRequest(body); err == nil {
			var response *contract.SyncResponse
			if response, err = w.Sync(in.Context(), request); err == nil {
				out.Header().Set("Content-Type", "application/json")
				_, _ = out.Write(response.AppendJSON(nil))
				return
			}
		}
	}
	http.Error(out, err.Error(), http.StatusInternalServerError)
}

// installDefinitions makes Metacontroller's kinds.
func installDefinitions() error {
	text, err := os.ReadFile(filepath.Join("..", "..", "test", "harness", "metacontroller-crds.yaml"))
	if err != nil {
		return err
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		crd := &unstructured.Unstructured{}
		if err := decoder.Decode(crd); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if _, err := server.client.Resource(definitions).Create(context.Background(), crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

// cpuOf returns the CPU time that a process has used.
func cpuOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name of the program, in parentheses, may hold spaces.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	const perSecond = 100 // USER_HZ, on every Linux
	return time.Duration(user+system) * time.Second / perSecond
}

// audited counts the requests of the runner, user "rtj", about objects of this
// world and about parents, from the API server's audit log. Lists and watches are
// what caches are made of, and are left out.
func (w *world) audited(from, to time.Time) (writes, reads int) {
	w.t.Helper()
	time.Sleep(500 * time.Millisecond) // the log is written in batches
	files, err := filepath.Glob(strings.TrimSuffix(server.cluster.AuditLog, ".log") + "*.log")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, path := range files {
		if err := eachAudited(path, func(e *audited) {
			switch at := e.RequestReceivedTimestamp; {
			case e.User.Username != "rtj" || e.ObjectRef.Namespace != w.namespace || at.Before(from) || at.After(to):
			case e.Verb == "get":
				reads++
			case e.Verb != "list" && e.Verb != "watch":
				writes++
			}
		}); err != nil {
			w.t.Fatal(err)
		}
	}
	return writes, reads
}

type audited struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef struct{ Namespace string }

	RequestReceivedTimestamp time.Time
}

func eachAudited(path string, visit func(*audited)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var e audited
		if json.Unmarshal(lines.Bytes(), &e) == nil { // the last line may be half written
			visit(&e)
		}
	}
	return lines.Err()
}
