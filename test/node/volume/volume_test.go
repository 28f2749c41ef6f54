package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rtj.dev/rtj/test/node/podenv"
	"rtj.dev/rtj/test/node/sandbox"
)

// store is a namespace's objects.
type store struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string][]byte
	requests   []authenticationv1.TokenRequest
	now        func() time.Time
}

func (s *store) ConfigMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	if data, ok := s.configMaps[name]; ok {
		return &corev1.ConfigMap{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

func (s *store) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	if data, ok := s.secrets[name]; ok {
		return &corev1.Secret{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

// Token gives a token that says how many were given before it.
func (s *store) Token(_ context.Context, _, _ string, r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	s.requests = append(s.requests, *r)
	answer := r.DeepCopy()
	answer.Status.Token = fmt.Sprintf("token %d", len(s.requests))
	answer.Status.ExpirationTimestamp = metav1.NewTime(s.now().Add(time.Duration(*r.Spec.ExpirationSeconds) * time.Second))
	return answer, nil
}

func podWith(volumes ...corev1.Volume) podenv.Pod {
	return podenv.Pod{Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", Annotations: map[string]string{"note": "hello"}},
		Spec:       corev1.PodSpec{Volumes: volumes, ServiceAccountName: "default"},
	}}
}

func mode(m int32) *int32 { return &m }

func local(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func configMapVolume(name string) corev1.Volume {
	return corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: local(name), DefaultMode: mode(0o644)}}}
}

// contents lists the files that a container sees, with what they hold.
func contents(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Name()+"="+string(b))
	}
	return all
}

func TestConfigMapFollowsItsObject(t *testing.T) {
	objects := &store{configMaps: map[string]map[string]string{"cm": {"a": "1", "b": "2"}}}
	dir := t.TempDir()
	set, pod := NewSet(dir, objects), podWith(configMapVolume("cm"))
	write := func(want ...string) {
		t.Helper()
		if err := set.Write(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, dir+"/v"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	write("a=1", "b=2")
	first, err := os.Readlink(dir + "/v/..data")
	if err != nil {
		t.Fatal(err)
	}
	write("a=1", "b=2")
	if again, _ := os.Readlink(dir + "/v/..data"); again != first {
		t.Error("a volume that has not changed was written again")
	}
	objects.configMaps["cm"] = map[string]string{"b": "3"}
	write("b=3")
	// An object that went leaves what was there.
	delete(objects.configMaps, "cm")
	if err := set.Write(t.Context(), pod); !isNotFound(err) {
		t.Errorf("a missing ConfigMap: %v", err)
	}
	if got := contents(t, dir+"/v"); !slices.Equal(got, []string{"b=3"}) {
		t.Errorf("after its object went: %q", got)
	}
}

func isNotFound(err error) bool {
	return err != nil && strings.Contains(err.Error(), `volume "v": configmaps "cm" not found`)
}

func TestOptionalSourcesAppearLater(t *testing.T) {
	optional := true
	v := configMapVolume("cm")
	v.ConfigMap.Optional = &optional
	objects := &store{configMaps: map[string]map[string]string{}}
	dir := t.TempDir()
	set := NewSet(dir, objects)
	for _, step := range []struct {
		data map[string]string
		want []string
	}{{nil, nil}, {map[string]string{"a": "1"}, []string{"a=1"}}} {
		if step.data != nil {
			objects.configMaps["cm"] = step.data
		}
		if err := set.Write(t.Context(), podWith(v)); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, dir+"/v"); !slices.Equal(got, step.want) {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
}

func TestOneMissingVolumeDoesNotHoldUpTheOthers(t *testing.T) {
	missing := configMapVolume("none")
	missing.Name = "missing"
	dir := t.TempDir()
	objects := &store{configMaps: map[string]map[string]string{"cm": {"a": "1"}}}
	err := NewSet(dir, objects).Write(t.Context(), podWith(missing, configMapVolume("cm")))
	if err == nil || !strings.Contains(err.Error(), `volume "missing": configmaps "none" not found`) {
		t.Errorf("%v", err)
	}
	if got := contents(t, dir+"/v"); !slices.Equal(got, []string{"a=1"}) {
		t.Errorf("%q", got)
	}
}

func TestProjectedVolumeJoinsItsSources(t *testing.T) {
	life := int64(1000)
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := func() time.Time { return clock }
	objects := &store{
		configMaps: map[string]map[string]string{"ca": {"ca.crt": "CA"}}, secrets: map[string]map[string][]byte{"s": {"key": []byte("S")}}, now: now,
	}
	v := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: mode(0o640),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &life, Audience: "store"}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("ca"), Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt", Mode: mode(0o600)}}}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: local("s")}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "note", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['note']"}},
				{Path: "absent", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['absent']"}}}}},
		},
	}}}
	dir := t.TempDir()
	set := NewSet(dir, objects)
	set.now = now
	write := func(token string) {
		t.Helper()
		if err := set.Write(t.Context(), podWith(v)); err != nil {
			t.Fatal(err)
		}
		want := []string{"absent=", "ca.crt=CA", "key=S", "note=hello", "token=" + token}
		if got := contents(t, dir+"/v"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	write("token 1")
	for file, want := range map[string]os.FileMode{"ca.crt": 0o600, "token": 0o640} {
		if info, err := os.Stat(filepath.Join(dir, "v", file)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if r := objects.requests[0].Spec; !slices.Equal(r.Audiences, []string{"store"}) || *r.ExpirationSeconds != life ||
		*r.BoundObjectRef != (authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "p", UID: "u"}) {
		t.Errorf("request: %+v", r)
	}
	// 80 % of 1000 s is 800 s.
	if want := clock.Add(800 * time.Second); !set.Renew().Equal(want) {
		t.Errorf("renewed at %s, want %s", set.Renew(), want)
	}
	clock = clock.Add(799 * time.Second)
	write("token 1")
	clock = clock.Add(time.Second)
	write("token 2")
}

func TestHostPathChecksItsType(t *testing.T) {
	dir := t.TempDir()
	for kind, good := range map[corev1.HostPathType]bool{
		corev1.HostPathUnset: true, corev1.HostPathDirectory: true, corev1.HostPathFile: false, corev1.HostPathSocket: false,
	} {
		v := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir, Type: &kind}}}
		if err := NewSet(dir, nil).Write(t.Context(), podWith(v)); (err == nil) != good {
			t.Errorf("type %q: %v", kind, err)
		}
	}
	missing := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir + "/none"}}}
	if err := NewSet(dir, nil).Write(t.Context(), podWith(missing)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestMounts(t *testing.T) {
	pod := podWith(configMapVolume("cm"),
		corev1.Volume{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}})
	expand := func(s string) string { return strings.ReplaceAll(s, "$(N)", "n7") }
	c := &corev1.Container{VolumeMounts: []corev1.VolumeMount{
		{Name: "v", MountPath: "/cm"}, {Name: "e", MountPath: "/e", SubPathExpr: "$(N)/x"}, {Name: "h", MountPath: "/h", ReadOnly: true},
	}}
	got, err := NewSet("/state", nil).Mounts(pod.Pod, c, expand)
	want := []sandbox.Mount{
		{Source: "/state/v", Target: "/cm", ReadOnly: true}, {Source: "/state/e", Target: "/e", SubPath: "n7/x"}, {Source: "/data", Target: "/h", ReadOnly: true},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "e", MountPath: "/e", SubPathExpr: "$(NOPE)"}}
	if _, err := NewSet("/state", nil).Mounts(pod.Pod, c, expand); err == nil || !strings.Contains(err.Error(), "$(NOPE)") {
		t.Errorf("%v", err)
	}
}
