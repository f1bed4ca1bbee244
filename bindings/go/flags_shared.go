//go:build !static

package ckpt

// #cgo pkg-config: ckpt
import "C"
