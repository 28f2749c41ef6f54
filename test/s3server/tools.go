//go:build tools

// Package s3server pins the S3 server of the local cluster.
package s3server

import _ "github.com/versity/versitygw/cmd/versitygw"
