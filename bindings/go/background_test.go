package ckpt_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// A save in the background belongs to its session: nothing depends on its Job.

func openRanks(t *testing.T, store *ckpt.Store) [2]*ckpt.Session {
	t.Helper()
	first := need[*ckpt.Session](t)(ckpt.OpenSession(t.Context(), store, 0, 2, "", nil))
	return [2]*ckpt.Session{first, need[*ckpt.Session](t)(ckpt.OpenSession(t.Context(), store, 1, 2, first.String(), nil))}
}

func startSave(t *testing.T, session *ckpt.Session, label string, values []float32) *ckpt.Job {
	t.Helper()
	save := need[*ckpt.Save](t)(ckpt.NewSave(session, label, -1, nil))
	ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(int64(len(values))), values))
	job := need[*ckpt.Job](t)(save.Start(context.Background()))
	ok(t, save.Close())
	return job
}

func TestASaveWhoseJobIsForgottenOrClosedIsCommittedWithTheMemoryAsItWasAtTheStart(t *testing.T) {
	store := openStore(t)
	ranks, values := openRanks(t, store), ramp[float32](1000)
	startSave(t, ranks[0], "a", values)
	clear(values) // staged: the memory is ours again
	ok(t, startSave(t, ranks[1], "a", ramp[float32](1000)).Close())
	ok(t, ranks[0].Close())
	ok(t, ranks[1].Close())
	got, _, err := ckpt.ReadSlice[float32](t.Context(), openReader(t, store), "w", nil)
	ok(t, err)
	if !slices.Equal(got, ramp[float32](1000)) {
		t.Error("the checkpoint has what was written after the start")
	}
}

func TestAFailureOfWhichNobodyWasToldIsThatOfTheSaveAfterIt(t *testing.T) {
	ranks := openRanks(t, openStore(t))
	startSave(t, ranks[0], "a", []float32{1})
	ok(t, need[*ckpt.Save](t)(ckpt.NewSave(ranks[1], "a", -1, nil)).GiveUp("no room"))
	var told error
	eventually(t, "the failure", func() bool {
		var save *ckpt.Save
		if save, told = ckpt.NewSave(ranks[0], "probe", -1, nil); told == nil {
			save.Close()
		}
		return told != nil
	})
	is(t, told, ckpt.ErrAborted)
	if !strings.Contains(told.Error(), `the save "a" in the background failed: `) {
		t.Error(told)
	}
	startSave(t, ranks[0], "b", []float32{1}) // told once; the session can be used again
	startSave(t, ranks[1], "b", []float32{1})
	ok(t, ranks[0].Close())
	ok(t, ranks[1].Close())
}

func TestClosingASessionReturnsTheFailureUnlessAWaitDid(t *testing.T) {
	for _, waits := range []bool{false, true} {
		ranks := openRanks(t, openStore(t))
		job := startSave(t, ranks[0], "a", []float32{1})
		other := need[*ckpt.Save](t)(ckpt.NewSave(ranks[1], "a", -1, nil))
		ok(t, other.GiveUp("no room for the optimizer"))
		is(t, other.GiveUp("again"), ckpt.ErrInvalid)
		if waits {
			is(t, job.Wait(t.Context(), ckpt.JobCommitted), ckpt.ErrAborted)
			ok(t, ranks[0].Close())
			continue
		}
		err := ranks[0].Close()
		is(t, err, ckpt.ErrAborted)
		if !strings.Contains(err.Error(), "no room for the optimizer") {
			t.Error(err)
		}
		ok(t, ranks[0].Close())
	}
}

func TestAPanicThatReachesTheSessionCancelsItsSavesAtOnce(t *testing.T) {
	ranks := openRanks(t, openStore(t))
	func() {
		defer func() { recover() }()
		defer ranks[0].Close() // without the cancel this would wait for the other rank
		startSave(t, ranks[0], "a", []float32{1})
		panic("the trainer failed")
	}()
	save := need[*ckpt.Save](t)(ckpt.NewSave(ranks[1], "a", -1, nil))
	is(t, save.Run(t.Context()), ckpt.ErrAborted)
	ok(t, ranks[1].Close())
}

