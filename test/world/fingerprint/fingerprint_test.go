package fingerprint_test

import (
	"fmt"
	"testing"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/fingerprint"
)

// world is a server after some writes, at a time that begins later.
func world(later time.Duration, before int, claim time.Duration) *apiserver.Server {
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC).Add(later)
	s := apiserver.New(func() time.Time { return now })
	for i := range before {
		name := fmt.Sprint("gone-", i)
		body := map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"namespace": "team", "name": name}}
		if _, err := s.Create("test", body); err != nil {
			panic(err)
		}
		if err := s.Delete("test", "ConfigMap", "team", name, apiserver.Deletion{}); err != nil {
			panic(err)
		}
	}
	w, err := s.Create("test", map[string]any{"kind": "Workload", "metadata": map[string]any{"namespace": "team", "name": "w"}})
	if err != nil {
		panic(err)
	}
	text := fmt.Sprintf(`{"workloadUID":%q,"at":%q}`, w.UID, now.Add(claim).Format(time.RFC3339))
	_, err = s.Update("test", w, "", func(body map[string]any) {
		body["metadata"].(map[string]any)["annotations"] = map[string]any{"claim": text}
	})
	if err != nil {
		panic(err)
	}
	return s
}

func sum(s *apiserver.Server, more ...string) fingerprint.Sum {
	h := fingerprint.New(s)
	h.Server(s)
	for _, text := range more {
		h.JSON(text)
	}
	return h.Sum()
}

func TestNamesAndDatesThatTheServerGaveMakeNoDifference(t *testing.T) {
	if sum(world(0, 0, 0)) != sum(world(time.Hour, 3, 0)) {
		t.Error("the same world an hour later, after other objects came and went, is another")
	}
}

func TestWhatMattersMakesADifference(t *testing.T) {
	base := sum(world(0, 0, 0))
	if sum(world(0, 0, -time.Second)) == base {
		t.Error("a claim that is a second old is as good as a new one")
	}
	s := world(0, 0, 0)
	current := s.Get("Workload", "team", "w").Version
	newest := sum(s, fmt.Sprintf(`{"resourceVersion":"%d"}`, current))
	if newest == sum(s, `{"resourceVersion":"1"}`) {
		t.Error("a write of an older version is as good as one of the newest")
	}
	if sum(s, `{"resourceVersion":"1"}`) != sum(s, `{"resourceVersion":"0"}`) {
		t.Error("two versions that are both old differ")
	}
}

// A coarse fingerprint does not tell times apart that lie between the same two marks, and
// tells all others apart.
func TestACoarseFingerprintTellsTimesApartByMarks(t *testing.T) {
	coarse := func(s *apiserver.Server) fingerprint.Sum {
		h := fingerprint.New(s)
		h.Coarse = true
		h.Server(s)
		return h.Sum()
	}
	for i, mark := range fingerprint.Marks {
		if i == 0 {
			continue
		}
		at := coarse(world(0, 0, -mark))
		if within := mark - (mark-fingerprint.Marks[i-1])/2; coarse(world(0, 0, -within.Truncate(time.Second))) != at && within >= time.Second {
			t.Errorf("%s and %s are told apart", mark, within)
		}
		if coarse(world(0, 0, -mark-time.Second)) == at {
			t.Errorf("%s and a second more are not told apart", mark)
		}
		if coarse(world(0, 0, mark)) == at {
			t.Errorf("%s ago and ahead are not told apart", mark)
		}
	}
}
