package hosts

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRenderNamesPeersOfTheSubdomain(t *testing.T) {
	self := Peer{"team", "job-0-0", "job", "127.5.3.2"}
	got := string(Render(self, []Peer{
		{"team", "job-0-1", "job", "127.5.3.3"},
		self,
		{"team", "job-0-2", "job", ""},            // has no address yet
		{"team", "other-0-0", "other", "1.1.1.1"}, // another subdomain
		{"else", "job-0-1", "job", "1.1.1.1"},     // another namespace
	}, nil))
	want := `# written by the node, changed as pods come and go
127.0.0.1	localhost
127.5.3.2	job-0-0.job.team.svc.cluster.local job-0-0.job job-0-0
127.5.3.3	job-0-1.job.team.svc.cluster.local job-0-1.job
`
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestRenderWithoutSubdomainKnowsOnlyItself(t *testing.T) {
	got := string(Render(Peer{"team", "solo", "", "127.5.3.2"}, []Peer{{"team", "also", "", "127.5.3.3"}},
		[]Alias{{IP: "127.0.0.1", Names: []string{"store", "store.example"}}}))
	want := "# written by the node, changed as pods come and go\n127.0.0.1\tlocalhost\n127.5.3.2\tsolo\n127.0.0.1\tstore store.example\n"
	if got != want {
		t.Errorf("got:\n%s", got)
	}
}

func TestWriteKeepsTheInode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	if err := Write(path, []byte("first, and longer\n")); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	for _, content := range []string{"short\n", "longer than before, and than the first\n", ""} {
		if err := Write(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		n, _ := open.ReadAt(buf, 0)
		if string(buf[:n]) != content {
			t.Errorf("a reader that had the file open sees %q, want %q", buf[:n], content)
		}
	}
}
