//go:build static

package ckpt

// This names the archive in full, because -lckpt takes the shared library if both are installed. as-needed then drops
// the -lckpt that pkg-config adds.

// #cgo LDFLAGS: -l:libckpt.a -Wl,--as-needed
// #cgo pkg-config: --static ckpt
import "C"
