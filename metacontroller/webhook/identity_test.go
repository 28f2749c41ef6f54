package webhook

import (
	"net/http"
	"sync/atomic"
	"testing"
)

func TestHooksTellWhenTheyAreOthers(t *testing.T) {
	var identity atomic.Value
	identity.Store("")
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if says := identity.Load().(string); says != "" {
			w.Header().Set(IdentityHeader, says)
		}
		answering(`{}`)(w, r)
	})
	f := newFixture(t, controllerOf(t, `{sync: {version: v2, webhook: {url: "`+server.URL+`"}}}`))
	changes := 0
	f.OnChange(func() { changes++ })
	for i, c := range []struct {
		says string
		want int
	}{{"", 0}, {"one", 0}, {"one", 0}, {"two", 1}, {"", 1}, {"two", 1}, {"one", 2}} {
		identity.Store(c.says)
		if _, err := f.Sync(t.Context(), request()); err != nil {
			t.Fatal(err)
		}
		if changes != c.want {
			t.Errorf("answer %d, of %q: %d changes, want %d", i, c.says, changes, c.want)
		}
	}
	identity.Store("three") // and no sync happens
	if answer, err := f.sync.head(t.Context()); err != nil {
		t.Fatal(err)
	} else {
		f.self.note(answer)
	}
	if changes != 3 {
		t.Errorf("%d changes after HEAD, want 3", changes)
	}
}
