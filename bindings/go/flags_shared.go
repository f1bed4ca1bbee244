//go:build !static

package ckpt

// #cgo pkg-config: ckpt-files
import "C"
