package conformance_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ckpt-engine/ckpt/bindings/go/internal/conformance"
)

const root = "../../../.."

// tokens are those of a scenario.
func tokens(t *testing.T, scenario string) []byte {
	command := exec.Command("python3", "-B", root+"/tests/conformance/tokens.py", scenario, t.TempDir())
	command.Stderr = os.Stderr
	made, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	return made
}

func TestEveryScenarioOfTheSuiteHolds(t *testing.T) {
	scenarios, err := filepath.Glob(root + "/tests/conformance/scenarios/*.txt")
	if err != nil || len(scenarios) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, scenario := range scenarios {
		t.Run(strings.TrimSuffix(filepath.Base(scenario), ".txt"), func(t *testing.T) {
			count, err := conformance.Run(bytes.NewReader(tokens(t, scenario)), io.Discard)
			if err != nil || count == 0 {
				t.Errorf("%d commands: %v", count, err)
			}
		})
	}
}

func TestAWrongExpectationNamesItsLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wrong")
	text := ":15 a.txt:2: memory\nc6 memory\nw1 m\nw1 8\nw1 1\n.0 \n" +
		":15 a.txt:3: status\nc6 status\nw9 NOT_FOUND\nw2 21\n.0 \n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	if status := conformance.Main([]string{path}, &out, &errs); status != 1 || out.String() != "" {
		t.Errorf("exit status %d, %q", status, out.String())
	}
	if !strings.HasPrefix(errs.String(), "a.txt:3: status: expected NOT_FOUND for 21") {
		t.Errorf("the runner said %q", errs.String())
	}
}
