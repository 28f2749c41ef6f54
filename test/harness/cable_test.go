package harness

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestACableCanBeCutAndMended(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	defer server.Close()
	cable, err := NewCable(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer cable.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	get := func() error {
		response, err := client.Get(cable.URL())
		if err == nil {
			_, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		return err
	}
	if err := get(); err != nil {
		t.Fatal(err)
	}
	cable.Cut()
	if get() == nil {
		t.Error("it answers over a cut cable")
	}
	cable.Mend()
	if err := get(); err != nil {
		t.Error(err)
	}
}
