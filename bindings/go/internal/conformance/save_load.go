package conformance

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner) any{
	"store.open":   func(r *runner) any { return r.put(0, try(ckpt.OpenStore(r.words[1], r.options))) },
	"store.states": runStoreStates,
	"store.runs":   runStoreRuns,
	"store.find":   func(r *runner) any { return checkpoint(try(r.store().Find(r.words[1], r.options))) },
	"store.remove": func(r *runner) any { return done(r.store().Remove(r.words[1])) },
	"store.keep":   func(r *runner) any { return done(r.store().Keep(r.words[1], r.words[2] == "1")) },
	"store.name":   func(r *runner) any { return done(r.store().Name(r.words[1], r.words[2], r.words[3])) },
	"store.prune":  func(r *runner) any { return r.put(1, try(r.store().Prune(r.context(), r.options))) },
	"store.repair": func(r *runner) any { return r.put(2, try(r.store().Repair(r.context(), r.words[1], r.options))) },
	"store.import": func(r *runner) any {
		return checkpoint(try(r.store().Import(r.context(), r.words[1], r.words[2], r.int(3), r.options)))
	},
	"session.open": func(r *runner) any {
		store, text := get[*ckpt.Store](r, 1), r.keys["string"]
		return r.put(0, try(ckpt.OpenSession(r.context(), store, r.rank(2), r.rank(3), text, r.options)))
	},
	"session.mirror": func(r *runner) any {
		return r.put(1, try(get[*ckpt.Session](r, 0).Mirror(context.Background())))
	},
	"session.string": func(r *runner) any { return words{get[*ckpt.Session](r, 0).String()} },

	"save.new": func(r *runner) any {
		return r.put(0, try(ckpt.NewSave(get[*ckpt.Session](r, 1), r.words[2], r.int(3), r.options)))
	},
	"save.tensor":  func(r *runner) any { return r.addTensor(r.save()) },
	"save.tensors": func(r *runner) any { return r.addTensors(r.save()) },
	"save.object": func(r *runner) any {
		scope := parseName[ckpt.ObjectScope](r, r.words[3])
		return done(r.save().AddObject(r.words[1], r.words[2], scope, get[*memory](r, 4).data))
	},
	"save.alias":          runSaveAlias,
	"save.attr":           runSaveAttr,
	"save.tree":           func(r *runner) any { return done(r.save().AddTree(r.optionalName(), get[*ckpt.Tree](r, 1))) },
	"save.id":             func(r *runner) any { return words{r.save().ID()} },
	"save.run":            func(r *runner) any { return done(r.save().Run(context.Background())) },
	"save.start":          func(r *runner) any { return r.put(1, try(r.save().Start(context.Background()))) },
	"save.start_in_place": func(r *runner) any { return r.put(1, try(r.save().StartInPlace(context.Background()))) },
	"save.give_up":        func(r *runner) any { return done(r.save().GiveUp(r.words[1])) },
	"save.report":         func(r *runner) any { return r.put(1, try(r.save().Report())) },
	"load.new":            func(r *runner) any { return r.put(0, try(ckpt.NewLoad(get[*ckpt.Reader](r, 1), r.options))) },
	"load.tensor":         func(r *runner) any { return r.addTensor(r.load()) },
	"load.tensors":        func(r *runner) any { return r.addTensors(r.load()) },
	"load.object": func(r *runner) any {
		return done(r.load().AddObject(r.words[1], r.rank(2), get[*memory](r, 3).data))
	},
	"load.run":    func(r *runner) any { return done(r.load().Run(context.Background())) },
	"load.start":  func(r *runner) any { return r.put(1, try(r.load().Start(context.Background()))) },
	"load.report": func(r *runner) any { return r.put(1, try(r.load().Report())) },

	"job.new":  func(r *runner) any { return r.put(0, newCallContext()) },
	"job.wait": runJobWait,
	"job.state": func(r *runner) any {
		return words{r.job().State().String()}
	},
	"job.cancel": func(r *runner) any {
		get[canceller](r, 0).Cancel()
		return nil
	},
	"job.stats": func(r *runner) any {
		stats := try(r.job().Stats())
		return record(stats, fields{"IOEngine": uint32(stats.IOEngine)})
	},
	"job.report": func(r *runner) any { return r.put(1, try(r.job().Report())) },
	"report":     func(r *runner) any { return words{fmt.Sprint(get[ckpt.Report](r, 0).Len())} },
	"report.at": func(r *runner) any {
		report, index := get[ckpt.Report](r, 0), r.unsigned(1)
		if index >= uint64(report.Len()) {
			must(missing("there is no such finding")) // At panics, as a slice
		}
		return record(report.At(int(index)), nil)
	},
})

