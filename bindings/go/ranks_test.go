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
