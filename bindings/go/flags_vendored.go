//go:build vendored

package ckpt

// The engine is compiled with the package, from the files of tools/amalgamate in its folder. It has no libckpt_files.

// #cgo CPPFLAGS: -I${SRCDIR}
// #cgo CXXFLAGS: -std=c++20 -O2 -fvisibility=hidden
// #cgo LDFLAGS: -lpthread -ldl
import "C"
