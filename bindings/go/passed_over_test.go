package ckpt_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

func TestASaveThatGoesOnFromNothingIsWarnedOfWhoeverWaitsForIt(t *testing.T) {
	var told bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&told, nil)))
	defer slog.SetDefault(before)
	store := openStore(t)
	save := func(step int64, options ckpt.Options, run func(*ckpt.Save) error) {
		session := need[*ckpt.Session](t)(ckpt.OpenSession(context.Background(), store, 0, 1, "", options))
		label := fmt.Sprintf("step-%d", step)
		ok(t, run(need[*ckpt.Save](t)(ckpt.NewSave(session, label, step, nil))))
		ok(t, session.Close())
	}
	run := func(save *ckpt.Save) error { return save.Run(context.Background()) }
	start := func(save *ckpt.Save) error { _, err := save.Start(context.Background()); return err }
	save(10, nil, run)
	save(1, nil, run)
	save(0, nil, start)
	save(2, ckpt.Options{"continue_from": "none"}, run)
	text := told.String()
	if strings.Count(text, "does not go on from step-10.") != 2 || !strings.Contains(text, "continue_from=none") {
		t.Errorf("told: %s", text)
	}
}
