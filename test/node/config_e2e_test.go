//go:build e2e

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestEnvironmentAndVolumes(t *testing.T) {
	w := newWorld(t, "--config-refresh=1h")
	cms, secrets := w.client.CoreV1().ConfigMaps(w.ns), w.client.CoreV1().Secrets(w.ns)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}, Data: map[string]string{"k": "v1"}}
	if _, err := cms.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"password": "x"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	optional := true
	w.pod("a", `echo "$IP $NODE $SEC $PRE_k $GREET"; cat /sec/password; echo; cat /run/secrets/kubernetes.io/serviceaccount/namespace; echo
		echo TOKEN=$(cat /var/run/secrets/kubernetes.io/serviceaccount/token); test -s /var/run/secrets/kubernetes.io/serviceaccount/ca.crt && echo ca
		ls /none; echo $KUBERNETES_SERVICE_HOST; echo end
		while :; do now="$(cat /all/cm)/$(cat /all/note)"; test "$now" = "$last" || echo "is $now"; last=$now; sleep 0.05; done`,
		func(p *corev1.Pod) {
			p.Annotations = map[string]string{"note": "n1"}
			c := &p.Spec.Containers[0]
			field := func(path string) *corev1.EnvVarSource {
				return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
			}
			c.Env = []corev1.EnvVar{
				{Name: "IP", ValueFrom: field("status.podIP")}, {Name: "NODE", ValueFrom: field("spec.nodeName")},
				{Name: "SEC", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "password"}}},
				{Name: "GREET", Value: "to-$(NODE)"},
			}
			c.EnvFrom = []corev1.EnvFromSource{{Prefix: "PRE_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "all", MountPath: "/all"}, {Name: "sec", MountPath: "/sec"}, {Name: "none", MountPath: "/none"}}
			p.Spec.Volumes = []corev1.Volume{
				{Name: "sec", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
				{Name: "none", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Optional: &optional}}},
				{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}, Items: []corev1.KeyToPath{{Key: "k", Path: "cm"}}}},
					{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "note", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['note']"}}}}},
				}}}},
			}
		})
	w.waitLog("a", "is v1/n1")
	log := w.log("a")
	ip := w.get("a").Status.PodIP
	head, rest, _ := strings.Cut(log, "TOKEN=")
	if want := fmt.Sprintf("%s %s x v1 to-%s\nx\n%s\n", ip, w.node.name, w.node.name, w.ns); head != want {
		t.Errorf("got %q, want %q", head, want)
	}
	token, rest, _ := strings.Cut(rest, "\n")
	if !strings.HasPrefix(rest, "ca\n127.0.0.1\nend\n") {
		t.Errorf("rest of the log: %q", rest)
	}
	review, err := w.client.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := review.Status; !s.Authenticated || s.User.Username != "system:serviceaccount:"+w.ns+":default" ||
		!slices.Equal(s.User.Extra["authentication.kubernetes.io/pod-name"], []string{"a"}) {
		t.Errorf("the token is not the pod's: %+v", s)
	}
	// The refresh period is an hour: only the change of the pod brings news.
	cm.Data["k"] = "v2"
	if _, err := cms.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if got := w.log("a"); strings.Contains(got, "is v2") {
		t.Errorf("the volume followed before its time: %q", got)
	}
	_, err = w.client.CoreV1().Pods(w.ns).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"annotations":{"note":"n2"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.waitLog("a", "is v2/n2")
}

func TestConfigMapVolumeRefreshes(t *testing.T) {
	w := newWorld(t, "--config-refresh=1s")
	cms := w.client.CoreV1().ConfigMaps(w.ns)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}, Data: map[string]string{"k": "v1"}}
	if _, err := cms.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.pod("a", "echo up; until grep -q v2 /cm/k; do sleep 0.05; done", func(p *corev1.Pod) {
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "cm", MountPath: "/cm"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "cm", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}}}
	})
	w.waitLog("a", "up")
	cm.Data["k"] = "v2"
	if _, err := cms.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.waitPhase("a", corev1.PodSucceeded)
}

func TestWhatIsMissingIsNamedAndWaitedFor(t *testing.T) {
	w := newWorld(t)
	waiting := func(p *corev1.Pod) *corev1.ContainerStateWaiting {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
			return &corev1.ContainerStateWaiting{}
		}
		return p.Status.ContainerStatuses[0].State.Waiting
	}
	expect := func(name, reason, message string) {
		t.Helper()
		w.waitPod(name, reason+" "+message, func(p *corev1.Pod) bool {
			s := waiting(p)
			return s.Reason == reason && strings.Contains(s.Message, message)
		})
	}
	w.pod("env", "true", func(p *corev1.Pod) {
		p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "later"}}}}
	})
	w.pod("volume", "cat /cm/k", func(p *corev1.Pod) {
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "cm", MountPath: "/cm"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "cm", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "later"}}}}}
	})
	w.pod("image", "true", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nowhere/to:find" })
	w.pod("command", "", func(p *corev1.Pod) { p.Spec.Containers[0].Command = nil })
	w.pod("program", "", func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"no-such-program"} })
	expect("env", "CreateContainerConfigError", `configmaps "later" not found`)
	expect("volume", "CreateContainerConfigError", `configmaps "later" not found`)
	expect("image", "ErrImagePull", `image "nowhere/to:find" is not known to this node; it has: host`)
	expect("command", "CreateContainerError", "no command specified")
	if s := terminated(w.waitPhase("program", corev1.PodFailed)); s.ExitCode != 128 || s.Reason != "StartError" || !strings.Contains(s.Message, `"no-such-program" not found in PATH`) {
		t.Errorf("%+v", s)
	}
	_, err := w.client.CoreV1().ConfigMaps(w.ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.waitPhase("env", corev1.PodSucceeded)
	w.waitPhase("volume", corev1.PodSucceeded)
	// What never started can be deleted, too.
	w.delete("image")
	w.waitGone("image")
}
