package live

import (
	"context"
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

// The keys of a Secret with the credentials of a store.
const (
	keyID        = "AWS_ACCESS_KEY_ID"
	keySecret    = "AWS_SECRET_ACCESS_KEY"
	sessionToken = "AWS_SESSION_TOKEN"
)

const (
	// secretLasts is how long a Secret is believed to be unchanged.
	secretLasts = 30 * time.Second
	// maxSecrets bounds how many are held.
	maxSecrets = 1000
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// Secrets reads credentials, each Secret at most every 30 seconds. It may be used
// concurrently. Secrets are read by name and never watched, so no right to list
// them is needed.
type Secrets struct {
	Client dynamic.Interface
	// Now is the clock; nil: the system's.
	Now func() time.Time

	mu    sync.Mutex
	known map[types.NamespacedName]knownSecret
}

type knownSecret struct {
	credentials catalog.Credentials
	readAt      time.Time
}

// Get returns the credentials in a Secret, or what a person has to do about it.
func (s *Secrets) Get(ctx context.Context, namespace, name string) (*catalog.Credentials, *checkpoint.Failure) {
	place := types.NamespacedName{Namespace: namespace, Name: name}
	if known, ok := s.recall(place); ok {
		return &known, nil
	}
	object, err := s.Client.Resource(secrets).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, &checkpoint.Failure{Kind: checkpoint.SecretNotFound,
			Message: fmt.Sprintf("Secret %s does not exist in namespace %s; create it with %s and %s", name, namespace, keyID, keySecret)}
	case err != nil:
		return nil, &checkpoint.Failure{Kind: checkpoint.Unreachable,
			Message: fmt.Sprintf("Secret %s cannot be read: %v", name, err)}
	}
	var c catalog.Credentials
	for _, key := range []struct {
		name     string
		value    *string
		required bool
	}{{keyID, &c.AccessKeyID, true}, {keySecret, &c.SecretAccessKey, true}, {sessionToken, &c.SessionToken, false}} {
		text, _, _ := unstructured.NestedString(object.Object, "data", key.name)
		value, err := base64.StdEncoding.DecodeString(text)
		if key.required && (err != nil || len(value) == 0) {
			return nil, &checkpoint.Failure{Kind: checkpoint.SecretIncomplete,
				Message: fmt.Sprintf("Secret %s has no value for the key %s", name, key.name)}
		}
		*key.value = string(value)
	}
	s.remember(place, c)
	return &c, nil
}

// Forget has the Secret read anew, after a store refused what is in it.
func (s *Secrets) Forget(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, types.NamespacedName{Namespace: namespace, Name: name})
}

func (s *Secrets) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

func (s *Secrets) recall(place types.NamespacedName) (catalog.Credentials, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.known[place]
	if !ok || s.now().Sub(known.readAt) > secretLasts {
		return catalog.Credentials{}, false
	}
	return known.credentials, true
}

func (s *Secrets) remember(place types.NamespacedName, c catalog.Credentials) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.known == nil || len(s.known) >= maxSecrets {
		// Rarely, and each is one read away.
		s.known = map[types.NamespacedName]knownSecret{}
	}
	for p, k := range s.known {
		if now.Sub(k.readAt) > secretLasts {
			delete(s.known, p)
		}
	}
	s.known[place] = knownSecret{c, now}
}
