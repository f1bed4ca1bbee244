//go:build !static && !vendored

package ckpt

// #cgo pkg-config: ckpt-files
import "C"