func TestNoHandleIsAnErrorAndNoPanic(t *testing.T) {
	ctx := t.Context()
	save := newSave(t, openSession(t, openStore(t)), "a", nil)
	for what, err := range map[string]error{
		"session": first(ckpt.NewSave(nil, "a", 1, nil)),
		"store":   errors.Join(first(ckpt.OpenReader(nil, "latest", nil)), first(ckpt.OpenSession(ctx, nil, 0, 1, "", nil))),
		"reader":  first(ckpt.NewLoad(nil, nil)),
		"tree":    save.AddTree("", nil),
	} {
		is(t, err, ckpt.ErrInvalid)
		if !strings.Contains(err.Error(), "the "+what+" is nil") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// ---- states of ranks that differ ----

// twoStages saves as two stages of a pipeline: a common step, a layer and a random state of each.
func twoStages(t *testing.T) *ckpt.Reader {
	t.Helper()
	store := openStore(t)
	ranks := openRanks(t, store)
	for rank, session := range ranks {
		save := need[*ckpt.Save](t)(ckpt.NewSave(session, "a", 7, ckpt.Options{"held_by": "some"}))
		layer := ckpt.Leaf(ckpt.Shape(2), []float32{float32(rank), 1})
		ok(t, save.AddState("", new(ckpt.Dict).Set("step", 7).Set("layer"+string(rune('0'+rank)), layer).
			Set("rng", ckpt.PerRankValue(uint32(rank), 100+rank))))
		// With held_by=some staging waits for the other rank, so one goroutine cannot Start both.
		need[*ckpt.Job](t)(save.StartInPlace(context.Background()))
	}
	ok(t, ranks[0].Close())
	ok(t, ranks[1].Close())
	return openReader(t, store)
}

func TestARankReadsItsOwnValue(t *testing.T) {
	reader := twoStages(t)
	rng := func(tree *ckpt.Tree, err error) ckpt.Record {
		ok(t, err)
		defer tree.Close()
		return need[any](t)(tree.Value()).(*ckpt.Dict).Get("rng").(ckpt.Record)
	}
	is(t, first(rng(reader.Tree("")).Own()), ckpt.ErrMismatch) // of both ranks
	is(t, first(ckpt.Record{Class: "torch.Size", Items: new(ckpt.Dict).Set("n", 1)}.Own()), ckpt.ErrMismatch)
	for rank, expected := range map[uint32]int64{0: 100, 1: 101, 5: 100} { // a sixth rank: rank 0's
		if own := need[any](t)(rng(reader.TreeOfRank("", rank)).Own()); own != expected {
			t.Errorf("rank %d has %v", rank, own)
		}
	}
	if value, known, err := reader.Attr("k"); value != "" || known || err != nil {
		t.Errorf("an absent attribute is %q, %v, %v", value, known, err)
	}
}

func TestABufferIsZeroedMemoryToLoadInto(t *testing.T) {
	reader := twoStages(t)
	buffer := need[*ckpt.Buffer](t)(ckpt.NewBuffer(8))
	if !slices.Equal(buffer.Bytes(), make([]byte, 8)) {
		t.Errorf("it holds %v", buffer.Bytes())
	}
	load := newLoad(t, reader)
	ok(t, load.AddTensor("layer1", ckpt.Shape(2).As(ckpt.F32), buffer.Bytes()))
	ok(t, load.Run(t.Context()))
	if expected := ckpt.BytesOf([]float32{1, 1}); !slices.Equal(buffer.Bytes(), expected) {
		t.Errorf("expected %v, found %v", expected, buffer.Bytes())
	}
	ok(t, buffer.Close())
	ok(t, buffer.Close())
	if buffer.Bytes() != nil {
		t.Error("a closed buffer has bytes")
	}
}
