// Package volume keeps the volumes of a pod as directories of the host, with
// the contents and the atomic updates that a kubelet gives them.
package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/secret"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	kubevolume "k8s.io/kubernetes/pkg/volume"

	"rtj.dev/rtj/test/node/podenv"
	"rtj.dev/rtj/test/node/sandbox"
)

// Objects reads what volumes refer to.
type Objects interface {
	podenv.Objects
	// Token asks for a token of a service account.
	Token(ctx context.Context, namespace, serviceAccount string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// Set holds the volumes of one pod. It is not safe for concurrent use.
type Set struct {
	dir     string // each volume is a directory below
	objects Objects
	tokens  map[string]token // by volume and path
	now     func() time.Time
}

type token struct {
	value string
	// renew is when a new one is asked for: after 80 % of the life time, as a
	// kubelet does.
	renew time.Time
}

// NewSet returns the volumes that live below dir.
func NewSet(dir string, objects Objects) *Set {
	return &Set{dir: dir, objects: objects, tokens: map[string]token{}, now: time.Now}
}

// Write brings every volume of the pod up to date. What has not changed is not
// touched. An error is a fault of the pod or of what it refers to, and may go
// away; the volumes that have none are written all the same.
func (s *Set) Write(ctx context.Context, pod podenv.Pod) error {
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if err := s.write(ctx, pod, v); err != nil {
			errs = append(errs, fmt.Errorf("volume %q: %w", v.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Renew is when Write must be called at the latest, for the sake of tokens;
// zero if there are none.
func (s *Set) Renew() time.Time {
	var first time.Time
	for _, t := range s.tokens {
		if first.IsZero() || t.renew.Before(first) {
			first = t.renew
		}
	}
	return first
}

func (s *Set) path(v *corev1.Volume) string { return filepath.Join(s.dir, v.Name) }

func (s *Set) write(ctx context.Context, pod podenv.Pod, v *corev1.Volume) error {
	switch {
	case v.EmptyDir != nil:
		if err := os.MkdirAll(s.path(v), 0o777); err != nil {
			return err
		}
		return os.Chmod(s.path(v), 0o777) // whatever the umask
	case v.HostPath != nil:
		return checkHostPath(v.HostPath)
	}
	payload, err := s.payload(ctx, pod, v)
	if err != nil {
		return err
	}
	dir := s.path(v)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	writer, err := volumeutil.NewAtomicWriter(dir, pod.Namespace+"/"+pod.Name+" volume "+v.Name)
	if err != nil {
		return err
	}
	return writer.Write(payload, nil)
}

type payload = map[string]volumeutil.FileProjection

func (s *Set) payload(ctx context.Context, pod podenv.Pod, v *corev1.Volume) (payload, error) {
	switch {
	case v.ConfigMap != nil:
		return s.configMap(ctx, pod, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional, v.ConfigMap.DefaultMode)
	case v.Secret != nil:
		return s.secret(ctx, pod, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional, v.Secret.DefaultMode)
	case v.DownwardAPI != nil:
		return downward(pod, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		return s.projected(ctx, pod, v)
	}
	return nil, errors.New("this kind of volume is not supported by a process node; it knows configMap, secret, downwardAPI, projected, emptyDir and hostPath")
}

func (s *Set) configMap(ctx context.Context, pod podenv.Pod, name string, items []corev1.KeyToPath, optional *bool, mode *int32) (payload, error) {
	cm, err := s.objects.ConfigMap(ctx, pod.Namespace, name)
	if apierrors.IsNotFound(err) && isTrue(optional) {
		return payload{}, nil
	}
	if err != nil {
		return nil, err
	}
	return configmap.MakePayload(items, cm, mode, isTrue(optional))
}

func (s *Set) secret(ctx context.Context, pod podenv.Pod, name string, items []corev1.KeyToPath, optional *bool, mode *int32) (payload, error) {
	object, err := s.objects.Secret(ctx, pod.Namespace, name)
	if apierrors.IsNotFound(err) && isTrue(optional) {
		return payload{}, nil
	}
	if err != nil {
		return nil, err
	}
	return secret.MakePayload(items, object, mode, isTrue(optional))
}

// allocatable is the part of a kubelet's volume host that downward API volumes
// ask for.
type allocatable struct {
	kubevolume.VolumeHost
	list corev1.ResourceList
}

func (a allocatable) GetNodeAllocatable() (corev1.ResourceList, error) { return a.list, nil }

func downward(pod podenv.Pod, items []corev1.DownwardAPIVolumeFile, mode *int32) (payload, error) {
	return downwardapi.CollectData(items, pod.Pod, allocatable{list: pod.Allocatable}, mode)
}

func (s *Set) projected(ctx context.Context, pod podenv.Pod, v *corev1.Volume) (payload, error) {
	all, mode := payload{}, v.Projected.DefaultMode
	var errs []error
	for _, src := range v.Projected.Sources {
		var part payload
		var err error
		switch {
		case src.ConfigMap != nil:
			part, err = s.configMap(ctx, pod, src.ConfigMap.Name, src.ConfigMap.Items, src.ConfigMap.Optional, mode)
		case src.Secret != nil:
			part, err = s.secret(ctx, pod, src.Secret.Name, src.Secret.Items, src.Secret.Optional, mode)
		case src.DownwardAPI != nil:
			part, err = downward(pod, src.DownwardAPI.Items, mode)
		case src.ServiceAccountToken != nil:
			part, err = s.token(ctx, pod, v, src.ServiceAccountToken)
		default:
			err = errors.New("this kind of projected source is not supported by a process node")
		}
		if err != nil {
			errs = append(errs, err)
		}
		for path, file := range part {
			all[path] = file
		}
	}
	return all, errors.Join(errs...)
}

func (s *Set) token(ctx context.Context, pod podenv.Pod, v *corev1.Volume, src *corev1.ServiceAccountTokenProjection) (payload, error) {
	key := v.Name + "/" + src.Path
	t, ok := s.tokens[key]
	if !ok || !s.now().Before(t.renew) {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: src.ExpirationSeconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		}}
		if src.Audience != "" {
			request.Spec.Audiences = []string{src.Audience}
		}
		start := s.now()
		answer, err := s.objects.Token(ctx, pod.Namespace, pod.Spec.ServiceAccountName, request)
		if err != nil {
			return nil, fmt.Errorf("token of service account %s: %w", pod.Spec.ServiceAccountName, err)
		}
		life := answer.Status.ExpirationTimestamp.Sub(start)
		t = token{value: answer.Status.Token, renew: start.Add(life * 8 / 10)}
		s.tokens[key] = t
	}
	mode := *v.Projected.DefaultMode
	return payload{src.Path: {Data: []byte(t.value), Mode: mode}}, nil
}

// Mounts returns the mounts of a container. expand replaces $(VAR) in a
// subPathExpr.
func (s *Set) Mounts(pod *corev1.Pod, c *corev1.Container, expand func(string) string) ([]sandbox.Mount, error) {
	mounts := make([]sandbox.Mount, 0, len(c.VolumeMounts))
	for _, m := range c.VolumeMounts {
		v := find(pod, m.Name)
		if v == nil {
			return nil, fmt.Errorf("volume mount %q: the pod has no such volume", m.Name)
		}
		mount := sandbox.Mount{Source: s.path(v), Target: m.MountPath, ReadOnly: m.ReadOnly, SubPath: m.SubPath}
		if m.SubPathExpr != "" {
			mount.SubPath = expand(m.SubPathExpr)
			if strings.Contains(mount.SubPath, "$(") {
				return nil, fmt.Errorf("volume mount %q: subPathExpr %q names a variable that is not set", m.Name, m.SubPathExpr)
			}
		}
		switch {
		case v.HostPath != nil:
			mount.Source = v.HostPath.Path
		case v.EmptyDir == nil:
			// A kubelet mounts what it writes itself read-only.
			mount.ReadOnly = true
		}
		if !filepath.IsAbs(mount.Target) {
			mount.Target = "/" + mount.Target
		}
		mounts = append(mounts, mount)
	}
	return mounts, nil
}

func find(pod *corev1.Pod, name string) *corev1.Volume {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i]
		}
	}
	return nil
}

func checkHostPath(src *corev1.HostPathVolumeSource) error {
	kind := corev1.HostPathUnset
	if src.Type != nil {
		kind = *src.Type
	}
	switch kind {
	case corev1.HostPathDirectoryOrCreate:
		return os.MkdirAll(src.Path, 0o755)
	case corev1.HostPathFileOrCreate:
		f, err := os.OpenFile(src.Path, os.O_CREATE|os.O_RDONLY, 0o644)
		if err != nil {
			return err
		}
		return f.Close()
	}
	info, err := os.Stat(src.Path)
	if err != nil {
		return fmt.Errorf("hostPath: %w", err)
	}
	fits := true
	switch kind {
	case corev1.HostPathDirectory:
		fits = info.IsDir()
	case corev1.HostPathFile:
		fits = info.Mode().IsRegular()
	case corev1.HostPathSocket:
		fits = info.Mode()&os.ModeSocket != 0
	case corev1.HostPathCharDev:
		fits = info.Mode()&os.ModeCharDevice != 0
	case corev1.HostPathBlockDev:
		fits = info.Mode()&os.ModeDevice != 0 && info.Mode()&os.ModeCharDevice == 0
	}
	if !fits {
		return fmt.Errorf("hostPath %s is not of type %s", src.Path, kind)
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }
