package conformance

import (
	"context"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(
	command{"load.new", 2, takesOptions, runLoadNew},
	command{"load.tensor", 5, takesPairs, runLoadTensor},
	command{"load.tensors", 6, 0, runLoadTensors},
	command{"load.object", 4, 0, runLoadObject},
	command{"load.run", 1, 0, runLoadRun},
	command{"load.start", 2, 0, runLoadStart},
	command{"load.report", 2, 0, runLoadReport},
)

func runLoadNew(r *runner, l *line) error {
	made, err := ckpt.NewLoad(get[*ckpt.Reader](r, l.words[1]), r.optionsOf(l))
	return keep(r, l.words[0], made, err)
}

func runLoadTensor(r *runner, l *line) error {
	text, given := l.value("convert")
	return r.addTensor(l, get[*ckpt.Load](r, l.words[0]), given && r.parseInt(text) != 0)
}

func runLoadTensors(r *runner, l *line) error { return r.addTensors(l, get[*ckpt.Load](r, l.words[0])) }

func runLoadObject(r *runner, l *line) error {
	rank, data := uint32(r.parseUnsigned(l.words[2])), get[*memory](r, l.words[3]).data
	return get[*ckpt.Load](r, l.words[0]).AddObject(l.words[1], rank, data)
}

func runLoadRun(r *runner, l *line) error {
	return get[*ckpt.Load](r, l.words[0]).Run(context.Background())
}

func runLoadStart(r *runner, l *line) error {
	made, err := get[*ckpt.Load](r, l.words[0]).Start(context.Background())
	return keep(r, l.words[1], made, err)
}

func runLoadReport(r *runner, l *line) error {
	made, err := get[*ckpt.Load](r, l.words[0]).Report()
	return keep(r, l.words[1], made, err)
}
