// Package hosts writes the /etc/hosts files of containers. They stand in for
// the cluster's DNS: a pod with a subdomain finds its peers by name.
package hosts

import (
	"bytes"
	"fmt"
	"os"
	"sort"
	"strings"
)

// Peer is a pod that can be found by name.
type Peer struct {
	Namespace, Hostname, Subdomain, IP string
}

// names of a peer, the fully qualified one first, as DNS would give it.
func (p Peer) names() []string {
	if p.Subdomain == "" {
		return nil
	}
	short := p.Hostname + "." + p.Subdomain
	return []string{short + "." + p.Namespace + ".svc.cluster.local", short}
}

// Alias is an entry that the pod itself asks for.
type Alias struct {
	IP    string
	Names []string
}

// Render returns the file of self. Peers of other subdomains or namespaces are
// left out, and self may be among the peers.
func Render(self Peer, peers []Peer, aliases []Alias) []byte {
	var b bytes.Buffer
	b.WriteString("# written by the node, changed as pods come and go\n127.0.0.1\tlocalhost\n")
	line := func(ip string, names ...string) {
		fmt.Fprintf(&b, "%s\t%s\n", ip, strings.Join(names, " "))
	}
	line(self.IP, append(self.names(), self.Hostname)...)
	for _, a := range aliases {
		line(a.IP, a.Names...)
	}
	if self.Subdomain == "" {
		return b.Bytes()
	}
	lines := map[Peer]bool{}
	for _, p := range peers {
		if p.Namespace == self.Namespace && p.Subdomain == self.Subdomain && p.IP != "" && p != self {
			lines[p] = true
		}
	}
	sorted := make([]Peer, 0, len(lines))
	for p := range lines {
		sorted = append(sorted, p)
	}
	sort.Slice(sorted, func(i, j int) bool {
		a, b := sorted[i], sorted[j]
		return a.Hostname < b.Hostname || a.Hostname == b.Hostname && a.IP < b.IP
	})
	for _, p := range sorted {
		line(p.IP, p.names()...)
	}
	return b.Bytes()
}

// Write replaces the content of the file in place. Containers have the file
// itself mounted, so it must stay the same inode, and a reader must never find
// it empty: the new content is written over the old one, filled up with empty
// lines, before the file is cut to its length.
func Write(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	padded := content
	if missing := int(info.Size()) - len(content); missing > 0 {
		padded = append(bytes.Clone(content), bytes.Repeat([]byte("\n"), missing)...)
	}
	if _, err := f.WriteAt(padded, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(content)))
}
