package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"fmt"
	"io/fs"
)

// Status says why a call failed. It is an error, so each value is a sentinel for errors.Is. A status that this library
// does not know keeps its number; statuses come in groups of ten. StatusOK is that of a nil error: no call returns it.
type Status int32

// Name returns the status as ckpt.h spells it, "NOT_FOUND"; "UNKNOWN" for a number that this library does not know.
func (s Status) Name() string { return C.GoString(C.ckpt_status_name(C.ckpt_status(s))) }

// Error returns the name, with the number for an unknown status.
func (s Status) Error() string {
	if name := s.Name(); name != "UNKNOWN" {
		return "ckpt: " + name
	}
	return fmt.Sprintf("ckpt: UNKNOWN (%d)", int32(s))
}

// Is makes ErrNotFound match fs.ErrNotExist, and ErrExists fs.ErrExist.
func (s Status) Is(target error) bool {
	return s == ErrNotFound && target == fs.ErrNotExist || s == ErrExists && target == fs.ErrExist
}

// Version returns the version of the loaded library, "0.1.0"; it may be newer than the headers of the build.
func Version() string { return C.GoString(C.ckpt_version_string()) }

// VersionNumber returns the same as major * 1000000 + minor * 1000 + patch.
func VersionNumber() int { return int(C.ckpt_version_number()) }

// HeaderVersionNumber is the version of the headers that the package was built with.
const HeaderVersionNumber = C.CKPT_VERSION_MAJOR*1000000 + C.CKPT_VERSION_MINOR*1000 + C.CKPT_VERSION_PATCH

// loadedVersion is VersionNumber, unless a test replaces it.
var loadedVersion = VersionNumber

// checkLibrary returns an error if the loaded library does not have the API of the headers. All 0.x have the same
// soname, so the dynamic linker takes any of them.
func checkLibrary() error {
	loaded := loadedVersion()
	if fits(loaded, HeaderVersionNumber) {
		return nil
	}
	expected, found := versionText(HeaderVersionNumber), versionText(loaded)
	return &Error{
		Status:  ErrUnsupported,
		Message: "libckpt " + found + " is loaded; the program was built with the headers of " + expected,
		Details: map[string]string{"expected": expected, "found": found},
	}
}

// fits says whether a loaded version has the wanted API: before 1.0 any minor version may change it, later it only
// grows.
func fits(loaded, wanted int) bool {
	if wanted < 1000000 {
		return loaded/1000 == wanted/1000
	}
	return loaded/1000000 == wanted/1000000 && loaded/1000 >= wanted/1000
}

func versionText(number int) string {
	return fmt.Sprintf("%d.%d.%d", number/1000000, number/1000%1000, number%1000)
}

// FormatRevision is the newest revision of the format on disk that the headers know.
const FormatRevision = C.CKPT_FORMAT_REVISION
