package ckpt

// #include "ckpt_go.h"
import "C"

import "fmt"

// CheckpointState says what has become of a checkpoint or attempt.
type CheckpointState int32

// nameOf returns the name of an enumeration's value; a newer library may have values that are not listed here.
func nameOf(kind string, value int32, names map[int32]string) string {
	if name, known := names[value]; known {
		return name
	}
	return fmt.Sprintf("%s(%d)", kind, value)
}
