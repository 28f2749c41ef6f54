package catalog

import (
	"net/http"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// ambientCredentials are those of the environment: variables, the shared
// credentials file, web identity, container and instance profile. Where there
// are none, requests go out unsigned, and the store's answer says so.
func ambientCredentials() *credentials.Credentials {
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{},
		&patient{Provider: &credentials.IAM{Client: &http.Client{Timeout: 2 * time.Second}}, now: time.Now},
	})
}

// patience is how long a provider that had nothing is left alone.
const patience = time.Minute

// patient does not ask a provider again that just had nothing: a chain asks for
// every request until it has credentials, and where there is no metadata
// service each time costs its timeout. The chain's owner serialises calls.
type patient struct {
	credentials.Provider
	now func() time.Time

	failure  error
	failedAt time.Time
}

// RetrieveWithCredContext implements credentials.Provider.
func (p *patient) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	if p.failure != nil && p.now().Sub(p.failedAt) < patience {
		return credentials.Value{}, p.failure
	}
	value, err := p.Provider.RetrieveWithCredContext(c)
	p.failure, p.failedAt = err, p.now()
	return value, err
}
