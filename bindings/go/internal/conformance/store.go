package conformance

import (
	"errors"
	"os"
	"time"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(
	command{"store.open", 2, takesOptions, runStoreOpen},
	command{"store.list", 1, takesMore, runStoreList},
	command{"store.states", 1, takesMore, runStoreStates},
	command{"store.find", 2, takesPairs | takesOptions, runStoreFind},
	command{"store.remove", 2, 0, runStoreRemove},
	command{"store.prune", 2, takesOptions, runStorePrune},
	command{"store.repair", 3, takesOptions, runStoreRepair},
	command{"store.import", 4, takesPairs | takesOptions, runStoreImport},
	command{"session.open", 4, takesPairs | takesOptions, runSessionOpen},
	command{"session.string", 2, 0, runSessionString},
)

// keep puts what a call made under a name, unless it failed.
func keep[T any](r *runner, name string, made T, err error) error {
	if err == nil {
		r.put(name, made)
	}
	return err
}

func runStoreOpen(r *runner, l *line) error {
	made, err := ckpt.OpenStore(l.words[1], r.optionsOf(l))
	return keep(r, l.words[0], made, err)
}

func runStoreList(r *runner, l *line) error {
	var found []string
	for info, err := range get[*ckpt.Store](r, l.words[0]).Checkpoints() {
		if err != nil {
			return err
		}
		if info.State == ckpt.CheckpointCommitted {
			found = append(found, info.ID)
		}
	}
	r.expectList(l, 1, found)
	return nil
}

func runStoreStates(r *runner, l *line) error {
	all, err := ckpt.Collect(get[*ckpt.Store](r, l.words[0]).Checkpoints())
	if err != nil {
		return err
	}
	var found []string
	for _, info := range all {
		found = append(found, info.ID+":"+info.State.String())
	}
	r.expectList(l, 1, found)
	return nil
}

func runStoreFind(r *runner, l *line) error {
	info, err := get[*ckpt.Store](r, l.words[0]).Find(l.words[1], r.optionsOf(l))
	if err == nil {
		r.expectCheckpoint(l, info)
	}
	return err
}

func runStoreRemove(r *runner, l *line) error {
	return get[*ckpt.Store](r, l.words[0]).Remove(l.words[1])
}

func runStorePrune(r *runner, l *line) error {
	made, err := get[*ckpt.Store](r, l.words[0]).Prune(r.optionsOf(l))
	return keep(r, l.words[1], made, err)
}

func runStoreRepair(r *runner, l *line) error {
	made, err := get[*ckpt.Store](r, l.words[0]).Repair(l.words[1], r.optionsOf(l))
	return keep(r, l.words[2], made, err)
}

func runStoreImport(r *runner, l *line) error {
	store := get[*ckpt.Store](r, l.words[0])
	info, err := store.Import(r.path(l.words[1]), l.words[2], r.parseInt(l.words[3]), r.optionsOf(l))
	if err == nil {
		r.expectCheckpoint(l, info)
	}
	return err
}

func runSessionOpen(r *runner, l *line) error {
	store := get[*ckpt.Store](r, l.words[1])
	rank, world := uint32(r.parseUnsigned(l.words[2])), uint32(r.parseUnsigned(l.words[3]))
	text := ""
	if other, given := l.value("string"); given {
		text = get[*ckpt.Session](r, other).String()
	}
	if file, given := l.value("file"); given {
		text = r.waitForFile(file)
	}
	made, err := ckpt.OpenSession(store, rank, world, text, r.optionsOf(l))
	return keep(r, l.words[0], made, err)
}

// waitForFile reads a file once it is there; it appears complete.
func (r *runner) waitForFile(file string) string {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(r.path(file))
		if err == nil {
			return string(text)
		}
		if !errors.Is(err, os.ErrNotExist) {
			r.must(err)
		}
	}
	r.fail("expected a file %s within 60 s, found none", file)
	return ""
}

func runSessionString(r *runner, l *line) error {
	path := r.path(l.words[1])
	r.must(os.WriteFile(path+".aside", []byte(get[*ckpt.Session](r, l.words[0]).String()), 0o644))
	r.must(os.Rename(path+".aside", path))
	return nil
}
