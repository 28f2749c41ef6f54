package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Write is one request that changed something, or tried to.
type Write struct {
	At          time.Time
	Verb        string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	Code        int
}

func (w Write) String() string {
	resource := w.Resource
	if w.Subresource != "" {
		resource += "/" + w.Subresource
	}
	line := fmt.Sprintf("%-6s %-32s %s", w.Verb, resource, w.Name)
	if w.Code >= 300 {
		line += fmt.Sprintf(" (answered %d)", w.Code)
	}
	return line
}

// Who makes RTJ's writes: itself, as operator or as hooks, and an installed
// Metacontroller.
const (
	operatorUser       = "rtj"
	hooksUser          = "system:serviceaccount:" + rtjNamespace + ":" + hooksAccount
	metacontrollerUser = "system:serviceaccount:" + metacontrollerNamespace + ":" + metacontrollerAccount
)

// Writes are what RTJ's own clients wrote into a namespace in a span of time,
// from the API server's audit log. Dry runs are left out: they write nothing.
func (n *Namespace) Writes(from, to time.Time) ([]Write, error) {
	return n.writesOf(from, to, operatorUser, hooksUser)
}

// AllWrites are those of RTJ and of a Metacontroller that runs it.
func (n *Namespace) AllWrites(from, to time.Time) ([]Write, error) {
	return n.writesOf(from, to, operatorUser, hooksUser, metacontrollerUser)
}

func (n *Namespace) writesOf(from, to time.Time, users ...string) ([]Write, error) {
	return n.writes(func(e *auditEvent) bool {
		return slices.Contains(users, e.User.Username) && e.ObjectRef.Namespace == n.Name && e.within(from, to)
	})
}

// WritesBy are what one process wrote, that has a text in its user agent, in all
// namespaces.
func (c *Cluster) WritesBy(agent string) ([]Write, error) {
	return c.writes(func(e *auditEvent) bool { return strings.Contains(e.UserAgent, agent) })
}

func (c *Cluster) writes(which func(*auditEvent) bool) ([]Write, error) {
	var all []Write
	err := c.audited(func(e *auditEvent) {
		if strings.Contains(e.RequestURI, "dryRun=") || !which(e) ||
			!slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb) {
			return
		}
		all = append(all, Write{
			At: e.RequestReceivedTimestamp, Verb: e.Verb, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
			Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, Code: e.ResponseStatus.Code,
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Write) int { return a.At.Compare(b.At) })
	return all, nil
}

// Requests counts, by verb, what RTJ's own clients asked of the API server in a
// span of time, reads and watches included.
func (c *Cluster) Requests(from, to time.Time) (map[string]int, error) {
	count := map[string]int{}
	err := c.audited(func(e *auditEvent) {
		if (e.User.Username == operatorUser || e.User.Username == hooksUser) && e.within(from, to) {
			count[e.Verb]++
		}
	})
	if err != nil {
		return nil, err
	}
	return count, nil
}

type auditEvent struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
}

func (e *auditEvent) within(from, to time.Time) bool {
	return !e.RequestReceivedTimestamp.Before(from) && e.RequestReceivedTimestamp.Before(to)
}

// audited calls each for every request in the API server's audit log, which goes
// on in another file from time to time.
func (c *Cluster) audited(each func(*auditEvent)) error {
	files, err := filepath.Glob(strings.TrimSuffix(c.AuditLog, ".log") + "*.log")
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := readAudit(file, each); err != nil {
			return err
		}
	}
	return nil
}

func readAudit(file string, each func(*auditEvent)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var e auditEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // the last line may be written just now
		}
		each(&e)
	}
	return lines.Err()
}

// Of reports whether the write is about a job or an object of it, by its name.
func (w Write) Of(job string) bool { return w.Name == job || strings.HasPrefix(w.Name, job+"-") }

// Apart reports whether the write is counted apart from those that carry a job
// from one state to the next: leases and events.
func (w Write) Apart() bool { return w.Resource == "leases" || w.Resource == "events" }
