package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner){
	"store.open":   func(r *runner) { r.put(0, try(ckpt.OpenStore(r.words[1], r.options))) },
	"store.list":   runStoreList,
	"store.states": runStoreStates,
	"store.runs":   runStoreRuns,
	"store.find":   func(r *runner) { r.expectCheckpoint(try(r.store().Find(r.words[1], r.options))) },
	"store.remove": func(r *runner) { must(r.store().Remove(r.words[1])) },
	"store.prune":  func(r *runner) { r.put(1, try(r.store().Prune(r.context(), r.options))) },
	"store.repair": func(r *runner) { r.put(2, try(r.store().Repair(r.context(), r.words[1], r.options))) },
	"store.import": func(r *runner) {
		r.expectCheckpoint(try(r.store().Import(r.context(), r.words[1], r.words[2], r.int(3), r.options)))
	},
	"session.open":   runSessionOpen,
	"session.mirror": func(r *runner) { r.put(1, try(get[*ckpt.Session](r, 0).Mirror(context.Background()))) },
	"session.string": runSessionString,
})

func (r *runner) store() *ckpt.Store { return get[*ckpt.Store](r, 0) }

func runStoreList(r *runner) {
	var found []string
	for _, info := range try(ckpt.Collect(r.store().Checkpoints())) {
		if info.State == ckpt.CheckpointCommitted {
			found = append(found, info.ID)
		}
	}
	r.expectWords(1, found...)
}

func runStoreStates(r *runner) {
	var found []string
	for _, info := range try(ckpt.Collect(r.store().Checkpoints())) {
		found = append(found, info.ID+":"+info.State.String())
	}
	r.expectWords(1, found...)
}

func runStoreRuns(r *runner) {
	var found []string
	for _, run := range try(r.store().Runs()) {
		found = append(found, fmt.Sprintf("%s:%d:%d:%d:%s:%s", run.Name, run.Token, run.CheckpointCount, run.NewestStep,
			run.NewestID, run.NewestLabel))
	}
	r.expectWords(1, found...)
}

func runSessionOpen(r *runner) {
	text := ""
	if other, given := r.value("string"); given {
		text = getNamed[*ckpt.Session](r, other).String()
	}
	if file, given := r.value("file"); given {
		text = r.waitForFile(file)
	}
	r.put(0, try(ckpt.OpenSession(r.context(), get[*ckpt.Store](r, 1), r.rank(2), r.rank(3), text, r.options)))
}

// waitForFile reads a file once it is there; it appears complete.
func (r *runner) waitForFile(file string) string {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(file)
		if err == nil {
			return string(text)
		}
		if !errors.Is(err, os.ErrNotExist) {
			r.check(err)
		}
	}
	r.fail("expected a file %s within 60 s, found none", file)
	return ""
}

func runSessionString(r *runner) {
	aside := r.words[1] + ".aside"
	r.check(os.WriteFile(aside, []byte(get[*ckpt.Session](r, 0).String()), 0o644))
	r.check(os.Rename(aside, r.words[1]))
}
