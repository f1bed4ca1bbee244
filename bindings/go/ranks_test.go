package ckpt_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

const rows, columns = 8, 5

// saveRank saves as one rank of `world`: its rows of a sharded tensor, a replicated tensor, an object of its own.
func saveRank(ctx context.Context, store *ckpt.Store, rank, world uint32, text string, options ckpt.Options) error {
	session, err := ckpt.OpenSession(context.Background(), store, rank, world, text, options)
	if err != nil {
		return err
	}
	defer session.Close()
	save, err := ckpt.NewSave(session, "a", 1, nil)
	if err != nil {
		return err
	}
	defer save.Close()
	share := int64(rows / world)
	mine := ramp[float32](rows * columns)[int64(rank)*share*columns : int64(rank+1)*share*columns]
	sharded := ckpt.Shape(rows, columns).Box([]int64{int64(rank) * share, 0}, []int64{share, columns})
	if err := ckpt.AddSlice(save, "sharded", sharded, mine); err != nil {
		return err
	}
	if err := ckpt.AddSlice(save, "replicated", ckpt.Shape(3), []int32{1, 2, 3}); err != nil {
		return err
	}
	if err := save.AddObject("rng", "text/plain", ckpt.PerRank, []byte{byte(rank)}); err != nil {
		return err
	}
	return save.Run(ctx)
}

func checkRanks(t *testing.T, store *ckpt.Store, world uint32) {
	t.Helper()
	reader := openReader(t, store)
	info := need[ckpt.CheckpointInfo](t)(reader.Info())
	if info.WorldSize != world || info.Step != 1 || info.Created.Year() < 2026 {
		t.Errorf("the checkpoint is %+v", info)
	}
	load, column := newLoad(t, reader), make([]float32, rows) // another sharding than was saved
	ok(t, ckpt.AddSlice(load, "sharded", ckpt.Shape(rows, columns).Box([]int64{0, 2}, []int64{rows, 1}), column))
	ok(t, load.Run(context.Background()))
	if !slices.Equal(column, []float32{2, 7, 12, 17, 22, 27, 32, 37}) {
		t.Errorf("column 2 is %v", column)
	}
	for rank := range world {
		if own := need[[]byte](t)(reader.ReadObject(t.Context(), "rng", rank)); own[0] != byte(rank) {
			t.Errorf("the object of rank %d is %v", rank, own)
		}
	}
	if report := need[ckpt.Report](t)(load.Report()); report.Len() == 0 {
		t.Error("nothing was left unread")
	} else {
		for i, finding := range report.All() {
			if finding.Text != report.At(i).Text || finding.Kind != ckpt.FindingExtra {
				t.Errorf("finding %d is %+v", i, finding)
			}
		}
	}
}

func TestRanksInOneProcessSaveTogetherByAString(t *testing.T) {
	store := openStore(t)
	zero := need[*ckpt.Session](t)(ckpt.OpenSession(context.Background(), store, 0, 2, "", nil))
	defer zero.Close()
	var one sync.WaitGroup
	one.Go(func() {
		if err := saveRank(context.Background(), store, 1, 2, zero.String(), nil); err != nil {
			t.Error(err)
		}
	})
	save := need[*ckpt.Save](t)(ckpt.NewSave(zero, "a", 1, nil))
	defer save.Close()
	ok(t, ckpt.AddSlice(save, "sharded", ckpt.Shape(rows, columns).Box([]int64{0, 0}, []int64{rows / 2, columns}),
		ramp[float32](rows/2*columns)))
	ok(t, ckpt.AddSlice(save, "replicated", ckpt.Shape(3), []int32{1, 2, 3}))
	ok(t, save.AddObject("rng", "text/plain", ckpt.PerRank, []byte{0}))
	ok(t, save.Run(context.Background()))
	one.Wait()
	checkRanks(t, store, 2)
}

