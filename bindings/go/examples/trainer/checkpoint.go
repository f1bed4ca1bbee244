package main

import (
	"context"
	"errors"
	"fmt"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var layers = []string{"first", "second"}

// load fills the state from a checkpoint.
func (s *state) load(ctx context.Context, reader *ckpt.Reader) error {
	tree, err := reader.Tree("")
	if err != nil {
		return err
	}
	defer tree.Close()
	value, err := tree.Value()
	if err != nil {
		return err
	}
	if err := s.restore(value); err != nil {
		return err
	}
	load, err := ckpt.NewLoad(reader, nil)
	if err != nil {
		return err
	}
	defer load.Close()
	for i, layer := range layers {
		weights := ckpt.AddSlice(load, "model/"+layer, ckpt.Shape(shapes[i]...), s.weights[i])
		momentum := ckpt.AddSlice(load, "optimizer/momentum/"+layer, ckpt.Shape(shapes[i]...), s.momentum[i])
		if err := errors.Join(weights, momentum); err != nil {
			return err
		}
	}
	return load.Run(ctx)
}

// restore takes over the values that are not tensors.
func (s *state) restore(value any) error {
	root, isDict := value.(*ckpt.Dict)
	if !isDict {
		return fmt.Errorf("the checkpoint's tree is a %T", value)
	}
	step, hasStep := root.Get("step").(int64)
	random, hasRandom := root.Get("random").(int64)
	loss, hasLoss := root.Get("loss").(float64)
	if !hasStep || !hasRandom || !hasLoss {
		return errors.New("the checkpoint is from another trainer")
	}
	s.step, s.random, s.loss = step, uint64(random), loss
	return nil
}

// addTo adds the state to a save.
func (s *state) addTo(save *ckpt.Save) error {
	model, momentum := new(ckpt.Dict), new(ckpt.Dict)
	for i, layer := range layers {
		model.Set(layer, ckpt.Leaf(ckpt.Shape(shapes[i]...), s.weights[i]))
		momentum.Set(layer, ckpt.Leaf(ckpt.Shape(shapes[i]...), s.momentum[i]))
	}
	return save.AddState("", new(ckpt.Dict).
		Set("model", model).
		Set("optimizer", new(ckpt.Dict).Set("momentum", momentum)).
		Set("step", s.step).
		Set("random", int64(s.random)). // the same 64 bits
		Set("loss", s.loss))
}
