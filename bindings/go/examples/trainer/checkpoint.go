package main

import (
	"context"
	"errors"
	"fmt"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var layers = []string{"first", "second"}

// resume fills the state from the newest checkpoint; false if there is none.
func resume(ctx context.Context, store *ckpt.Store, s *state) (bool, error) {
	reader, err := ckpt.OpenReader(store, "latest", nil)
	if errors.Is(err, ckpt.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer reader.Close()
	tree, err := reader.Tree("")
	if err != nil {
		return false, err
	}
	defer tree.Close()
	value, err := tree.Value()
	if err != nil {
		return false, err
	}
	if err := s.restore(value); err != nil {
		return false, err
	}
	load, err := ckpt.NewLoad(reader, nil)
	if err != nil {
		return false, err
	}
	defer load.Close()
	for i, layer := range layers {
		weights := ckpt.AddSlice(load, "model/"+layer, ckpt.Shape(shapes[i]...), s.weights[i])
		momentum := ckpt.AddSlice(load, "optimizer/momentum/"+layer, ckpt.Shape(shapes[i]...), s.momentum[i])
		if err := errors.Join(weights, momentum); err != nil {
			return false, err
		}
	}
	return true, load.Run(ctx)
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

// save starts a save in the background. The tensors must not change until the job is staged.
func save(ctx context.Context, session *ckpt.Session, s *state) (*ckpt.Job, error) {
	model, momentum := new(ckpt.Dict), new(ckpt.Dict)
	for i, layer := range layers {
		model.Set(layer, ckpt.Leaf(ckpt.Shape(shapes[i]...), s.weights[i]))
		momentum.Set(layer, ckpt.Leaf(ckpt.Shape(shapes[i]...), s.momentum[i]))
	}
	root := new(ckpt.Dict).
		Set("model", model).
		Set("optimizer", new(ckpt.Dict).Set("momentum", momentum)).
		Set("step", s.step).
		Set("random", int64(s.random)). // the same 64 bits
		Set("loss", s.loss)

	// If the run was resumed from an older checkpoint, this label may exist already.
	options := ckpt.Options{"keep_last": 2, "on_existing": "replace"}
	made, err := ckpt.NewSave(session, fmt.Sprintf("step-%d", s.step), s.step, options)
	if err != nil {
		return nil, err
	}
	defer made.Close() // the job goes on
	if err := made.AddState("", root); err != nil {
		return nil, err
	}
	return made.Start(ctx)
}
