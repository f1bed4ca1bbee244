package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

func trained(t *testing.T, ctx context.Context, path string, steps int64) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(ctx, path, steps, 10, &out)
	return out.String(), err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func TestAResumedRunEqualsAnUninterruptedOneBitForBit(t *testing.T) {
	ctx := context.Background()
	whole, err := trained(t, ctx, t.TempDir(), 100)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	for _, steps := range []int64{37, 64, 100} {
		said, err := trained(t, ctx, path, steps)
		if err != nil {
			t.Fatal(err)
		}
		if resumed := strings.Contains(said, "resumed"); resumed != (steps > 37) {
			t.Errorf("up to step %d the trainer said: %s", steps, said)
		}
		if steps == 100 && lastLine(said) != lastLine(whole) {
			t.Errorf("resumed: %s; in one go: %s", lastLine(said), lastLine(whole))
		}
	}
	other, err := trained(t, ctx, t.TempDir(), 99)
	if err != nil || strings.Contains(whole, strings.Fields(lastLine(other))[5]) {
		t.Errorf("another number of steps has the same digest: %s, %v", other, err)
	}
}

func TestARunThatIsStoppedAtAnyMomentGoesOnFromACommittedCheckpoint(t *testing.T) {
	whole, err := trained(t, context.Background(), t.TempDir(), 300)
	if err != nil {
		t.Fatal(err)
	}
	path, stops := t.TempDir(), 0
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(100+50*stops)*time.Millisecond)
		said, err := trained(t, ctx, path, 300)
		cancel()
		if err == nil {
			if lastLine(said) != lastLine(whole) {
				t.Errorf("after %d stops: %s; in one go: %s", stops, lastLine(said), lastLine(whole))
			}
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		stops++
	}
	if stops == 0 {
		t.Error("the run was never stopped")
	}
}

func TestAStoreOfSomethingElseIsRefused(t *testing.T) {
	path := t.TempDir()
	store, err := ckpt.OpenStore(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	session, err := ckpt.OpenSession(context.Background(), store, 0, 1, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	other, err := ckpt.NewSave(session, "other", -1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := errors.Join(other.AddState("", new(ckpt.Dict).Set("step", "one")), other.Run(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := trained(t, context.Background(), path, 10); err == nil {
		t.Error("a checkpoint without a step was taken")
	}
}
