//go:build static

package ckpt

// The archive is named in full below, since -lckpt takes the shared library where both are installed; as-needed then
// drops the -lckpt that pkg-config adds.

// #cgo LDFLAGS: -l:libckpt.a -Wl,--as-needed
// #cgo pkg-config: --static ckpt
import "C"
