//go:build static

package ckpt

// This names the archives in full, because -lckpt takes the shared library if both are installed. as-needed then drops
// the -lckpt_files and -lckpt that pkg-config adds.

// #cgo LDFLAGS: -l:libckpt_files.a -l:libckpt.a -Wl,--as-needed
// #cgo pkg-config: --static ckpt-files
import "C"
