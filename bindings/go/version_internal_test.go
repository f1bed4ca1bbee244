package ckpt

import (
	"errors"
	"path/filepath"
	"testing"
)

// Before 1.0 a minor version may change the API; later a newer library will do.
func TestALibraryOfAnotherAPIDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		loaded, wanted int
		fits           bool
	}{
		{1000, 1000, true}, {1007, 1000, true}, {1000, 1007, true}, {2000, 1000, false}, {1000, 2000, false},
		{1000000, 1000, false}, {1002003, 1001000, true}, {1001000, 1002003, false}, {2001000, 1001000, false},
	} {
		if fits(c.loaded, c.wanted) != c.fits {
			t.Errorf("library %s and headers of %s: expected %v", versionText(c.loaded), versionText(c.wanted), c.fits)
		}
	}
}

func TestWhateverOpensRefusesALibraryOfAnotherAPI(t *testing.T) {
	loadedVersion = func() int { return HeaderVersionNumber + 1001 }
	t.Cleanup(func() { loadedVersion = VersionNumber })
	expected, found := versionText(HeaderVersionNumber), versionText(HeaderVersionNumber+1001)
	for name, open := range map[string]func() error{
		"OpenStore":  func() error { _, err := OpenStore("mem:version", nil); return err },
		"OpenFile":   func() error { _, err := OpenFile(filepath.Join(t.TempDir(), "none"), nil); return err },
		"NewTree":    func() error { _, err := NewTree(); return err },
		"EncodeTree": func() error { _, err := EncodeTree(nil); return err },
		"ParseTree":  func() error { _, err := ParseTree([]byte("1")); return err },
	} {
		err := open()
		var made *Error
		if !errors.As(err, &made) || made.Status != ErrUnsupported || made.Detail("expected") != expected ||
			made.Detail("found") != found {
			t.Errorf("%s: %v", name, err)
		}
	}
}
