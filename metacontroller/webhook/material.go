package webhook

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"rtj.dev/rtj/metacontroller/applier"
)

var (
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

const (
	bundleKey      = "ca.crt"
	certificateKey = "tls.crt"
	privateKeyKey  = "tls.key"
	usernameKey    = "username"
	passwordKey    = "password"
)

// reference is one value that settings name.
type reference struct {
	// field of the settings, for errors.
	field     string
	resource  schema.GroupVersionResource
	namespace string
	name      string
	key       string
}

func (r reference) object() string {
	kind := "Secret"
	if r.resource == configMaps {
		kind = "ConfigMap"
	}
	return fmt.Sprintf("%s %s/%s", kind, r.namespace, r.name)
}

// The values that settings may name, in the order of references.
const (
	bundle      = "caBundle"
	certificate = "clientTLS.certKey"
	privateKey  = "clientTLS.privateKeyKey"
	token       = "authorization.secretRef"
	username    = "basicAuth.usernameKey"
	password    = "basicAuth.passwordKey"
)

// references returns what settings name, with the default keys filled in.
func references(s *applier.EndpointSettings) []reference {
	var list []reference
	add := func(field string, resource schema.GroupVersionResource, namespace, name, key, otherwise string) {
		if key == "" {
			key = otherwise
		}
		list = append(list, reference{field, resource, namespace, name, key})
	}
	if b := s.CABundle; b != nil && b.SecretRef != nil {
		add(bundle, secrets, b.SecretRef.Namespace, b.SecretRef.Name, b.SecretRef.Key, bundleKey)
	} else if b != nil && b.ConfigMapRef != nil {
		add(bundle, configMaps, b.ConfigMapRef.Namespace, b.ConfigMapRef.Name, b.ConfigMapRef.Key, bundleKey)
	}
	if t := s.ClientTLS; t != nil {
		add(certificate, secrets, t.SecretRef.Namespace, t.SecretRef.Name, t.CertKey, certificateKey)
		add(privateKey, secrets, t.SecretRef.Namespace, t.SecretRef.Name, t.PrivateKeyKey, privateKeyKey)
	}
	if a := s.Authorization; a != nil {
		add(token, secrets, a.SecretRef.Namespace, a.SecretRef.Name, a.SecretRef.Key, "")
	}
	if b := s.BasicAuth; b != nil {
		add(username, secrets, b.SecretRef.Namespace, b.SecretRef.Name, b.UsernameKey, usernameKey)
		add(password, secrets, b.SecretRef.Namespace, b.SecretRef.Name, b.PasswordKey, passwordKey)
	}
	return list
}

// settingsFaults returns what is wrong with settings, whatever they name has in it.
func settingsFaults(s *applier.EndpointSettings) []error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if s.Authorization != nil && s.BasicAuth != nil {
		fault("authorization: excludes basicAuth: a request has one Authorization header")
	}
	if b := s.CABundle; b != nil {
		sources := 0
		for _, set := range []bool{b.Inline != nil, b.SecretRef != nil, b.ConfigMapRef != nil} {
			if set {
				sources++
			}
		}
		if sources != 1 {
			fault("caBundle: want exactly one of inline, secretRef and configMapRef, got %d", sources)
		}
		if b.Inline != nil {
			if _, err := certificates([]byte(*b.Inline)); err != nil {
				fault("caBundle.inline: %w", err)
			}
		}
	}
	if a := s.Authorization; a != nil {
		switch {
		case strings.EqualFold(strings.TrimSpace(a.Type), "basic"):
			fault("authorization.type: Basic is not for here: use basicAuth")
		case strings.ContainsFunc(strings.TrimSpace(a.Type), func(r rune) bool { return r <= ' ' || r >= 0x7f }):
			fault("authorization.type: want one word, such as Bearer, got %q", a.Type)
		}
		if a.SecretRef.Key == "" {
			fault("authorization.secretRef.key: missing; it has no default")
		}
	}
	incomplete := map[string]bool{}
	for _, r := range references(s) {
		// The two keys of one Secret are one reference to the reader.
		field, _, _ := strings.Cut(r.field, ".")
		if (r.namespace == "" || r.name == "") && !incomplete[field] {
			incomplete[field] = true
			fault("%s: want name and namespace of the Secret or ConfigMap", field)
		}
	}
	return faults
}

