package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"rtj.dev/rtj/test/node/podenv"
	"rtj.dev/rtj/test/node/sandbox"
)

// sandboxSpec computes what the container runs. With an error comes the reason
// that a kubelet would give for waiting.
func (w *worker) sandboxSpec(ctx context.Context, c *container) (sandbox.Spec, string, error) {
	none := sandbox.Spec{}
	if err := unsupported(w.pod, c); err != nil {
		return none, "CreateContainerConfigError", err
	}
	img, err := w.Images.Find(c.spec.Image)
	if err != nil {
		return none, errImagePull, err
	}
	view := w.view()
	env, err := podenv.Environment(ctx, view, c.spec, img, objects{w.client})
	if err != nil {
		return none, "CreateContainerConfigError", err
	}
	args, err := podenv.Command(c.spec, env, img)
	if err != nil {
		return none, "CreateContainerError", err
	}
	mapping := expansion.MappingFuncFor(env)
	mounts, err := w.volumes.Mounts(w.pod, c.spec, func(s string) string { return expansion.Expand(s, mapping) })
	if err != nil {
		return none, "CreateContainerConfigError", err
	}
	termination, err := w.terminationMount(c)
	if err != nil {
		return none, "CreateContainerError", err
	}
	mounts = append(mounts, sandbox.Mount{Source: filepath.Join(w.dir, hostsFile), Target: "/etc/hosts"}, termination)
	spec := w.host.Apply(sandbox.Spec{
		Args: args, Env: env.List(), WorkingDir: podenv.WorkingDir(c.spec, img), Hostname: view.Hostname, Mounts: mounts,
	})
	if err := setUser(&spec, w.pod, c.spec); err != nil {
		return none, "CreateContainerConfigError", err
	}
	return spec, "", nil
}

// terminationMount makes the file whose content becomes the message of the
// container's end.
func (w *worker) terminationMount(c *container) (sandbox.Mount, error) {
	// Beside the attempts, which are directories named by numbers, so that
	// the sandbox's directory stays the sandbox's.
	path := w.terminationPath(c)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return sandbox.Mount{}, err
	}
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		return sandbox.Mount{}, err
	}
	target := c.spec.TerminationMessagePath
	if target == "" {
		target = corev1.TerminationMessagePathDefault
	}
	return sandbox.Mount{Source: path, Target: target}, os.Chmod(path, 0o666)
}

func (w *worker) terminationPath(c *container) string {
	return filepath.Join(w.dir, terminationFile, c.spec.Name)
}

// unsupported names what this node cannot do and the container asks for.
func unsupported(pod *corev1.Pod, c *container) error {
	what := ""
	switch s := c.spec; {
	case c.init && s.RestartPolicy != nil && *s.RestartPolicy == corev1.ContainerRestartPolicyAlways:
		what = "sidecar containers (init containers with restartPolicy Always)"
	case s.Lifecycle != nil && s.Lifecycle.PostStart != nil:
		what = "postStart hooks"
	case usesGRPC(s.LivenessProbe) || usesGRPC(s.ReadinessProbe) || usesGRPC(s.StartupProbe):
		what = "gRPC probes"
	case len(s.VolumeDevices) > 0:
		what = "volumeDevices"
	case len(pod.Spec.EphemeralContainers) > 0:
		what = "ephemeral containers"
	default:
		return nil
	}
	return fmt.Errorf("a process node does not support %s", what)
}

func usesGRPC(p *corev1.Probe) bool { return p != nil && p.GRPC != nil }

// setUser applies the security context's user and groups.
func setUser(spec *sandbox.Spec, pod *corev1.Pod, c *corev1.Container) error {
	number := func(of func(*corev1.PodSecurityContext) *int64, ofContainer func(*corev1.SecurityContext) *int64) int {
		if s := c.SecurityContext; s != nil && ofContainer(s) != nil {
			return int(*ofContainer(s))
		}
		if s := pod.Spec.SecurityContext; s != nil && of(s) != nil {
			return int(*of(s))
		}
		return 0
	}
	spec.UID = number(func(s *corev1.PodSecurityContext) *int64 { return s.RunAsUser }, func(s *corev1.SecurityContext) *int64 { return s.RunAsUser })
	spec.GID = number(func(s *corev1.PodSecurityContext) *int64 { return s.RunAsGroup }, func(s *corev1.SecurityContext) *int64 { return s.RunAsGroup })
	if s := pod.Spec.SecurityContext; s != nil && !spec.UserNamespace {
		for _, g := range s.SupplementalGroups {
			spec.Groups = append(spec.Groups, int(g))
		}
	}
	nonRoot := pod.Spec.SecurityContext != nil && isTrue(pod.Spec.SecurityContext.RunAsNonRoot)
	if s := c.SecurityContext; s != nil && s.RunAsNonRoot != nil {
		nonRoot = *s.RunAsNonRoot
	}
	switch {
	case nonRoot && spec.UID == 0:
		return errors.New("container has runAsNonRoot and image will run as root")
	case spec.UserNamespace && (spec.UID != 0 || spec.GID != 0):
		return fmt.Errorf("runAsUser %d and runAsGroup %d need a process node that runs as root", spec.UID, spec.GID)
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }
