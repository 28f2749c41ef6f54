package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"
)

// Plugin is a CNI plugin that comes after another one in a list: it lets the
// machine's ports appear on the pod's loopback and hands the result of the
// plugin before it on.
//
// Protocol: CNI Specification 1.0, sections 2 and 3.
func Plugin(getenv func(string) string, in io.Reader, out io.Writer) error {
	var config struct {
		CNIVersion string          `json:"cniVersion"`
		PrevResult json.RawMessage `json:"prevResult"`
	}
	if err := json.NewDecoder(in).Decode(&config); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the configuration: %w", err)
	}
	sandbox := getenv("CNI_CONTAINERID")
	switch command := getenv("CNI_COMMAND"); command {
	case "VERSION":
		return json.NewEncoder(out).Encode(map[string]any{"cniVersion": "1.0.0", "supportedVersions": []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0"}})
	case "CHECK":
		return nil
	case "DEL":
		return ask(request{Sandbox: sandbox})
	case "ADD":
		if config.PrevResult == nil {
			return errors.New("no prevResult: this plugin must come after one that makes an interface")
		}
		// The way to it may lead over links, which mean something else to the
		// gateway in its own mount namespace.
		namespace, err := filepath.EvalSymlinks(getenv("CNI_NETNS"))
		if err != nil {
			return err
		}
		if err := ask(request{Sandbox: sandbox, Namespace: namespace}); err != nil {
			return err
		}
		_, err = out.Write(config.PrevResult)
		return err
	default:
		return fmt.Errorf("CNI_COMMAND %q", command)
	}
}

// ask tells the gateway, and waits out its restart.
func ask(q request) error {
	var conn net.Conn
	var err error
	for until := time.Now().Add(askLimit); ; time.Sleep(100 * time.Millisecond) {
		if conn, err = net.Dial("unix", socketPath); err == nil {
			break
		}
		if time.Now().After(until) {
			return fmt.Errorf("reach the gateway: %w", err)
		}
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(askLimit))
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return err
	}
	var r reply
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return fmt.Errorf("the gateway's answer: %w", err)
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}