func TestRanksInOneProcessSaveTogetherByRendezvous(t *testing.T) {
	store := openStore(t)
	var ranks sync.WaitGroup
	for rank := range uint32(4) {
		ranks.Go(func() { // a store of its own, as in a process of its own; with a context that can be cancelled
			options := ckpt.Options{"rendezvous": true, "timeout_ms": 60000}
			if err := saveRank(t.Context(), store, rank, 4, "", options); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	ranks.Wait()
	checkRanks(t, store, 4)
}

func TestRanksThatDisagreeAllFail(t *testing.T) {
	store := openStore(t)
	zero := need[*ckpt.Session](t)(ckpt.OpenSession(context.Background(), store, 0, 2, "", nil))
	defer zero.Close()
	one := need[*ckpt.Session](t)(ckpt.OpenSession(context.Background(), store, 1, 2, zero.String(), nil))
	defer one.Close()
	var ranks sync.WaitGroup
	for i, session := range []*ckpt.Session{zero, one} {
		save := newSave(t, session, "a", ckpt.Options{"timeout_ms": 60000})
		ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(int64(3+i)), make([]float32, 3+i)))
		ranks.Go(func() {
			if err := save.Run(context.Background()); err == nil {
				t.Errorf("rank %d saved a tensor of two shapes", i)
			}
		})
	}
	ranks.Wait()
	noCheckpoint(t, store)
}

func TestASecondSessionFencesTheFirst(t *testing.T) {
	store := openStore(t)
	old, young := openSession(t, store), openSession(t, store)
	save := newSave(t, young, "new", nil)
	ok(t, save.Run(context.Background()))
	is(t, newSave(t, old, "old", nil).Run(context.Background()), ckpt.ErrFenced)
}

func TestPruneVerifyDiffAndRepairReport(t *testing.T) {
	store := openStore(t)
	session := openSession(t, store)
	for step, label := range []string{"a0", "b1", "c2"} {
		save := need[*ckpt.Save](t)(ckpt.NewSave(session, label, int64(step), nil))
		t.Cleanup(func() { save.Close() })
		ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(2), []float32{1, float32(label[0])}))
		ok(t, save.SetTensorAttr("w", "unit", label))
		ok(t, save.AddAlias("tied", "w"))
		ok(t, save.AddAliasView("row", "w", ckpt.Tensor{Shape: []int64{1}, FlatOffset: 1}))
		ok(t, save.Run(context.Background()))
	}
	a := need[*ckpt.Reader](t)(ckpt.OpenReader(store, "a0", nil))
	c := need[*ckpt.Reader](t)(ckpt.OpenReader(store, "c2", nil))
	view := need[ckpt.Tensor](t)(c.Alias("row"))
	if view.FlatOffset != 1 || !slices.Equal(view.Strides, []int64{1}) || view.DType != ckpt.F32 {
		t.Errorf("the alias is %+v", view)
	}
	if unit, known, err := c.TensorAttr("w", "unit"); unit != "c2" || !known || err != nil {
		t.Errorf("the unit is %q, %v, %v", unit, known, err)
	}
	if _, known, err := c.Attr("unit"); known || err != nil {
		t.Errorf("the checkpoint has a unit: %v", err)
	}
	diff := need[ckpt.Report](t)(a.Diff(context.Background(), c, nil))
	if diff.Len() == 0 || diff.At(0).Kind != ckpt.FindingDifferent {
		t.Errorf("a and c have %d differences", diff.Len())
	}
	job := need[*ckpt.Job](t)(c.Verify(context.Background(), nil))
	ok(t, job.Wait(context.Background(), ckpt.JobDone))
	if report := need[ckpt.Report](t)(job.Report()); report.Len() != 0 {
		t.Errorf("a sound checkpoint has %+v", report.At(0))
	}
	if stats := need[ckpt.JobStats](t)(job.Stats()); stats.State != ckpt.JobDone || stats.BytesDone == 0 {
		t.Errorf("the job did %+v", stats)
	}
	ok(t, job.Close())
	ok(t, a.Close())
	pruned := need[ckpt.Report](t)(store.Prune(context.Background(), ckpt.Options{"keep_last": 1}))
	kinds := map[ckpt.FindingKind]int{}
	for _, finding := range pruned.All() {
		kinds[finding.Kind]++
	}
	if kinds[ckpt.FindingRemoved] != 2 {
		t.Errorf("prune: %v", kinds)
	}
	_, err := store.Repair(context.Background(), "c2.1.1", nil)
	is(t, err, ckpt.ErrExists)
}
