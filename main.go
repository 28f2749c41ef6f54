// Command rtj makes interruption of distributed training on Kubernetes cheap and
// safe. See package cmd for its subcommands.
package main

import (
	"os"

	"rtj.dev/rtj/cmd"
)

func main() { os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