// material is what settings come to: their values as they are now.
type material struct {
	// values by the field that names them, the inline bundle among them.
	values map[string][]byte
	scheme string
}

// unreadableError says that the cluster could not be asked. What was read earlier
// is still the best that is known.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string { return e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

// readMaterial reads each Secret and ConfigMap once.
func readMaterial(ctx context.Context, client dynamic.Interface, s *applier.EndpointSettings) (*material, error) {
	m := &material{values: map[string][]byte{}, scheme: "Bearer"}
	if s.CABundle != nil && s.CABundle.Inline != nil {
		m.values[bundle] = []byte(*s.CABundle.Inline)
	}
	if s.Authorization != nil && strings.TrimSpace(s.Authorization.Type) != "" {
		m.scheme = strings.TrimSpace(s.Authorization.Type)
	}
	objects := map[string]*unstructured.Unstructured{}
	for _, r := range references(s) {
		o := objects[r.object()]
		if o == nil {
			var err error
			o, err = client.Resource(r.resource).Namespace(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil, fmt.Errorf("%s: there is no %s", r.field, r.object())
			case err != nil:
				return nil, &unreadableError{fmt.Errorf("%s: reading %s: %w", r.field, r.object(), err)}
			}
			objects[r.object()] = o
		}
		value, err := valueOf(o, r.key)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", r.field, r.object(), err)
		}
		m.values[r.field] = value
	}
	return m, nil
}

// valueOf returns the value under a key of a Secret or ConfigMap.
func valueOf(o *unstructured.Unstructured, key string) ([]byte, error) {
	text, found, err := unstructured.NestedString(o.Object, "data", key)
	encoded := o.GetKind() == "Secret"
	if !found && !encoded {
		text, found, err = unstructured.NestedString(o.Object, "binaryData", key)
		encoded = true
	}
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, fmt.Errorf("has no key %q", key)
	case text == "":
		return nil, fmt.Errorf("key %q is empty", key)
	case !encoded:
		return []byte(text), nil
	}
	value, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("key %q is not base64", key)
	}
	return value, nil
}

// digest tells whether two materials are the same.
func (m *material) digest() [sha256.Size]byte {
	raw, err := json.Marshal(m.values) // sorted by key
	if err != nil {
		panic(err) // impossible: byte slices
	}
	return sha256.Sum256(append(raw, m.scheme...))
}

// access makes the client. No error shows a value.
func (m *material) access() (*access, error) {
	a := &access{digest: m.digest()}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if pem := m.values[bundle]; pem != nil {
		var err error
		if config.RootCAs, err = certificates(pem); err != nil {
			return nil, fmt.Errorf("%s: %w", bundle, err)
		}
	}
	if m.values[certificate] != nil {
		pair, err := tls.X509KeyPair(m.values[certificate], m.values[privateKey])
		if err != nil {
			return nil, fmt.Errorf("clientTLS: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	hide := func(text string) {
		if text != "" {
			a.hidden = append(a.hidden, text)
		}
	}
	if raw := m.values[token]; raw != nil {
		credential := strings.TrimSpace(string(raw))
		if err := checkHeader(credential); err != nil {
			return nil, fmt.Errorf("%s: %w", token, err)
		}
		a.authorization = m.scheme + " " + credential
		hide(credential)
	}
	if m.values[username] != nil {
		user, pass := strings.TrimSpace(string(m.values[username])), strings.TrimSpace(string(m.values[password]))
		if strings.Contains(user, ":") {
			return nil, fmt.Errorf("%s: a user name cannot have a colon", username)
		}
		encoded := base64.StdEncoding.EncodeToString([]byte(user + ":" + pass))
		a.authorization = "Basic " + encoded
		hide(encoded)
		hide(pass)
	}
	a.private = a.authorization != "" || len(config.Certificates) > 0
	a.client = &http.Client{Transport: newTransport(config), CheckRedirect: a.follow}
	return a, nil
}

// checkHeader refuses what cannot be the value of a header.
func checkHeader(value string) error {
	if value == "" {
		return errors.New("is empty")
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("has a line break or another control character in the middle")
	}
	return nil
}

func certificates(pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("has no certificate in PEM form")
	}
	return pool, nil
}
