package conformance

import (
	"context"
	"fmt"
	"unsafe"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(
	command{"save.new", 4, takesOptions, runSaveNew},
	command{"save.tensor", 5, takesPairs, runSaveTensor},
	command{"save.tensors", 6, 0, runSaveTensors},
	command{"save.object", 5, 0, runSaveObject},
	command{"save.alias", 3, takesPairs, runSaveAlias},
	command{"save.attr", 3, takesPairs, runSaveAttr},
	command{"save.tree", 2, takesPairs, runSaveTree},
	command{"save.id", 2, 0, runSaveID},
	command{"save.run", 1, 0, runSaveRun},
	command{"save.start", 2, 0, runSaveStart},
	command{"save.start_in_place", 2, 0, runSaveStartInPlace},
)

func runSaveNew(r *runner, l *line) error {
	session, step := get[*ckpt.Session](r, l.words[1]), r.parseInt(l.words[3])
	made, err := ckpt.NewSave(session, l.words[2], step, r.optionsOf(l))
	return keep(r, l.words[0], made, err)
}

// tensorAdder is what a Save and a Load have in common.
type tensorAdder interface {
	ckpt.Adder
	AddMemory(string, ckpt.Tensor, unsafe.Pointer, uint64, ckpt.DeviceType, int32) error
}

// addTensor is save.tensor and load.tensor.
func (r *runner) addTensor(l *line, to tensorAdder, convert bool) error {
	tensor := r.parseRegion(l, l.words[2], l.words[3])
	tensor.Convert = convert
	var data []byte
	if l.words[4] != "" {
		data = get[*memory](r, l.words[4]).data
	}
	if device, id, given := r.parseDevice(l); given {
		return to.AddMemory(l.words[1], tensor, unsafe.Pointer(unsafe.SliceData(data)), uint64(len(data)), device, id)
	}
	return to.AddTensor(l.words[1], tensor, data)
}

// addTensors is save.tensors and load.tensors.
func (r *runner) addTensors(l *line, to ckpt.Adder) error {
	tensor, data := r.parseRegion(l, l.words[3], l.words[4]), get[*memory](r, l.words[5]).data
	for i := range r.parseUnsigned(l.words[1]) {
		if err := to.AddTensor(fmt.Sprint(l.words[2], i), tensor, data); err != nil {
			return err
		}
	}
	return nil
}

func runSaveTensor(r *runner, l *line) error {
	return r.addTensor(l, get[*ckpt.Save](r, l.words[0]), false)
}

func runSaveTensors(r *runner, l *line) error { return r.addTensors(l, get[*ckpt.Save](r, l.words[0])) }

func runSaveObject(r *runner, l *line) error {
	scope, data := parseName[ckpt.ObjectScope](r, l.words[3]), get[*memory](r, l.words[4]).data
	return get[*ckpt.Save](r, l.words[0]).AddObject(l.words[1], l.words[2], scope, data)
}

func runSaveAlias(r *runner, l *line) error {
	save := get[*ckpt.Save](r, l.words[0])
	text, isView := l.value("shape")
	if !isView {
		return save.AddAlias(l.words[1], l.words[2])
	}
	view := ckpt.Shape(r.parseShape(text)...)
	if strides, given := l.value("strides"); given {
		view = view.Strided(r.parseShape(strides)...)
	}
	if offset, given := l.value("offset"); given {
		view.FlatOffset = r.parseInt(offset)
	}
	return save.AddAliasView(l.words[1], l.words[2], view)
}

func runSaveAttr(r *runner, l *line) error {
	save := get[*ckpt.Save](r, l.words[0])
	if tensor, given := l.value("tensor"); given {
		return save.SetTensorAttr(tensor, l.words[1], l.words[2])
	}
	return save.SetAttr(l.words[1], l.words[2])
}

func runSaveTree(r *runner, l *line) error {
	name, given := l.value("name")
	if given && name == "" {
		return refused("an empty name is the main tree's here")
	}
	return get[*ckpt.Save](r, l.words[0]).AddTree(name, get[*ckpt.Tree](r, l.words[1]))
}

func runSaveID(r *runner, l *line) error {
	if found := get[*ckpt.Save](r, l.words[0]).ID(); found != l.words[1] {
		r.fail("expected %s, found %s", l.words[1], found)
	}
	return nil
}

func runSaveRun(r *runner, l *line) error {
	return get[*ckpt.Save](r, l.words[0]).Run(context.Background())
}

func runSaveStart(r *runner, l *line) error {
	made, err := get[*ckpt.Save](r, l.words[0]).Start(context.Background())
	return keep(r, l.words[1], made, err)
}

func runSaveStartInPlace(r *runner, l *line) error {
	made, err := get[*ckpt.Save](r, l.words[0]).StartInPlace(context.Background())
	return keep(r, l.words[1], made, err)
}
