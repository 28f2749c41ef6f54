// Package podenv computes what a container of a pod runs, as a kubelet does:
// its environment, command and working directory.
package podenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"rtj.dev/rtj/test/node/image"
)

// Objects reads what pods refer to. Its errors for missing objects satisfy
// apierrors.IsNotFound.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Pod is a pod with what its node knows about it.
type Pod struct {
	*corev1.Pod
	NodeName    string
	HostIP, IP  string
	Hostname    string
	Allocatable corev1.ResourceList // of the node: the limits of containers without limits
	Services    map[string]string   // the environment of services, KUBERNETES_SERVICE_HOST among it
	Home        string              // HOME of containers that do not set it
}

// Env is a container's environment.
type Env map[string]string

// List returns the environment as sorted KEY=VALUE.
func (e Env) List() []string {
	list := make([]string, 0, len(e))
	for k, v := range e {
		list = append(list, k+"="+v)
	}
	sort.Strings(list)
	return list
}

// Environment computes a container's environment. An error is a fault of the
// pod or of what it refers to, and may go away.
func Environment(ctx context.Context, pod Pod, c *corev1.Container, img *image.Image, objects Objects) (Env, error) {
	declared := Env{}
	r := &resolver{pod: pod, container: c, objects: objects, configMaps: map[string]*corev1.ConfigMap{}, secrets: map[string]*corev1.Secret{}}
	for i := range c.EnvFrom {
		if err := r.from(ctx, &c.EnvFrom[i], declared); err != nil {
			return nil, err
		}
	}
	mapping := expansion.MappingFuncFor(declared, pod.Services)
	for i := range c.Env {
		e := &c.Env[i]
		value, present := expansion.Expand(e.Value, mapping), true
		if e.Value == "" && e.ValueFrom != nil {
			var err error
			if value, present, err = r.value(ctx, e.ValueFrom); err != nil {
				return nil, fmt.Errorf("env %s: %w", e.Name, err)
			}
		}
		if present {
			declared[e.Name] = value
		}
	}
	env := Env{"HOSTNAME": pod.Hostname, "HOME": pod.Home}
	for _, kv := range img.Environ() {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	for _, layer := range []map[string]string{pod.Services, declared} {
		for k, v := range layer {
			if strings.ContainsRune(v, 0) {
				return nil, fmt.Errorf("env %s holds a NUL byte", k)
			}
			env[k] = v
		}
	}
	return env, nil
}

// resolver reads each referred object once.
type resolver struct {
	pod        Pod
	container  *corev1.Container
	objects    Objects
	configMaps map[string]*corev1.ConfigMap
	secrets    map[string]*corev1.Secret
}

func (r *resolver) configMap(ctx context.Context, name string, optional *bool) (*corev1.ConfigMap, error) {
	if cm, ok := r.configMaps[name]; ok {
		return cm, nil
	}
	cm, err := r.objects.ConfigMap(ctx, r.pod.Namespace, name)
	if apierrors.IsNotFound(err) && isTrue(optional) {
		return nil, nil
	}
	if err == nil {
		r.configMaps[name] = cm
	}
	return cm, err
}

func (r *resolver) secret(ctx context.Context, name string, optional *bool) (*corev1.Secret, error) {
	if s, ok := r.secrets[name]; ok {
		return s, nil
	}
	s, err := r.objects.Secret(ctx, r.pod.Namespace, name)
	if apierrors.IsNotFound(err) && isTrue(optional) {
		return nil, nil
	}
	if err == nil {
		r.secrets[name] = s
	}
	return s, err
}

func (r *resolver) from(ctx context.Context, src *corev1.EnvFromSource, into Env) error {
	switch {
	case src.ConfigMapRef != nil:
		cm, err := r.configMap(ctx, src.ConfigMapRef.Name, src.ConfigMapRef.Optional)
		if err != nil || cm == nil {
			return err
		}
		for k, v := range cm.Data {
			into[src.Prefix+k] = v
		}
	case src.SecretRef != nil:
		s, err := r.secret(ctx, src.SecretRef.Name, src.SecretRef.Optional)
		if err != nil || s == nil {
			return err
		}
		for k, v := range s.Data {
			into[src.Prefix+k] = string(v)
		}
	}
	return nil
}

// value resolves a valueFrom; present is false for an optional key that does
// not exist.
func (r *resolver) value(ctx context.Context, src *corev1.EnvVarSource) (value string, present bool, err error) {
	switch {
	case src.FieldRef != nil:
		value, err = r.field(src.FieldRef.FieldPath)
		return value, true, err
	case src.ResourceFieldRef != nil:
		name := src.ResourceFieldRef.ContainerName
		if name == "" {
			name = r.container.Name
		}
		value, err = resource.ExtractResourceValueByContainerNameAndNodeAllocatable(src.ResourceFieldRef, r.pod.Pod, name, r.pod.Allocatable)
		return value, true, err
	case src.ConfigMapKeyRef != nil:
		ref := src.ConfigMapKeyRef
		cm, err := r.configMap(ctx, ref.Name, ref.Optional)
		if err != nil || cm == nil {
			return "", false, err
		}
		if value, present = cm.Data[ref.Key]; !present && !isTrue(ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, r.pod.Namespace, ref.Name)
		}
		return value, present, nil
	case src.SecretKeyRef != nil:
		ref := src.SecretKeyRef
		s, err := r.secret(ctx, ref.Name, ref.Optional)
		if err != nil || s == nil {
			return "", false, err
		}
		data, present := s.Data[ref.Key]
		if !present && !isTrue(ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, r.pod.Namespace, ref.Name)
		}
		return string(data), present, nil
	}
	return "", false, errors.New("this kind of valueFrom is not supported by a process node")
}

// field resolves a fieldRef; some fields are known to the node before the API
// object says them.
func (r *resolver) field(path string) (string, error) {
	switch path {
	case "spec.nodeName":
		return r.pod.NodeName, nil
	case "spec.serviceAccountName":
		return r.pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return r.pod.HostIP, nil
	case "status.podIP", "status.podIPs":
		return r.pod.IP, nil
	}
	return fieldpath.ExtractFieldPathAsString(r.pod.Pod, path)
}

// ErrNoCommand is the error of a container that says nothing to run.
var ErrNoCommand = errors.New("no command specified")

// Command returns what a container runs: command and args with $(VAR)
// expanded, else the image's.
func Command(c *corev1.Container, env Env, img *image.Image) ([]string, error) {
	mapping := expansion.MappingFuncFor(env)
	expand := func(list []string) []string {
		out := make([]string, 0, len(list))
		for _, s := range list {
			out = append(out, expansion.Expand(s, mapping))
		}
		return out
	}
	command, args := expand(c.Command), expand(c.Args)
	if len(command) == 0 {
		command = slices.Clone(img.Entrypoint)
		if len(args) == 0 {
			args = img.Cmd
		}
	}
	if len(command)+len(args) == 0 {
		return nil, fmt.Errorf("%w: container %s has no command and image %q defines no entrypoint", ErrNoCommand, c.Name, c.Image)
	}
	return append(command, args...), nil
}

// WorkingDir returns the directory that a container starts in; empty is "/".
func WorkingDir(c *corev1.Container, img *image.Image) string {
	if c.WorkingDir != "" {
		return c.WorkingDir
	}
	return img.WorkingDir
}

func isTrue(b *bool) bool { return b != nil && *b }
