package conformance

import (
	"context"
	"fmt"
	"unsafe"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner){
	"save.new": func(r *runner) {
		r.put(0, try(ckpt.NewSave(get[*ckpt.Session](r, 1), r.words[2], r.int(3), r.options)))
	},
	"save.tensor":  func(r *runner) { r.addTensor(r.save()) },
	"save.tensors": func(r *runner) { r.addTensors(r.save()) },
	"save.object": func(r *runner) {
		scope := parseName[ckpt.ObjectScope](r, r.words[3])
		must(r.save().AddObject(r.words[1], r.words[2], scope, get[*memory](r, 4).data))
	},
	"save.alias":          runSaveAlias,
	"save.attr":           runSaveAttr,
	"save.tree":           func(r *runner) { must(r.save().AddTree(r.optionalName(), get[*ckpt.Tree](r, 1))) },
	"save.id":             func(r *runner) { r.expectWords(1, r.save().ID()) },
	"save.run":            func(r *runner) { must(r.save().Run(context.Background())) },
	"save.start":          func(r *runner) { r.put(1, try(r.save().Start(context.Background()))) },
	"save.start_in_place": func(r *runner) { r.put(1, try(r.save().StartInPlace(context.Background()))) },
	"save.give_up":        func(r *runner) { must(r.save().GiveUp(r.words[1])) },
	"save.report":         func(r *runner) { r.put(1, try(r.save().Report())) },
	"load.new":            func(r *runner) { r.put(0, try(ckpt.NewLoad(get[*ckpt.Reader](r, 1), r.options))) },
	"load.tensor":         func(r *runner) { r.addTensor(r.load()) },
	"load.tensors":        func(r *runner) { r.addTensors(r.load()) },
	"load.object":         func(r *runner) { must(r.load().AddObject(r.words[1], r.rank(2), get[*memory](r, 3).data)) },
	"load.run":            func(r *runner) { must(r.load().Run(context.Background())) },
	"load.start":          func(r *runner) { r.put(1, try(r.load().Start(context.Background()))) },
	"load.report":         func(r *runner) { r.put(1, try(r.load().Report())) },
})

func (r *runner) save() *ckpt.Save { return get[*ckpt.Save](r, 0) }
func (r *runner) load() *ckpt.Load { return get[*ckpt.Load](r, 0) }

// tensorAdder is what a Save and a Load have in common.
type tensorAdder interface {
	ckpt.Adder
	AddMemory(string, ckpt.Tensor, unsafe.Pointer, uint64, ckpt.DeviceType, int32) error
}

// addTensor runs save.tensor and load.tensor.
func (r *runner) addTensor(to tensorAdder) {
	name, tensor, data := r.words[1], r.tensor(2), r.bytes(4)
	if device, given := r.list("device"); given {
		kind, memory := ckpt.DeviceType(device[0]), unsafe.Pointer(unsafe.SliceData(data))
		must(to.AddMemory(name, tensor, memory, uint64(len(data)), kind, int32(device[1])))
	} else {
		must(to.AddTensor(name, tensor, data))
	}
}

// addTensors runs save.tensors and load.tensors.
func (r *runner) addTensors(to ckpt.Adder) {
	tensor, data := r.tensor(3), get[*memory](r, 5).data
	for i := range r.unsigned(1) {
		must(to.AddTensor(fmt.Sprint(r.words[2], i), tensor, data))
	}
}

func runSaveAlias(r *runner) {
	shape, isView := r.list("shape")
	if !isView {
		must(r.save().AddAlias(r.words[1], r.words[2]))
		return
	}
	view := ckpt.Shape(shape...)
	if strides, given := r.list("strides"); given {
		view = view.Strided(strides...)
	}
	if offset, given := r.list("offset"); given {
		view.FlatOffset = offset[0]
	}
	must(r.save().AddAliasView(r.words[1], r.words[2], view))
}

func runSaveAttr(r *runner) {
	if tensor, given := r.value("tensor"); given {
		must(r.save().SetTensorAttr(tensor, r.words[1], r.words[2]))
	} else {
		must(r.save().SetAttr(r.words[1], r.words[2]))
	}
}
