package conformance_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ckpt-engine/ckpt/bindings/go/internal/conformance"
)

const isRunner = "CKPT_TEST_IS_RUNNER"

func TestMain(m *testing.M) {
	if os.Getenv(isRunner) != "" {
		conformance.Run(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The suite with this program as its runner: what the tests are built with, such as the race detector, holds for it.
func TestEveryScenarioOfTheSuiteHolds(t *testing.T) {
	runners := filepath.Join(t.TempDir(), "runners.json")
	list, err := json.Marshal(map[string][]string{"go": {"env", isRunner + "=1", os.Args[0]}})
	if err == nil {
		err = os.WriteFile(runners, list, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	suite := "../../../../tests/conformance/run.py"
	out, err := exec.Command("python3", "-B", suite, "--short", runners, t.TempDir()).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
