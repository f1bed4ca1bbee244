package conformance_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ckpt-engine/ckpt/bindings/go/internal/conformance"
)

const root = "../../../.."

func TestEveryScenarioOfTheSuiteHolds(t *testing.T) {
	files, err := filepath.Abs(root + "/bindings/torch/tests/files")
	if err != nil {
		t.Fatal(err)
	}
	scenarios, err := filepath.Glob(root + "/tests/conformance/scenarios/*.txt")
	if err != nil || len(scenarios) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	variables := []string{"FILES=" + files, "LONG=" + strings.Repeat("n", 4096)} // as run.py gives them
	for _, scenario := range scenarios {
		t.Run(strings.TrimSuffix(filepath.Base(scenario), ".txt"), func(t *testing.T) {
			count, err := conformance.Run(scenario, t.TempDir(), variables, io.Discard)
			if err != nil || count == 0 {
				t.Errorf("%d commands: %v", count, err)
			}
		})
	}
}

func TestAWrongExpectationNamesItsLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wrong.txt")
	text := "# three lines\nmemory m 8 1\nstatus NOT_FOUND 21\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	if status := conformance.Main([]string{path, t.TempDir()}, &out, &errs); status != 1 || out.String() != "" {
		t.Errorf("exit status %d, %q", status, out.String())
	}
	if !strings.HasPrefix(errs.String(), path+":3: status: expected NOT_FOUND for 21") {
		t.Errorf("the runner said %q", errs.String())
	}
}
