package ckpt_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var policy = ckpt.Options{"every": "3 steps", "keep_last": 2}

// training has its whole state in one slice; each step changes all of it.
type training []float32

func newTraining() training { return ramp[float32](1000) }

func (w training) train(step int64) {
	for i := range w {
		w[i] = float32(w[i]*0.75) + float32(step)
	}
}

func (w training) addTo(save *ckpt.Save) error { return ckpt.AddSlice(save, "w", ckpt.Shape(1000), w) }

func (w training) load(reader *ckpt.Reader) error {
	found, _, err := ckpt.ReadSlice[float32](context.Background(), reader, "w", nil)
	copy(w, found)
	return err
}

// trainTo trains up to `steps` from what there is; it returns the step that it went on from.
func trainTo(store *ckpt.Store, steps int64) (start int64, state training, err error) {
	state = newTraining()
	keeper, err := ckpt.NewCheckpointer(store, policy)
	if err != nil {
		return 0, nil, err
	}
	restored, err := keeper.Restore(state.load)
	if restored != nil {
		start = restored.Step
	}
	for n := start + 1; n <= steps && err == nil && keeper.Stopping() == ""; n++ {
		state.train(n)
		_, err = keeper.Step(context.Background(), n, state.addTo)
	}
	return start, state, errors.Join(err, keeper.Close(), keeper.Close())
}

func labels(t *testing.T, store *ckpt.Store) []string {
	t.Helper()
	var all []string
	for _, info := range need[[]ckpt.CheckpointInfo](t)(ckpt.Collect(store.Checkpoints())) {
		all = append(all, info.Label)
	}
	slices.Sort(all)
	return all
}

// It starts this program again for this test alone, which then is the training that it kills.
func TestAKilledTrainingGoesOnBitForBit(t *testing.T) {
	if place := os.Getenv("CKPT_TEST_STORE"); place != "" {
		_, _, err := trainTo(need[*ckpt.Store](t)(ckpt.OpenStore(place, nil)), 1<<62)
		ok(t, err)
		return
	}
	path := t.TempDir()
	store := need[*ckpt.Store](t)(ckpt.OpenStore(path, nil))
	steps := int64(10)
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		child := exec.Command(os.Args[0], "-test.run=^TestAKilledTrainingGoesOnBitForBit$")
		child.Env = append(os.Environ(), "CKPT_TEST_STORE="+path)
		ok(t, child.Start())
		t.Cleanup(func() { child.Process.Kill() })
		eventually(t, "the child saves", func() bool {
			info, err := store.Find("latest", nil)
			return err == nil && info.Step > steps
		})
		ok(t, child.Process.Signal(how))
		if err := child.Wait(); (err == nil) != (how == syscall.SIGTERM) {
			t.Errorf("after %v the child ends with %v", how, err)
		}
		saved := need[ckpt.CheckpointInfo](t)(store.Find("latest", nil)).Step
		steps = saved + 10
		start, resumed, err := trainTo(store, steps)
		ok(t, err)
		from, whole, err := trainTo(need[*ckpt.Store](t)(ckpt.OpenStore("mem:whole-"+how.String(), nil)), steps)
		ok(t, err)
		if start != saved || from != 0 || !slices.Equal(resumed, whole) {
			t.Errorf("after %v it goes on from %d, expected %d; the same bits: %t", how, start, saved,
				slices.Equal(resumed, whole))
		}
	}
}

