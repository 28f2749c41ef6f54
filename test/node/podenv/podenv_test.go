package podenv

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rtj.dev/rtj/test/node/image"
)

type store struct{ reads []string }

func (s *store) ConfigMap(_ context.Context, ns, name string) (*corev1.ConfigMap, error) {
	s.reads = append(s.reads, ns+"/"+name)
	if name == "cm" {
		return &corev1.ConfigMap{Data: map[string]string{"one": "1", "two": "2"}}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

func (s *store) Secret(_ context.Context, ns, name string) (*corev1.Secret, error) {
	s.reads = append(s.reads, ns+"/"+name)
	if name == "sec" {
		return &corev1.Secret{Data: map[string][]byte{"key": []byte("hush"), "nul": {0}}}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

var plain = &image.Image{Dir: "/img"}

func pod(containers ...corev1.Container) Pod {
	return Pod{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u-1", Labels: map[string]string{"l": "label"}, Annotations: map[string]string{"a/b": "note"}},
			Spec:       corev1.PodSpec{ServiceAccountName: "sa", Containers: containers},
		},
		NodeName: "node", HostIP: "127.1.0.1", IP: "127.1.0.2", Hostname: "host", Home: "/root",
		Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")},
		Services:    map[string]string{"KUBERNETES_SERVICE_HOST": "127.0.0.1"},
	}
}

func ref(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func TestEnvironmentOfNothing(t *testing.T) {
	c := corev1.Container{Name: "c"}
	env, err := Environment(t.Context(), pod(c), &c, plain, &store{})
	want := Env{
		"PATH":     "/img/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOSTNAME": "host", "HOME": "/root", "KUBERNETES_SERVICE_HOST": "127.0.0.1",
	}
	if err != nil || !maps.Equal(env, want) {
		t.Errorf("%v, %v", env, err)
	}
}

func TestReferencesToVariables(t *testing.T) {
	c := corev1.Container{Name: "c", Env: []corev1.EnvVar{
		{Name: "BEFORE", Value: "$(A)"},
		{Name: "A", Value: "a"},
		{Name: "AFTER", Value: "<$(A)|$(FROM_one)|$(KUBERNETES_SERVICE_HOST)>"},
		{Name: "ESCAPED", Value: "$$(A)"},
		{Name: "UNKNOWN", Value: "$(NOPE) $A ${A}"},
		{Name: "A", Value: "$(A)$(A)"},
		{Name: "PATH", Value: "/mine"},
	}, EnvFrom: []corev1.EnvFromSource{{Prefix: "FROM_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("cm")}}}}
	env, err := Environment(t.Context(), pod(c), &c, plain, &store{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"BEFORE": "$(A)", "AFTER": "<a|1|127.0.0.1>", "ESCAPED": "$(A)", "UNKNOWN": "$(NOPE) $A ${A}", "A": "aa", "PATH": "/mine",
		"FROM_one": "1", "FROM_two": "2",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
}

func TestFieldsAndResources(t *testing.T) {
	limited := corev1.Container{Name: "limited", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("64Mi")}}}
	resourceOf := func(container, name, divisor string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: container, Resource: name, Divisor: resource.MustParse(divisor)}}
	}
	c := corev1.Container{Name: "c"}
	for name, from := range map[string]*corev1.EnvVarSource{
		"NAME": field("metadata.name"), "NS": field("metadata.namespace"), "UID": field("metadata.uid"), "LABEL": field("metadata.labels['l']"),
		"NOTE": field("metadata.annotations['a/b']"), "NODE": field("spec.nodeName"), "SA": field("spec.serviceAccountName"),
		"IP": field("status.podIP"), "HOST": field("status.hostIP"),
		"CPU": resourceOf("", "limits.cpu", "1"), "OTHERS_CPU": resourceOf("limited", "limits.cpu", "1"),
		"MILLI": resourceOf("limited", "limits.cpu", "1m"), "MIB": resourceOf("limited", "limits.memory", "1Mi"),
	} {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, ValueFrom: from})
	}
	env, err := Environment(t.Context(), pod(c, limited), &c, plain, &store{})
	if err != nil {
		t.Fatal(err)
	}
	// Without a limit the node's allocatable counts; 1.5 CPUs round up.
	for name, want := range map[string]string{
		"NAME": "p", "NS": "ns", "UID": "u-1", "LABEL": "label", "NOTE": "note", "NODE": "node", "SA": "sa", "IP": "127.1.0.2", "HOST": "127.1.0.1",
		"CPU": "4", "OTHERS_CPU": "2", "MILLI": "1500", "MIB": "64",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
}

func TestKeysOfObjects(t *testing.T) {
	optional := true
	configMap := func(name, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref(name), Key: key, Optional: optional}}
	}
	secret := func(name, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref(name), Key: key, Optional: optional}}
	}
	c := corev1.Container{Name: "c", Env: []corev1.EnvVar{
		{Name: "ONE", ValueFrom: configMap("cm", "one", nil)}, {Name: "TWO", ValueFrom: configMap("cm", "two", nil)}, {Name: "KEY", ValueFrom: secret("sec", "key", nil)},
		{Name: "NO_KEY", ValueFrom: configMap("cm", "none", &optional)}, {Name: "NO_MAP", ValueFrom: configMap("none", "x", &optional)},
		{Name: "NO_SECRET", ValueFrom: secret("none", "x", &optional)},
	}}
	objects := &store{}
	env, err := Environment(t.Context(), pod(c), &c, plain, objects)
	if err != nil {
		t.Fatal(err)
	}
	if env["ONE"] != "1" || env["TWO"] != "2" || env["KEY"] != "hush" {
		t.Errorf("%v", env)
	}
	for _, name := range []string{"NO_KEY", "NO_MAP", "NO_SECRET"} {
		if _, ok := env[name]; ok {
			t.Errorf("%s is set", name)
		}
	}
	if !slices.Equal(objects.reads, []string{"ns/cm", "ns/sec", "ns/none", "ns/none"}) {
		t.Errorf("an object was read more than once: %q", objects.reads)
	}
	for want, e := range map[string]corev1.EnvVarSource{
		"env X: couldn't find key none in ConfigMap ns/cm": *configMap("cm", "none", nil),
		"env X: couldn't find key none in Secret ns/sec":   *secret("sec", "none", nil),
		`env X: configmaps "none" not found`:               *configMap("none", "x", nil),
		"env X holds a NUL byte":                           *secret("sec", "nul", nil),
	} {
		bad := corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "X", ValueFrom: &e}}}
		_, err := Environment(t.Context(), pod(bad), &bad, plain, &store{})
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestCommand(t *testing.T) {
	img := &image.Image{Config: image.Config{Entrypoint: []string{"entry"}, Cmd: []string{"cmd"}}}
	env := Env{"A": "a"}
	for _, c := range []struct {
		command, args []string
		img           *image.Image
		want          string
	}{
		{[]string{"x", "$(A)"}, []string{"$(A)$$(A)", "$(B)"}, img, "x a a$(A) $(B)"},
		{[]string{"x"}, nil, img, "x"},
		{nil, []string{"y"}, img, "entry y"},
		{nil, nil, img, "entry cmd"},
		{nil, []string{"y"}, plain, "y"},
	} {
		got, err := Command(&corev1.Container{Command: c.command, Args: c.args}, env, c.img)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q %q: %q, %v; want %s", c.command, c.args, got, err, c.want)
		}
	}
	_, err := Command(&corev1.Container{Name: "c", Image: "python"}, env, plain)
	if !errors.Is(err, ErrNoCommand) || !strings.Contains(err.Error(), `container c has no command and image "python" defines no entrypoint`) {
		t.Errorf("%v", err)
	}
}

func TestWorkingDir(t *testing.T) {
	img := &image.Image{Config: image.Config{WorkingDir: "/image"}}
	if got := WorkingDir(&corev1.Container{}, img); got != "/image" {
		t.Error(got)
	}
	if got := WorkingDir(&corev1.Container{WorkingDir: "/own"}, img); got != "/own" {
		t.Error(got)
	}
}
