package main

import (
	"os"

	"rtj.dev/rtj/test/node/sandbox"
)

func main() {
	sandbox.Main(os.Args[1:])
}