func TestWhatIsDamagedIsPassedOverAndSavedAgain(t *testing.T) {
	path := t.TempDir()
	store := need[*ckpt.Store](t)(ckpt.OpenStore(path, nil))
	_, _, err := trainTo(store, 6)
	ok(t, err)
	part := filepath.Join(path, need[ckpt.CheckpointInfo](t)(store.Find("latest", nil)).ID, "PART_000")
	bytes := need[[]byte](t)(os.ReadFile(part))
	bytes[100] ^= 1
	ok(t, os.WriteFile(part, bytes, 0o644))
	keeper := need[*ckpt.Checkpointer](t)(ckpt.NewCheckpointer(store, policy))
	_, err = keeper.RestoreFrom("step:6", newTraining().load)
	is(t, err, ckpt.ErrCorrupt)
	other := errors.New("not of ckpt")
	_, err = keeper.Restore(func(*ckpt.Reader) error { return other })
	is(t, err, other)
	if found := need[*ckpt.Restored](t)(keeper.Restore(newTraining().load)); found.Step != 3 {
		t.Errorf("it goes on from %+v", found)
	}
	ok(t, keeper.Close())
	for _, wanted := range []int64{3, 6} {
		if start, _, err := trainTo(store, 6); start != wanted || err != nil {
			t.Errorf("it goes on from %d, expected %d: %v", start, wanted, err)
		}
	}
}