func (r *runner) store() *ckpt.Store { return get[*ckpt.Store](r, 0) }
func (r *runner) save() *ckpt.Save   { return get[*ckpt.Save](r, 0) }
func (r *runner) load() *ckpt.Load   { return get[*ckpt.Load](r, 0) }
func (r *runner) job() *ckpt.Job     { return get[*ckpt.Job](r, 0) }

// done is the reply of a call that returns only an error.
func done(err error) any {
	must(err)
	return nil
}

func checkpoint(info ckpt.CheckpointInfo) fields {
	return record(info, fields{"Flags": uint32(info.Flags)})
}

func runStoreStates(r *runner) any {
	found := words{}
	for _, info := range try(ckpt.Collect(r.store().Checkpoints())) {
		found = append(found, info.ID+":"+info.State.String())
	}
	return found
}

func runStoreRuns(r *runner) any {
	found := words{}
	for _, run := range try(r.store().Runs()) {
		found = append(found, fmt.Sprintf("%s:%d:%d:%d:%s:%s", run.Name, run.Token, run.CheckpointCount, run.NewestStep,
			run.NewestID, run.NewestLabel))
	}
	return found
}

// tensorAdder is what a Save and a Load have in common.
type tensorAdder interface {
	ckpt.Adder
	AddMemory(string, ckpt.Tensor, unsafe.Pointer, uint64, ckpt.DeviceType, int32) error
}

// addTensor runs save.tensor and load.tensor.
func (r *runner) addTensor(to tensorAdder) any {
	name, tensor, data := r.words[1], r.tensor(2), r.bytes(4)
	if device, given := r.list("device"); given {
		kind, memory := ckpt.DeviceType(device[0]), unsafe.Pointer(unsafe.SliceData(data))
		return done(to.AddMemory(name, tensor, memory, uint64(len(data)), kind, int32(device[1])))
	}
	return done(to.AddTensor(name, tensor, data))
}

// addTensors runs save.tensors and load.tensors.
func (r *runner) addTensors(to ckpt.Adder) any {
	tensor, data := r.tensor(3), get[*memory](r, 5).data
	for i := range r.unsigned(1) {
		must(to.AddTensor(fmt.Sprint(r.words[2], i), tensor, data))
	}
	return nil
}

func runSaveAlias(r *runner) any {
	shape, isView := r.list("shape")
	if !isView {
		return done(r.save().AddAlias(r.words[1], r.words[2]))
	}
	view := ckpt.Shape(shape...)
	if strides, given := r.list("strides"); given {
		view = view.Strided(strides...)
	}
	if offset, given := r.list("offset"); given {
		view.FlatOffset = offset[0]
	}
	return done(r.save().AddAliasView(r.words[1], r.words[2], view))
}

func runSaveAttr(r *runner) any {
	if tensor, given := r.keys["tensor"]; given {
		return done(r.save().SetTensorAttr(tensor, r.words[1], r.words[2]))
	}
	return done(r.save().SetAttr(r.words[1], r.words[2]))
}

func runJobWait(r *runner) any {
	ctx, state := context.Background(), parseName[ckpt.JobState](r, r.words[1])
	if timeout, given := r.list("timeout_ms"); given && timeout[0] >= 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(timeout[0])*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	return done(r.job().Wait(ctx, state))
}
