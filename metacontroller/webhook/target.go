package webhook

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"rtj.dev/rtj/metacontroller/applier"
)

// target is where a hook is.
type target struct {
	url *url.URL
	// byService: the address is the name of a Service, for the cluster's DNS.
	byService bool
	// hidden is what errors must not show: what the address holds that may be
	// secret.
	hidden []string
}

// targetOf returns where a hook is: the URL, or else the Service and path.
func targetOf(w *applier.Webhook) (target, error) {
	text, err := addressOf(w)
	if err != nil {
		return target{}, err
	}
	u, err := url.Parse(text)
	if err != nil {
		// The text is not repeated: it may hold a password.
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return target{}, fmt.Errorf("url: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return target{}, errors.New("url: must begin with http:// or https://")
	case u.Hostname() == "":
		return target{}, errors.New("url: names no host")
	case u.Fragment != "":
		return target{}, errors.New("url: has a fragment (#), which is never sent")
	}
	return target{u, w.URL == nil, hiddenIn(u)}, nil
}

// hiddenIn returns the password and the query of a URL, in the forms in which a
// hook may repeat them. The shortest values of a query are no secrets.
func hiddenIn(u *url.URL) []string {
	var hidden []string
	if password, _ := u.User.Password(); password != "" {
		hidden = append(hidden, password, base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	if u.RawQuery != "" {
		hidden = append(hidden, u.RawQuery)
	}
	for _, values := range u.Query() {
		for _, value := range values {
			if len(value) >= 6 {
				hidden = append(hidden, value)
			}
		}
	}
	return hidden
}

func addressOf(w *applier.Webhook) (string, error) {
	if w.URL != nil {
		return *w.URL, nil
	}
	s := w.Service
	switch {
	case s == nil && w.Path == nil:
		return "", errors.New("want url, or service and path: they say where the hook is")
	case s == nil:
		return "", errors.New("service: missing: want url, or service and path")
	case w.Path == nil:
		return "", errors.New("path: missing: want url, or service and path")
	case s.Name == "" || s.Namespace == "":
		return "", errors.New("service: want name and namespace")
	case !strings.HasPrefix(*w.Path, "/"):
		return "", fmt.Errorf("path: must begin with /, got %q", *w.Path)
	}
	port, protocol := int32(80), "http"
	if s.Port != nil {
		port = *s.Port
	}
	if s.Protocol != nil {
		protocol = *s.Protocol
	}
	if port < 1 || port > 65535 {
		return "", fmt.Errorf("service.port: want 1 to 65535, got %d", port)
	}
	if protocol != "http" && protocol != "https" {
		return "", fmt.Errorf("service.protocol: want http or https, got %q", protocol)
	}
	return fmt.Sprintf("%s://%s.%s:%d%s", protocol, s.Name, s.Namespace, port, *w.Path), nil
}

// String returns the address for people: without user and password, and without
// the query, which may hold a key.
func (t target) String() string { return shown(t.url) }

func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// matches tells whether host, of an endpointConfigs entry, is this target's: as
// written or with the scheme's port, whichever of the two leaves the port out.
func (t target) matches(host string) bool {
	return strings.EqualFold(withPort(host, t.url.Scheme), hostPort(t.url))
}

// hostPort returns host and port, also where the port is the scheme's own.
func hostPort(u *url.URL) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), portOf(u.Scheme)))
}

func withPort(host, scheme string) string {
	// As the host of a URL, for the brackets of an IPv6 address.
	u := url.URL{Scheme: scheme, Host: host}
	return hostPort(&u)
}

func portOf(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}
