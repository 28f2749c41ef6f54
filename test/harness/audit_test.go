package harness

import (
	"os"
	"path/filepath"
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
		line("rtj", "delete", "other", "other-namespace", "/x", time.Second) +
		line("rtj", "delete", "ns", "before", "/x", -time.Second) +
		line("rtj", "delete", "ns", "after", "/x", time.Minute) +
		`{"verb":"pat` // being written
	if err := os.WriteFile(log, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	n := &Namespace{Cluster: &Cluster{Cluster: &cluster.Cluster{Info: cluster.Info{AuditLog: log}}}, Name: "ns"}
	writes, err := n.Writes(at, at.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if len(writes) != 2 || writes[0].Name != "first" || writes[1].Name != "second" {
		t.Errorf("want first and second: %v", writes)
	}
}
