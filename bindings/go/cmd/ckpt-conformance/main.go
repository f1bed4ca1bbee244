// Command ckpt-conformance is the Go runner of tests/conformance.
package main

import (
	"os"

	"github.com/ckpt-engine/ckpt/bindings/go/internal/conformance"
)

func main() { os.Exit(conformance.Main(os.Args[1:], os.Stdout, os.Stderr)) }
