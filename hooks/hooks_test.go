package hooks_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/test/lifecycle"
)

// after is the moment after commands of a script.
func after(t *testing.T, commands ...string) *lifecycle.Moment {
	t.Helper()
	m, err := lifecycle.After(commands...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// decide answers with a store that was read.
func decide(t *testing.T, m *lifecycle.Moment) *contract.SyncResponse {
	t.Helper()
	h := hooks.New(hooks.Options{Store: given{m.Catalog}, Observer: "rtj", Now: func() time.Time { return m.Now }})
	defer h.Close()
	response, err := h.Sync(context.Background(), m.Request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// storeFunc is a store made of a function.
type storeFunc func(ctx context.Context, run catalog.Run, ask catalog.Ask) *checkpoint.Snapshot

func (f storeFunc) Read(ctx context.Context, run catalog.Run, ask catalog.Ask) *checkpoint.Snapshot {
	return f(ctx, run, ask)
}

// recorder keeps the rounds of patches.
type recorder struct {
	mu     sync.Mutex
	rounds [][]compose.Patch
}

func (r *recorder) Submit(_ *v1beta1.ResumableTrainingJob, patches []compose.Patch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds = append(r.rounds, patches)
}

func phaseOf(t *testing.T, r *contract.SyncResponse) string {
	t.Helper()
	status, ok := decoded(t, string(r.Status)).(map[string]any)
	if !ok {
		t.Fatalf("status %s", r.Status)
	}
	for _, item := range status["conditions"].([]any) {
		if c := item.(map[string]any); c["type"] == v1beta1.ConditionReady {
			return status["phase"].(string) + "/" + c["reason"].(string)
		}
	}
	return status["phase"].(string)
}

// The store is read because the decision wants it, and the answer is made from
// what was read.
func TestTheStoreIsReadForTheAnswer(t *testing.T) {
	m := after(t, "apply")
	m.Request.Children = contract.ObjectMap{}
	var runs []catalog.Run
	h := hooks.New(hooks.Options{Observer: "rtj", Now: func() time.Time { return m.Now }, Store: storeFunc(func(_ context.Context, run catalog.Run, _ catalog.Ask) *checkpoint.Snapshot {
		runs = append(runs, run)
		return &checkpoint.Snapshot{ListedAt: m.Now}
	})})
	defer h.Close()
	response, err := h.Sync(context.Background(), m.Request)
	if err != nil {
		t.Fatal(err)
	}
	if got := phaseOf(t, response); got != "Pending/CreatingWorkload" || len(response.Children) != 1 {
		t.Errorf("%s with %d children, want a Workload", got, len(response.Children))
	}
	if len(runs) != 1 || runs[0].Namespace != "team-a" || runs[0].Name != "llama" || runs[0].Location.URI != "s3://checkpoints/team-a" || runs[0].RunID == "" {
		t.Errorf("read %+v", runs)
	}
	if _, err := h.Sync(context.Background(), m.Request); err != nil || len(runs) != 1 {
		t.Errorf("the store was read again, %d times, though nothing asks for it (%v)", len(runs), err)
	}
}

// A store that takes long does not hold up the answer. The reading goes on, and
// when it ends the job is synced again.
func TestASlowStoreDoesNotHoldUpTheAnswer(t *testing.T) {
	m := after(t, "apply")
	m.Request.Children = contract.ObjectMap{}
	release := make(chan struct{})
	news := make(chan string, 1)
	reads := 0
	h := hooks.New(hooks.Options{Observer: "rtj", InlineRead: time.Millisecond, Store: storeFunc(func(context.Context, catalog.Run, catalog.Ask) *checkpoint.Snapshot {
		reads++
		<-release
		return &checkpoint.Snapshot{ListedAt: time.Now()}
	})})
	defer h.Close()
	h.OnNews(func(namespace, name string) { news <- namespace + "/" + name })

	for range 2 {
		response, err := h.Sync(context.Background(), m.Request)
		if err != nil {
			t.Fatal(err)
		}
		if got := phaseOf(t, response); got != "Pending/CatalogNotRead" {
			t.Errorf("%s while the store is read", got)
		}
		if response.ResyncAfterSeconds <= 0 || response.ResyncAfterSeconds > 1 {
			t.Errorf("looks again in %g s", response.ResyncAfterSeconds)
		}
	}
	close(release)
	if got := <-news; got != "team-a/llama" {
		t.Errorf("news of %s", got)
	}
	response, err := h.Sync(context.Background(), m.Request)
	if err != nil {
		t.Fatal(err)
	}
	if got := phaseOf(t, response); got != "Pending/CreatingWorkload" {
		t.Errorf("%s after the store was read", got)
	}
	if reads != 1 {
		t.Errorf("the store was read %d times", reads)
	}
}

// secrets gives one answer, and counts.
type secrets struct {
	credentials *catalog.Credentials
	failure     *checkpoint.Failure
	forgotten   int
}

func (s *secrets) Get(context.Context, string, string) (*catalog.Credentials, *checkpoint.Failure) {
	return s.credentials, s.failure
}
func (s *secrets) Forget(string, string) { s.forgotten++ }

func TestAMissingSecretIsSaidAndTheStoreNotAsked(t *testing.T) {
	m := after(t, `apply "checkpoint.storage.credentials={secretName: store}"`)
	m.Request.Children = contract.ObjectMap{}
	h := hooks.New(hooks.Options{
		Observer: "rtj",
		Secrets:  &secrets{failure: &checkpoint.Failure{Kind: checkpoint.SecretNotFound, Message: "Secret store does not exist"}},
		Store: storeFunc(func(context.Context, catalog.Run, catalog.Ask) *checkpoint.Snapshot {
			t.Error("the store is asked without credentials")
			return nil
		}),
	})
	defer h.Close()
	response, err := h.Sync(context.Background(), m.Request)
	if err != nil {
		t.Fatal(err)
	}
	if got := phaseOf(t, response); got != "Pending/SecretNotFound" {
		t.Error(got)
	}
}

func TestRefusedCredentialsAreReadAnew(t *testing.T) {
	m := after(t, `apply "checkpoint.storage.credentials={secretName: store}"`)
	m.Request.Children = contract.ObjectMap{}
	s := &secrets{credentials: &catalog.Credentials{AccessKeyID: "id", SecretAccessKey: "hidden"}}
	h := hooks.New(hooks.Options{Observer: "rtj", Secrets: s, Store: storeFunc(func(_ context.Context, run catalog.Run, _ catalog.Ask) *checkpoint.Snapshot {
		if run.Credentials == nil || run.Credentials.SecretAccessKey != "hidden" {
			t.Errorf("credentials %v", run.Credentials)
		}
		return &checkpoint.Snapshot{ListedAt: time.Now(), Failure: &checkpoint.Failure{Kind: checkpoint.AccessDenied, Message: "denied"}}
	})})
	defer h.Close()
	if _, err := h.Sync(context.Background(), m.Request); err != nil {
		t.Fatal(err)
	}
	if s.forgotten == 0 {
		t.Error("the Secret is not read again")
	}
}

// Before a launch the objects of the checkpoint that it would restore are compared
// again, and no JobSet is returned before that is done.
func TestNoLaunchBeforeTheObjectsAreCheckedAgain(t *testing.T) {
	const newest, older = "000002-000000000900-", "000001-000000000100-"
	stored := []string{"apply", "catalog commit attempt=1 step=100", "catalog start attempt=1", "catalog commit attempt=2 step=900",
		"catalog start attempt=2", "launch refused"}
	for name, test := range map[string]struct{ edit, want string }{
		"the newest":                     {"sync", newest},
		"the one that resume.from names": {"rtj resume.from=" + older + "000000000000-0000000000000000", older},
	} {
		t.Run(name, func(t *testing.T) {
			testCheckedAgain(t, after(t, append(slices.Clone(stored), test.edit, "kueue admit")...), test.want)
		})
	}
}

// However new a check is, one from before the launch became due does not count: an
// object may have gone since, while the job waited.
func TestChecksFromBeforeTheAdmissionDoNotCount(t *testing.T) {
	stored := []string{"apply", "catalog commit attempt=1 step=100", "catalog start attempt=1", "launch refused"}
	waiting, admitted := after(t, stored...), after(t, append(stored, "kueue admit")...)
	now := waiting.Now
	var checked []string
	h := hooks.New(hooks.Options{
		Observer: "rtj", Now: func() time.Time { return now },
		Store: storeFunc(func(_ context.Context, _ catalog.Run, ask catalog.Ask) *checkpoint.Snapshot {
			checked = append(checked, ask.Recheck...)
			s := *admitted.Catalog
			s.ListedAt, s.Manifests = now, slices.Clone(s.Manifests)
			for i := range s.Manifests {
				s.Manifests[i].CheckedAt = now
			}
			return &s
		}),
	})
	defer h.Close()
	// The first time the objects were compared when the store was read for it.
	for i, m := range []*lifecycle.Moment{admitted, waiting, admitted} {
		if len(checked) != 0 {
			t.Fatalf("%q are checked again before sync %d", checked, i)
		}
		if _, err := h.Sync(context.Background(), m.Request); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
	}
	if len(checked) != 1 || !strings.HasPrefix(checked[0], "000001-000000000100-") {
		t.Errorf("checked again %q", checked)
	}
}

func testCheckedAgain(t *testing.T, m *lifecycle.Moment, want string) {
	var checked []string
	slow := make(chan struct{})
	close(slow)
	h := hooks.New(hooks.Options{
		Observer: "rtj", InlineRead: time.Millisecond, Now: func() time.Time { return m.Now },
		Store: storeFunc(func(_ context.Context, _ catalog.Run, ask catalog.Ask) *checkpoint.Snapshot {
			if len(ask.Recheck) > 0 {
				<-slow
				checked = ask.Recheck
			}
			s := *m.Catalog
			s.ListedAt, s.Manifests = m.Now, slices.Clone(s.Manifests)
			for i := range s.Manifests {
				if slices.Contains(ask.Recheck, s.Manifests[i].ID) {
					s.Manifests[i].CheckedAt = m.Now
				}
			}
			return &s
		}),
	})
	defer h.Close()
	jobSets := func() int {
		response, err := h.Sync(context.Background(), m.Request)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, child := range response.Children {
			if bytes.Contains(child, []byte(`"kind":"JobSet"`)) {
				n++
			}
		}
		return n
	}
	// The first reading is a fresh one of all; it may end before or after the answer.
	for h.Known(m.Request) == nil {
		jobSets()
	}
	// Readings may end after the answer that asked for them: then the next one has it.
	eventually := func(want int) (n int) {
		for tries := 0; tries < 2000; tries++ {
			if n = jobSets(); n == want {
				return n
			}
			time.Sleep(time.Millisecond)
		}
		return n
	}
	// The launch is due from now on, whichever answer came first.
	if n := eventually(1); n != 1 {
		t.Fatalf("%d JobSets, as soon as the store was read", n)
	}
	m.Now = m.Now.Add(20 * time.Second)
	if n := eventually(1); n != 1 {
		t.Fatalf("%d JobSets, within the time that a check stands", n)
	}
	slow = make(chan struct{})
	m.Now = m.Now.Add(15 * time.Second)
	if n := jobSets(); n != 0 {
		t.Errorf("%d JobSets before the objects were checked again", n)
	}
	close(slow)
	if n := eventually(1); n != 1 {
		t.Errorf("%d JobSets after the objects were checked", n)
	}
	if len(checked) != 1 || !strings.HasPrefix(checked[0], want) {
		t.Errorf("checked %q", checked)
	}
}

func TestPatchesAreHandedOverAfterTheAnswer(t *testing.T) {
	m := after(t, "apply")
	delete(decoded(t, string(m.Request.Parent)).(map[string]any), "status")
	m.Request.Parent = bytes.Replace(m.Request.Parent, []byte(`"training.rtj.dev/run-id"`), []byte(`"other"`), 1)
	r := &recorder{}
	h := hooks.New(hooks.Options{Observer: "rtj", Patches: r, Store: given{m.Catalog}, Now: func() time.Time { return m.Now }})
	defer h.Close()
	answer, err := h.Answer(context.Background(), m.Request, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.rounds) != 0 {
		t.Error("an answer alone hands patches over")
	}
	h.Patch(answer)
	if len(r.rounds) != 1 || len(r.rounds[0]) != 1 || r.rounds[0][0].Name != "run-id" {
		t.Errorf("handed over %+v", r.rounds)
	}
}

func TestHooksRefuseEachOthersRequests(t *testing.T) {
	m := running(t)
	h := hooks.New(hooks.Options{Store: given{m.Catalog}})
	defer h.Close()
	var refused *contract.Error
	if _, err := h.Finalize(context.Background(), m.Request); !errors.As(err, &refused) {
		t.Errorf("finalize takes a request of sync: %v", err)
	}
	m.Request.Finalizing = true
	if _, err := h.Sync(context.Background(), m.Request); !errors.As(err, &refused) {
		t.Errorf("sync takes a request of finalize: %v", err)
	}
}

// One line for each change of a decision, none for a sync that changes nothing.
func TestOnlyChangesAreLogged(t *testing.T) {
	m := running(t)
	var log bytes.Buffer
	h := hooks.New(hooks.Options{Store: given{m.Catalog}, Observer: "rtj", Now: func() time.Time { return m.Now }, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	defer h.Close()
	for range 3 {
		if _, err := h.Sync(context.Background(), m.Request); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
	for _, want := range []string{"namespace=team-a", "name=llama", "phase=Running", "rules.phase="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, log.String())
		}
	}
}

// A panic in a reading is a store that cannot be read, and ends nothing.
func TestAPanicInAReadingIsAFailureOfTheStore(t *testing.T) {
	m := after(t, "apply")
	m.Request.Children = contract.ObjectMap{}
	h := hooks.New(hooks.Options{Observer: "rtj", Store: storeFunc(func(context.Context, catalog.Run, catalog.Ask) *checkpoint.Snapshot {
		panic("out of order")
	})})
	defer h.Close()
	response, err := h.Sync(context.Background(), m.Request)
	if err != nil {
		t.Fatal(err)
	}
	if got := phaseOf(t, response); got != "Pending/StoreUnreachable" {
		t.Error(got)
	}
}
