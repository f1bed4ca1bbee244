package ckpt

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Ranks is how the ranks of a training talk: by MPI, NCCL, a socket. Every rank calls the same.
type Ranks interface {
	// Rank is this one, and how many there are.
	Rank() (rank, worldSize uint32)
	// Max replaces each number by the largest that any rank has there.
	Max(numbers []int64) error
	// OfFirst returns rank 0's text on all ranks.
	OfFirst(text string) (string, error)
}

type alone struct{}

func (alone) Rank() (uint32, uint32)              { return 0, 1 }
func (alone) Max([]int64) error                   { return nil }
func (alone) OfFirst(text string) (string, error) { return text, nil }

// Restored is what a training starts from.
type Restored struct {
	ID                string
	Step              int64 // -1 if it has none
	Metrics, Counters map[string]float64
}

// Checkpointer saves a training as it goes on, keeps what the policy says, and restores the newest checkpoint that is
// sound. The README shows the loop; examples/trainer is a trainer.
//
// Saves go on in the background; a failure is told by the next one, by Wait or by Close. Warnings, such as that a
// damaged checkpoint was passed over, go to [slog]. Every rank makes a Checkpointer and calls the same, with the same
// step. One goroutine at a time.
type Checkpointer struct {
	*Keeper // the policy, for what is not here
	store   *Store
	options Options
	ranks   Ranks
	first   bool     // this is rank 0
	session *Session // nil until the first save: restoring takes a run from nobody
	saving  *Job
	signals []chan os.Signal
	why     string // to stop, once the last save is committed
}

// NewCheckpointer is for a training with one rank. SIGTERM and SIGINT make a step save and stop; the second SIGINT ends
// the process. Options: those of NewKeeper but ranks_agree, of OpenSession, NewSave and OpenReader. Close it.
func NewCheckpointer(store *Store, options Options) (*Checkpointer, error) {
	return NewCheckpointerOfRanks(store, options, nil, os.Interrupt, syscall.SIGTERM)
}

// NewCheckpointerOfRanks is for a training whose ranks talk by `ranks` (nil: there is one); these signals, the same on
// all ranks, make a step save and stop, on whichever rank they come.
func NewCheckpointerOfRanks(store *Store, options Options, ranks Ranks, signals ...os.Signal) (*Checkpointer, error) {
	if ranks == nil {
		ranks = alone{}
	}
	if agree, given := options.number("ranks_agree"); given && agree == 0 {
		return nil, invalid("", "ranks_agree=0: the ranks of a Checkpointer talk; ranks that cannot agree use a Keeper each")
	}
	rank, world := ranks.Rank()
	keeper, err := NewKeeper(store, rank, world, options)
	if err != nil {
		return nil, err
	}
	made := &Checkpointer{Keeper: keeper, store: store, options: options, ranks: ranks, first: rank == 0}
	for _, one := range signals {
		came := make(chan os.Signal, 1)
		made.signals = append(made.signals, came)
		signal.Notify(came, one)
		go watch(keeper, came)
	}
	return made, nil
}

// watch stops the keeper by a signal, until Close closes the channel.
func watch(keeper *Keeper, came chan os.Signal) {
	for one := range came {
		if number, known := one.(syscall.Signal); known {
			keeper.Stop(int32(number))
		}
		if one == os.Interrupt {
			signal.Stop(came) // the second one does what it did before
		}
	}
}

// Restore restores the newest checkpoint by `load`, on all ranks the same; nil if there is none yet. If a load finds it
// damaged, the one before is tried, and `load` called again: it must set all that it sets.
func (c *Checkpointer) Restore(load func(reader *Reader) error) (*Restored, error) {
	return c.RestoreFrom("latest", load)
}

// RestoreFrom is Restore for another selector, as [Keeper.Find] takes it; no other checkpoint is tried.
func (c *Checkpointer) RestoreFrom(selector string, load func(reader *Reader) error) (*Restored, error) {
	if err := c.Wait(); err != nil {
		return nil, err
	}
	for {
		id, err := c.ofFirst(func() (string, error) { return c.Find(selector) })
		c.warn()
		if err != nil || id == "" {
			return nil, err
		}
		restored, worst, err := c.restore(id, load)
		if err == nil || worst != damaged || !c.passesOver(id, err) {
			return restored, err
		}
	}
}

// What became of a load. The worst of all ranks counts.
const (
	fine int64 = iota
	damaged
	failed
)

func howBad(err error) int64 {
	switch status := statusOf(err); {
	case err == nil:
		return fine
	case status/10 == ErrCorrupt/10 || status == ErrGone: // as ckpt_keeper_pass_over says
		return damaged
	}
	return failed
}

// restore returns the failure of any rank, and the worst that became of the load.
func (c *Checkpointer) restore(id string, load func(*Reader) error) (*Restored, int64, error) {
	reader, err := OpenReader(c.store, id, c.options)
	if err == nil {
		defer reader.Close()
		err = load(reader)
	}
	worst := []int64{howBad(err)}
	if unheard := c.ranks.Max(worst); unheard != nil {
		return nil, failed, unheard
	}
	if err == nil && worst[0] != fine {
		err = &Error{Status: ErrAborted, Message: "another rank could not load " + id + "; see its error"}
	}
	if err != nil {
		return nil, worst[0], err
	}
	restored, err := c.goOnFrom(id, reader)
	return restored, failed, err
}

func (c *Checkpointer) goOnFrom(id string, reader *Reader) (*Restored, error) {
	// Rank 0 lists the store, and all get its failure; the others read nothing but the open reader.
	_, err := c.ofFirst(func() (string, error) { return "", c.Restored(reader) })
	if err == nil && !c.first {
		err = c.Restored(reader)
	}
	if err != nil {
		return nil, err
	}
	c.warn()
	info, err := reader.Info()
	return &Restored{id, info.Step, c.Metrics(), c.Counters()}, err
}

