// Command ckpt-conformance is the Go runner of tests/conformance.
package main

import (
	"os"

	"github.com/ckpt-engine/ckpt/bindings/go/internal/conformance"
)

func main() { conformance.Run(os.Stdin, os.Stdout) }
