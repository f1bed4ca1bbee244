// Command trainer trains a small net and saves it in the background every few steps. Started again, it resumes from the
// newest checkpoint and prints the same digest, bit for bit, as a run that never stopped.
//
// Usage: trainer [-steps 200] [-every 20] STORE
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

func main() {
	steps := flag.Int64("steps", 200, "how many steps to train in all")
	every := flag.Int64("every", 20, "steps between checkpoints")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: trainer [-steps N] [-every N] STORE")
	}
	if err := run(context.Background(), flag.Arg(0), *steps, *every, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run trains up to step `steps`, or until a signal, after which the last step is saved. The end of the context gives up
// the save in progress, and the checkpoint before it stays the newest.
func run(ctx context.Context, path string, steps, every int64, out io.Writer) error {
	store, err := ckpt.OpenStore(path, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	keeper, err := ckpt.NewCheckpointer(store, ckpt.Options{"every": fmt.Sprintf("%d steps", every), "keep_last": 2})
	if err != nil {
		return err
	}
	defer keeper.Close()
	s := newState()
	restored, err := keeper.Restore(func(reader *ckpt.Reader) error { return s.load(ctx, reader) })
	if err != nil {
		return err
	}
	if restored != nil {
		fmt.Fprintf(out, "resumed at step %d, loss %.6f\n", s.step, s.loss)
	}
	for s.step < steps && ctx.Err() == nil && keeper.Stopping() == "" {
		s.train()
		if _, err := keeper.Step(ctx, s.step, s.addTo); err != nil {
			return err
		}
	}
	if err := errors.Join(keeper.Close(), ctx.Err()); err != nil { // waits for the last save
		return err
	}
	fmt.Fprintf(out, "step %d, loss %.6f, digest %x\n", s.step, s.loss, s.digest())
	return nil
}

func (s *state) digest() []byte {
	hash := sha256.New()
	for i := range s.weights {
		hash.Write(ckpt.BytesOf(s.weights[i]))
		hash.Write(ckpt.BytesOf(s.momentum[i]))
	}
	return hash.Sum(nil)[:8]
}