// passesOver tells whether the checkpoint before a damaged one may do.
func (c *Checkpointer) passesOver(id string, failure error) bool {
	pass := func() (string, error) { return "", c.PassOver(ErrCorrupt, failure.Error()) }
	if _, err := c.ofFirst(pass); err != nil {
		return false
	}
	if c.first {
		slog.Warn("ckpt: passed over " + id + ": " + failure.Error())
	}
	return true
}

// statusOf returns that of an error of this package, ErrInvalid of another one.
func statusOf(err error) Status {
	status := ErrInvalid
	errors.As(err, &status)
	return status
}

// Step says that a step is done. If a save is due, `add` adds to it what is to be saved; Step returns the id then, as
// soon as the data is staged, and "" else. After a signal, or at the time limit, it returns once that is committed, and
// Stopping says why; if that save fails, the next Step tries it again. Cancelling the context gives up the save.
func (c *Checkpointer) Step(ctx context.Context, step int64, add func(save *Save) error) (string, error) {
	votes, err := c.Keeper.Step(step, false)
	c.warn()
	if err != nil {
		return "", err
	}
	combined := (*Votes)(nil)
	if len(c.signals) > 0 || c.NeedsVotes() {
		combined = &votes
		if err := c.ranks.Max(votes[:]); err != nil {
			return "", err
		}
	}
	todo, err := c.Decide(combined)
	if err != nil {
		return "", err
	}
	if why := c.Keeper.Stopping(); why != "" && c.why == "" {
		return c.saveAndStop(ctx, why, add)
	}
	if todo == TodoGoOn {
		return "", nil
	}
	return c.save(ctx, "", add)
}

func (c *Checkpointer) saveAndStop(ctx context.Context, why string, add func(save *Save) error) (string, error) {
	if err := c.Wait(); err != nil {
		slog.Error("ckpt: " + err.Error()) // the save that follows matters more now
	}
	id, err := c.save(ctx, "", add)
	if err = firstOf(err, c.Wait()); err == nil {
		c.why = why
	}
	return id, err
}

// Stopping returns why the training should stop, once the last save is committed: "SIGTERM", "time limit"; else "".
func (c *Checkpointer) Stopping() string { return c.why }

// Save saves now, in the background, and returns the id. A checkpoint with a `label` of its own stays for ever; "": by
// option label. What was just saved is not saved again. After a signal, or at the time limit, it returns once the
// checkpoint is committed, and Stopping says why.
func (c *Checkpointer) Save(ctx context.Context, step int64, label string, add func(save *Save) error) (string, error) {
	if err := c.AtStep(step); err != nil {
		return "", err
	}
	id, err := c.save(ctx, label, add)
	why := c.Keeper.Stopping()
	if err != nil || why == "" || c.why != "" {
		return id, err
	}
	if err := c.Wait(); err != nil {
		return "", err
	}
	c.why = why
	return id, nil
}

func (c *Checkpointer) save(ctx context.Context, label string, add func(save *Save) error) (string, error) {
	if err := c.Wait(); err != nil {
		return "", err
	}
	plan, err := c.ofFirst(func() (string, error) {
		defer c.warn()
		return c.Plan(label)
	})
	if err != nil {
		return "", err
	}
	if err := c.openSession(ctx); err != nil {
		return "", err
	}
	made, err := c.Keeper.Save(c.session, plan, c.options)
	if err != nil || made == nil {
		return c.Saved(), err
	}
	defer made.Close()
	if err := add(made); err != nil {
		return "", firstOf(err, made.GiveUp(err.Error())) // so that the other ranks do not wait
	}
	c.saving, err = made.Start(ctx)
	return made.ID(), err
}

func (c *Checkpointer) openSession(ctx context.Context) error {
	if c.session != nil {
		return nil
	}
	rank, world := c.ranks.Rank()
	text, err := c.ofFirst(func() (text string, err error) {
		if c.session, err = OpenSession(ctx, c.store, 0, world, "", c.options); err == nil {
			text = c.session.String()
		}
		return text, err
	})
	if err == nil && !c.first {
		c.session, err = OpenSession(ctx, c.store, rank, world, text, c.options)
	}
	return err
}

// Wait waits until the save in the background is committed, and returns its failure.
func (c *Checkpointer) Wait() error {
	job := c.saving
	c.saving = nil
	if job == nil {
		return nil
	}
	defer job.Close()
	return job.Wait(context.Background(), JobCommitted)
}

// Close waits for the save in the background, returns its failure, and gives the signals back.
func (c *Checkpointer) Close() error {
	for _, came := range c.signals {
		signal.Stop(came)
		close(came)
	}
	c.signals = nil
	err := c.Wait()
	if c.session != nil {
		err = firstOf(err, c.session.Close())
		c.session = nil
	}
	c.Keeper.Close()
	return err
}

// ofFirst returns what rank 0 makes, on all ranks; or its failure.
func (c *Checkpointer) ofFirst(make func() (string, error)) (string, error) {
	text, err := "", error(nil)
	if c.first {
		if text, err = make(); err == nil {
			text = "+" + text
		} else {
			text = "-" + err.Error()
		}
	}
	told, failed := c.ranks.OfFirst(text)
	if err != nil || failed != nil {
		return "", firstOf(err, failed)
	}
	if made, good := strings.CutPrefix(told, "+"); good {
		return made, nil
	}
	return "", &Error{Status: ErrAborted, Message: "rank 0: " + strings.TrimPrefix(told, "-")}
}

func (c *Checkpointer) warn() {
	if text := c.Warning(); text != "" {
		slog.Warn("ckpt: " + text)
	}
}