func TestNumbersLabelsAndFailuresAreTold(t *testing.T) {
	ctx, store, state := context.Background(), openStore(t), newTraining()
	keeper := need[*ckpt.Checkpointer](t)(ckpt.NewCheckpointer(store,
		ckpt.Options{"every": "3 steps", "keep_best": "loss:min", "continue_from": "none"}))
	never := func(*ckpt.Save) error { t.Error("this is not due"); return nil }
	if found, err := keeper.Restore(newTraining().load); found != nil || err != nil {
		t.Errorf("an empty store has %+v, %v", found, err)
	}
	ok(t, errors.Join(keeper.TellMetric("loss", 0.5), keeper.TellCounter("epoch", 2)))
	first := need[string](t)(keeper.Save(ctx, 1, "mine", state.addTo))
	if again := need[string](t)(keeper.Save(ctx, 1, "mine", never)); again != first {
		t.Errorf("it is saved again, as %s", again)
	}
	if id := need[string](t)(keeper.Step(ctx, 2, never)); id != "" {
		t.Errorf("step 2 was saved as %s", id)
	}
	_, err := keeper.Step(ctx, 3, func(save *ckpt.Save) error {
		return ckpt.AddSlice(save, "w", ckpt.Shape(1001), state)
	})
	is(t, err, ckpt.ErrInvalid)
	found := need[*ckpt.Restored](t)(keeper.RestoreFrom("best", state.load))
	if found.ID != first || found.Step != 1 || found.Metrics["loss"] != 0.5 || found.Counters["epoch"] != 2 {
		t.Errorf("the best is %+v", found)
	}
	ok(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	for n := int64(4); keeper.Stopping() == ""; n++ { // the signal may take a while
		_ = need[string](t)(keeper.Step(ctx, n, state.addTo))
		time.Sleep(time.Millisecond)
	}
	if said := keeper.Stopping(); said != "SIGTERM" {
		t.Errorf("it stops by %s", said)
	}
	if saved := labels(t, store); !slices.Contains(saved, "mine") || len(saved) < 2 {
		t.Errorf("there are %v", saved)
	}
	ok(t, keeper.Close())
}

func TestALastSaveThatFailsIsTriedAgain(t *testing.T) {
	ctx, store, state := context.Background(), openStore(t), newTraining()
	_, err := ckpt.NewCheckpointer(store, ckpt.Options{"ranks_agree": int64(0)})
	if is(t, err, ckpt.ErrInvalid); err != nil && !strings.Contains(err.Error(), "use a Keeper") {
		t.Error(err)
	}
	keeper := need[*ckpt.Checkpointer](t)(ckpt.NewCheckpointer(store, policy))
	keeper.Stop(int32(syscall.SIGTERM))
	_, err = keeper.Step(ctx, 1, func(*ckpt.Save) error { return ckpt.ErrIO })
	is(t, err, ckpt.ErrIO)
	if why := keeper.Stopping(); why != "" {
		t.Errorf("nothing is saved, and it stops by %s", why)
	}
	if need[string](t)(keeper.Step(ctx, 2, state.addTo)) == "" || keeper.Stopping() != "SIGTERM" {
		t.Errorf("the last save is not tried again; it stops by %q", keeper.Stopping())
	}
	if saved := labels(t, store); !slices.Equal(saved, []string{"step-2"}) {
		t.Errorf("there are %v", saved)
	}
	ok(t, keeper.Close())
}

// threads are two goroutines as ranks; `told` and `heard` go around between them.
type threads struct {
	rank        uint32
	told, heard chan any
}

func (r threads) Rank() (uint32, uint32) { return r.rank, 2 }

func (r threads) Max(numbers []int64) error {
	mine := slices.Clone(numbers)
	r.told <- mine
	for i, other := range (<-r.heard).([]int64) {
		numbers[i] = max(numbers[i], other)
	}
	return nil
}

func (r threads) OfFirst(text string) (string, error) {
	if r.rank == 0 {
		r.told <- text
		return text, nil
	}
	return (<-r.heard).(string), nil
}

// rankOfTwo trains until it is to stop, which only rank 1 is told; and then restores, which fails there twice.
func rankOfTwo(t *testing.T, store *ckpt.Store, ranks threads) {
	keeper, err := ckpt.NewCheckpointerOfRanks(store, policy, ranks, syscall.SIGUSR1)
	if err != nil {
		t.Error(err)
		return
	}
	state, loads := newTraining(), 0
	for n := int64(1); n <= 8 && keeper.Stopping() == ""; n++ {
		state.train(n)
		if ranks.rank == 1 && n == 4 {
			keeper.Stop(10)
		}
		if _, err := keeper.Step(context.Background(), n, state.addTo); err != nil {
			t.Errorf("rank %d, step %d: %v", ranks.rank, n, err)
		}
	}
	load := func(reader *ckpt.Reader) error {
		loads++
		if ranks.rank == 1 && loads < 3 {
			return []error{ckpt.ErrIO, ckpt.ErrCorrupt}[loads-1] // IO is no damage, so no other is tried
		}
		if ranks.rank == 0 && loads == 2 {
			return ckpt.ErrIncomplete // damage of another kind
		}
		return state.load(reader)
	}
	if _, err := keeper.Restore(load); err == nil {
		t.Errorf("rank %d restores what the other cannot read", ranks.rank)
	}
	if found, err := keeper.Restore(load); err != nil || found.Step != 3 {
		t.Errorf("rank %d goes on from %+v, %v", ranks.rank, found, err)
	}
	ok(t, keeper.Close())
}

// asTwoRanks runs `each` as two ranks.
func asTwoRanks(each func(ranks threads)) {
	up, down := make(chan any, 1), make(chan any, 1)
	var ranks sync.WaitGroup
	ranks.Go(func() { each(threads{0, down, up}) })
	ranks.Go(func() { each(threads{1, up, down}) })
	ranks.Wait()
}

func TestRanksAgreeOnAll(t *testing.T) {
	store := openStore(t)
	asTwoRanks(func(ranks threads) { rankOfTwo(t, store, ranks) })
	if saved := labels(t, store); !slices.Equal(saved, []string{"step-3", "step-4"}) {
		t.Errorf("there are %v", saved)
	}
}

func TestAllRanksGetTheFailureOfRank0AfterTheLoad(t *testing.T) {
	mirror := t.TempDir()
	store := need[*ckpt.Store](t)(ckpt.OpenStore(t.TempDir(), ckpt.Options{"mirror": mirror}))
	_, _, err := trainTo(store, 3)
	ok(t, err)
	opened := make(chan any)
	asTwoRanks(func(ranks threads) {
		keeper, err := ckpt.NewCheckpointerOfRanks(store, policy, ranks)
		if err != nil {
			t.Error(err)
			return
		}
		defer keeper.Close()
		_, err = keeper.Restore(func(*ckpt.Reader) error {
			if ranks.rank == 1 {
				close(opened)
				return nil
			}
			<-opened
			return os.RemoveAll(mirror) // so that rank 0 cannot list it
		})
		is(t, err, []ckpt.Status{ckpt.ErrIO, ckpt.ErrAborted}[ranks.rank])
	})
}
