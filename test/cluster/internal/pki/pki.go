// Package pki makes the certificates of one local cluster: a root of its own,
// serving certificates for loopback, and one client certificate for each
// identity.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const validity = 365 * 24 * time.Hour

// Authority is a cluster's certificate authority, with everything that it
// issues kept as PEM files in one folder.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Open loads the authority in dir (ca.crt, ca.key) or creates it.
func Open(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	a := &Authority{dir: dir}
	certPEM, err := os.ReadFile(a.CertFile())
	if errors.Is(err, os.ErrNotExist) {
		return a, a.create()
	}
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("%s: ca.crt or ca.key is not PEM", dir)
	}
	if a.cert, err = x509.ParseCertificate(certBlock.Bytes); err != nil {
		return nil, err
	}
	if a.key, err = x509.ParseECPrivateKey(keyBlock.Bytes); err != nil {
		return nil, err
	}
	return a, nil
}

// CertFile is the path of the root certificate.
func (a *Authority) CertFile() string { return filepath.Join(a.dir, "ca.crt") }

func (a *Authority) create() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := newTemplate("rtj-local-cluster", nil)
	if err != nil {
		return err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	a.key = key
	// The certificate is written last: its presence says that both are there.
	if err := writeKey(filepath.Join(a.dir, "ca.key"), key); err != nil {
		return err
	}
	return writePEM(a.CertFile(), "CERTIFICATE", der, 0o644)
}

// Pair is a certificate and its key, as files.
type Pair struct{ Cert, Key string }

// Serving issues NAME.crt and NAME.key for a server on 127.0.0.1, localhost and
// the names and addresses given. An existing pair is kept.
func (a *Authority) Serving(name string, hosts ...string) (Pair, error) {
	template, err := newTemplate(name, nil)
	if err != nil {
		return Pair{}, err
	}
	for _, h := range append([]string{"127.0.0.1", "localhost"}, hosts...) {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	// etcd presents its serving certificate to itself as a client, too.
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return a.issue(name, template)
}

// Client issues NAME.crt and NAME.key, which authenticate to the API server as
// the user with these groups. An existing pair is kept.
func (a *Authority) Client(name, user string, groups ...string) (Pair, error) {
	template, err := newTemplate(user, groups)
	if err != nil {
		return Pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(name, template)
}

func (a *Authority) issue(name string, template *x509.Certificate) (Pair, error) {
	p := Pair{Cert: filepath.Join(a.dir, name+".crt"), Key: filepath.Join(a.dir, name+".key")}
	if _, err := os.Stat(p.Cert); err == nil {
		return p, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, err
	}
	if err := writeKey(p.Key, key); err != nil {
		return Pair{}, err
	}
	return p, writePEM(p.Cert, "CERTIFICATE", der, 0o644)
}

// SigningKey makes NAME.key and NAME.pub, a bare key pair that signs service
// account tokens. An existing pair is kept.
func (a *Authority) SigningKey(name string) (private, public string, err error) {
	private, public = filepath.Join(a.dir, name+".key"), filepath.Join(a.dir, name+".pub")
	if _, err := os.Stat(public); err == nil {
		return private, public, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	if err := writeKey(private, key); err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", err
	}
	return private, public, writePEM(public, "PUBLIC KEY", der, 0o644)
}

func newTemplate(user string, groups []string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		NotBefore:    now.Add(-time.Hour), // clocks that were set back meanwhile
		NotAfter:     now.Add(validity),
	}, nil
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
