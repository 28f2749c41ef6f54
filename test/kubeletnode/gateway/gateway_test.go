package gateway

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestForwardHandsBothEndsOfAConversationOn(t *testing.T) {
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	// It answers only once the client has said all, so the end must arrive.
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		all, _ := io.ReadAll(conn)
		_, _ = conn.Write(append([]byte("heard "), all...))
	}()
	front, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		forward(front, func() (net.Conn, error) { return net.Dial("tcp4", server.Addr().String()) })
		close(ended)
	}()
	conn, err := net.Dial("tcp4", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || string(answer) != "heard hello" {
		t.Errorf("the answer is %q, %v", answer, err)
	}
	front.Close()
	<-ended
}

func TestForwardClosesWhereNobodyAnswers(t *testing.T) {
	front, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	go forward(front, func() (net.Conn, error) { return nil, os.ErrDeadlineExceeded })
	conn, err := net.Dial("tcp4", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("something answers: %d, %v", n, err)
	}
}

func TestPluginRefusesWhatItCannotDo(t *testing.T) {
	env := func(command string) func(string) string {
		values := map[string]string{"CNI_COMMAND": command, "CNI_CONTAINERID": "c", "CNI_NETNS": filepath.Join(t.TempDir(), "missing")}
		return func(name string) string { return values[name] }
	}
	var out bytes.Buffer
	for command, c := range map[string]struct{ config, problem string }{
		"ADD":    {`{"cniVersion":"0.4.0"}`, "must come after one that makes an interface"},
		"REBOOT": {`{}`, `CNI_COMMAND "REBOOT"`},
		"CHECK":  {`{`, "read the configuration"},
	} {
		err := Plugin(env(command), strings.NewReader(c.config), &out)
		if err == nil || !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %v, want %s", command, err, c.problem)
		}
	}
	if err := Plugin(env("ADD"), strings.NewReader(`{"prevResult":{}}`), &out); !os.IsNotExist(err) {
		t.Errorf("a network namespace that is gone: %v", err)
	}
	if out.Len() != 0 {
		t.Errorf("it printed %s", out.String())
	}
	if err := Plugin(env("VERSION"), strings.NewReader(""), &out); err != nil || !strings.Contains(out.String(), `"0.4.0"`) {
		t.Errorf("VERSION: %s, %v", out.String(), err)
	}
}
