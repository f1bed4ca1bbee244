// Command trainer trains a small net and saves it in the background every few steps. Started again, it resumes from the
// newest checkpoint and prints the same digest, bit for bit, as a run that never stopped.
//
// Usage: trainer [-steps 200] [-every 20] STORE
package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

func main() {
	steps := flag.Int64("steps", 200, "how many steps to train in all")
	every := flag.Int64("every", 20, "steps between checkpoints")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: trainer [-steps N] [-every N] STORE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Arg(0), *steps, *every, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run trains up to step `steps`, or until the context ends. That gives up the save in progress, and the checkpoint
// before it stays the newest.
func run(ctx context.Context, path string, steps, every int64, out io.Writer) error {
	store, err := ckpt.OpenStore(path, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	s := newState()
	resumed, err := resume(ctx, store, s)
	if err != nil {
		return err
	}
	if resumed {
		fmt.Fprintf(out, "resumed at step %d, loss %.6f\n", s.step, s.loss)
	}
	session, err := ckpt.OpenSession(context.Background(), store, 0, 1, "", nil)
	if err != nil {
		return err
	}
	defer session.Close()
	if err := loop(ctx, session, s, steps, every); err != nil {
		return err
	}
	fmt.Fprintf(out, "step %d, loss %.6f, digest %x\n", s.step, s.loss, s.digest())
	return nil
}

func loop(ctx context.Context, session *ckpt.Session, s *state, steps, every int64) error {
	var job *ckpt.Job // the newest save, which may still run
	finish := func() error {
		if job == nil {
			return nil
		}
		defer job.Close()
		return job.Wait(context.Background(), ckpt.JobCommitted)
	}
	for s.step < steps && ctx.Err() == nil {
		s.train()
		if s.step%every != 0 {
			continue
		}
		err := finish() // a failed save is reported no later than at the next one
		if err != nil {
			return err
		}
		if job, err = save(ctx, session, s); err != nil {
			return err
		}
		<-job.Staged() // now the weights may change
	}
	if err := finish(); err != nil {
		return err
	}
	return ctx.Err()
}

func (s *state) digest() []byte {
	hash := sha256.New()
	for i := range s.weights {
		hash.Write(ckpt.BytesOf(s.weights[i]))
		hash.Write(ckpt.BytesOf(s.momentum[i]))
	}
	return hash.Sum(nil)[:8]
}
