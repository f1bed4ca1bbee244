package ckpt_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// need returns the value of a call that must succeed: need(t)(f()).
func need[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// is checks that an error matches all of these.
func is(t testing.TB, err error, wanted ...error) {
	t.Helper()
	for _, target := range wanted {
		if !errors.Is(err, target) {
			t.Errorf("expected %v, found %v", target, err)
		}
	}
}

func openStore(t testing.TB) *ckpt.Store {
	t.Helper()
	store := need[*ckpt.Store](t)(ckpt.OpenStore(t.TempDir(), nil))
	t.Cleanup(func() { store.Close() })
	return store
}

func openSession(t testing.TB, store *ckpt.Store) *ckpt.Session {
	t.Helper()
	session := need[*ckpt.Session](t)(ckpt.OpenSession(context.Background(), store, 0, 1, "", nil))
	t.Cleanup(func() { session.Close() })
	return session
}

func newSave(t testing.TB, session *ckpt.Session, label string, options ckpt.Options) *ckpt.Save {
	t.Helper()
	save := need[*ckpt.Save](t)(ckpt.NewSave(session, label, -1, options))
	t.Cleanup(func() { save.Close() })
	return save
}

func openReader(t testing.TB, store *ckpt.Store) *ckpt.Reader {
	t.Helper()
	reader := need[*ckpt.Reader](t)(ckpt.OpenReader(store, "latest", nil))
	t.Cleanup(func() { reader.Close() })
	return reader
}

func newLoad(t testing.TB, reader *ckpt.Reader) *ckpt.Load {
	t.Helper()
	load := need[*ckpt.Load](t)(ckpt.NewLoad(reader, nil))
	t.Cleanup(func() { load.Close() })
	return load
}

// saved returns a reader of a checkpoint that `fill` fills.
func saved(t testing.TB, options ckpt.Options, fill func(save *ckpt.Save)) *ckpt.Reader {
	t.Helper()
	store := openStore(t)
	save := newSave(t, openSession(t, store), "a", options)
	fill(save)
	ok(t, save.Run(context.Background()))
	return openReader(t, store)
}

// eventually collects garbage until `done` returns true.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}

func ramp[T int32 | float32](count int) []T {
	made := make([]T, count)
	for i := range made {
		made[i] = T(i)
	}
	return made
}
