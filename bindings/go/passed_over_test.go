package ckpt_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

func TestNewerCheckpointsThatCannotBeLoadedAreReportedOrAreTheError(t *testing.T) {
	folder := t.TempDir()
	store := need[*ckpt.Store](t)(ckpt.OpenStore(folder, nil))
	defer store.Close()
	session := openSession(t, store)
	for _, label := range []string{"a", "b"} {
		save := newSave(t, session, label, nil)
		ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(4), ramp[float32](4)))
		ok(t, save.Run(context.Background()))
	}
	if report := need[ckpt.Report](t)(openReader(t, store).Report()); report.Len() != 0 {
		t.Errorf("without damage: %+v", report.At(0))
	}
	manifest := filepath.Join(folder, "b.1.1", "MANIFEST")
	bytes := need[[]byte](t)(os.ReadFile(manifest))
	bytes[100] ^= 1
	ok(t, os.WriteFile(manifest, bytes, 0o644))

	reader := openReader(t, store)
	info := need[ckpt.CheckpointInfo](t)(reader.Info())
	if info.ID != "a.1.1" || info.PassedOver != 1 || info.Flags&ckpt.CheckpointCopy != 0 {
		t.Errorf("the latest is %+v", info)
	}
	if found := need[ckpt.CheckpointInfo](t)(store.Find("latest", nil)); found.PassedOver != 1 {
		t.Errorf("found %+v", found)
	}
	report := need[ckpt.Report](t)(reader.Report())
	if report.Len() != 1 {
		t.Fatalf("%d findings", report.Len())
	}
	finding := report.At(0)
	if finding.Kind != ckpt.FindingPassedOver || finding.Name != "b.1.1" || finding.Status != ckpt.ErrCorrupt {
		t.Errorf("found %+v", finding)
	}
	_, err := ckpt.OpenReader(store, "latest", ckpt.Options{"on_damaged": "error"})
	is(t, err, ckpt.ErrCorrupt)
}

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

func TestTheReportOfASaveSaysWhatRetentionDid(t *testing.T) {
	session := openSession(t, openStore(t))
	for count, label := range []string{"s1", "s2"} {
		save := need[*ckpt.Save](t)(ckpt.NewSave(session, label, int64(count+1), ckpt.Options{"keep_last": 1}))
		t.Cleanup(func() { save.Close() })
		job := need[*ckpt.Job](t)(save.Start(context.Background()))
		ok(t, job.Wait(context.Background(), ckpt.JobCommitted))
		report := need[ckpt.Report](t)(job.Report())
		if report.Len() != count || (count > 0 && report.At(0).Kind != ckpt.FindingRemoved) {
			t.Errorf("%s: %d findings", label, report.Len())
		}
		ok(t, job.Close())
	}
}
