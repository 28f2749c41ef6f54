package cmd

import (
	"net"

	"github.com/spf13/cobra"

	"rtj.dev/rtj/hooks/server"
)

// httpFlags say where and how to serve.
type httpFlags struct {
	address  string
	tls      server.TLS
	token    string
	maxBytes int64
}

func (f *httpFlags) addHooks(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.tls.CertFile, "tls-cert-file", "", "certificate of the server; with --tls-key-file hooks are served over TLS")
	flags.StringVar(&f.tls.KeyFile, "tls-key-file", "", "key of the certificate")
	flags.StringVar(&f.tls.ClientCAFile, "client-ca-file", "", "certificates that sign those of runners; a runner with one is trusted")
	flags.StringVar(&f.token, "runner-token-file", "", "file with a bearer token; a runner that sends it is trusted")
	flags.Int64Var(&f.maxBytes, "max-request-bytes", server.DefaultMaxBytes, "size of the largest request")
}

// runners tells who is trusted; nil: nobody.
func (f *httpFlags) runners() (server.Authenticator, error) {
	var known []server.Authenticator
	if f.token != "" {
		token, err := server.NewTokenFile(f.token)
		if err != nil {
			return nil, badInput("--runner-token-file: %w", err)
		}
		known = append(known, token)
	}
	if f.tls.ClientCAFile != "" {
		known = append(known, server.ClientCertificate{})
	}
	if len(known) == 0 {
		return nil, nil
	}
	return server.AnyOf(known...), nil
}

func (f *httpFlags) listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", f.address)
	if err != nil {
		return nil, badInput("--http-address: %w", err)
	}
	return listener, nil
}
