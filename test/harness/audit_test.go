package harness

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"rtj.dev/rtj/test/cluster"
)

func TestWritesAreThoseOfRTJInTheNamespaceAndTheSpan(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	line := func(user, verb, namespace, name, uri string, offset time.Duration) string {
		return `{"verb":"` + verb + `","requestURI":"` + uri + `","user":{"username":"` + user + `"},"objectRef":{"resource":"pods","namespace":"` +
			namespace + `","name":"` + name + `"},"responseStatus":{"code":200},"requestReceivedTimestamp":"` + at.Add(offset).Format(time.RFC3339Nano) + "\"}\n"
	}
	log := filepath.Join(t.TempDir(), "audit.log")
	content := line("rtj", "patch", "ns", "second", "/x", 2*time.Second) +
		line("rtj", "create", "ns", "first", "/x", time.Second) +
		line("rtj", "list", "ns", "read", "/x", time.Second) +
		line("rtj", "create", "ns", "dry", "/x?dryRun=All", time.Second) +
		line("admin", "delete", "ns", "other-user", "/x", time.Second) +
		line("system:serviceaccount:rtj-system:rtj-hooks", "patch", "ns", "third", "/x", 3*time.Second) +
		line("system:serviceaccount:metacontroller:metacontroller", "update", "ns", "fourth", "/x", 4*time.Second) +
		line("rtj", "delete", "other", "other-namespace", "/x", time.Second) +
		line("rtj", "delete", "ns", "before", "/x", -time.Second) +
		line("rtj", "delete", "ns", "after", "/x", time.Minute) +
		`{"verb":"pat` // being written
	if err := os.WriteFile(log, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	n := &Namespace{Cluster: &Cluster{Cluster: &cluster.Cluster{Info: cluster.Info{AuditLog: log}}}, Name: "ns"}
	for name, c := range map[string]struct {
		writes func(from, to time.Time) ([]Write, error)
		want   []string
	}{
		"RTJ's own":            {n.Writes, []string{"first", "second", "third"}},
		"and Metacontroller's": {n.AllWrites, []string{"first", "second", "third", "fourth"}},
	} {
		writes, err := c.writes(at, at.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range writes {
			got = append(got, w.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: want %v: %v", name, c.want, writes)
		}
	}
}
