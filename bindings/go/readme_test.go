package ckpt_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// program returns the first ```go block of the README.
func program(t *testing.T) string {
	t.Helper()
	readme := string(need[[]byte](t)(os.ReadFile("README.md")))
	found := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(readme)
	if found == nil {
		t.Fatal("README.md has no program")
	}
	if line := strings.Count(readme[:strings.Index(readme, found[1])], "\n"); line > 12 {
		t.Errorf("the program begins in line %d: not on the first screen", line)
	}
	return found[1]
}

func TestTheProgramOfTheReadmeIsTheExample(t *testing.T) {
	if example := string(need[[]byte](t)(os.ReadFile("examples/readme/main.go"))); example != program(t) {
		t.Error("examples/readme/main.go differs from the README's program")
	}
}

// buildFlags returns the flags of this test that the program needs too: a library with ASan needs a program with ASan.
func buildFlags() []string {
	var flags []string
	if info, known := debug.ReadBuildInfo(); known {
		for _, setting := range info.Settings {
			if setting.Key == "-asan" || setting.Key == "-tags" {
				flags = append(flags, setting.Key+"="+setting.Value)
			}
		}
	}
	return flags
}

// As a user would build it: in a module of its own, which requires this one.
func TestTheProgramOfTheReadmeRuns(t *testing.T) {
	folder, here := t.TempDir(), need[string](t)(os.Getwd())
	module := "module trainer\n\ngo 1.26\n\nrequire github.com/ckpt-engine/ckpt/bindings/go v0.1.0\n\n" +
		"replace github.com/ckpt-engine/ckpt/bindings/go => " + here + "\n"
	ok(t, os.WriteFile(filepath.Join(folder, "go.mod"), []byte(module), 0o644))
	ok(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(program(t)), 0o644))
	command := exec.Command("go", append(append([]string{"run"}, buildFlags()...), ".", filepath.Join(folder, "store"))...)
	command.Dir = folder
	said, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "the same weights: true") {
		t.Errorf("%v: %s", err, said)
	}
}
