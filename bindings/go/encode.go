package ckpt

import (
	"maps"
	"math/big"
	"reflect"
	"slices"
)

// EncodeTree makes a tree from Go values: nil, bool, integers of any type, *big.Int, floats, string, []byte, TensorRef,
// List or []any, Tuple, Set, *Dict, map[string]any (its keys sorted, so that equal values give equal bytes) and Record.
// Other types are ErrInvalid.
func EncodeTree(value any) (*Tree, error) {
	return encodeTree(value, func(string, TensorData) error {
		return invalid("", "only Save.AddState takes a TensorData; use a TensorRef")
	})
}

// AddState adds nested state in one call: what [EncodeTree] takes, with tensors as [Leaf] values. It adds the tensors
// under their paths ("optimizer/state/0/exp_avg") and the rest as the tree of object `name`; "" is the main tree. After
// an error the save holds part of the state: close it. Errors: those of AddSlice and EncodeTree.
func (s *Save) AddState(name string, value any) error {
	tree, err := encodeTree(value, func(path string, leaf TensorData) error {
		tensor, err := leaf.Tensor.of(path, leaf.element)
		if err != nil {
			return err
		}
		return s.AddTensor(path, tensor, leaf.Data)
	})
	if err != nil {
		return err
	}
	defer tree.Close()
	return s.AddTree(name, tree)
}

// encoder builds a tree; it calls `leaf` for every tensor that has memory.
type encoder struct {
	tree *Tree
	leaf func(path string, data TensorData) error
}

func encodeTree(value any, leaf func(string, TensorData) error) (*Tree, error) {
	tree, err := NewTree()
	if err != nil {
		return nil, err
	}
	if err := (&encoder{tree, leaf}).add(value); err != nil {
		tree.Close()
		return nil, err
	}
	return tree, nil
}

func (e *encoder) add(value any) error {
	switch v := value.(type) {
	case nil:
		return e.tree.AddNull()
	case []byte:
		return e.tree.AddBytes(v)
	case *big.Int:
		if v == nil {
			return invalid("", "a *big.Int is nil")
		}
		return e.tree.AddBigInt(v)
	case TensorRef:
		_, err := e.tree.AddTensor(v.Name)
		return err
	case TensorData:
		path, err := e.tree.AddTensor("")
		if err != nil {
			return err
		}
		return e.leaf(path, v)
	case List:
		return e.sequence(NodeList, v)
	case []any:
		return e.sequence(NodeList, v)
	case Tuple:
		return e.sequence(NodeTuple, v)
	case Set:
		return e.sequence(NodeSet, v)
	case *Dict:
		return e.dict(func() error { return e.tree.Begin(NodeDict) }, v)
	case Record:
		return e.dict(func() error { return e.tree.BeginRecord(v.Class) }, v.Items)
	case map[string]any:
		sorted := new(Dict)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			sorted.Set(key, v[key])
		}
		return e.dict(func() error { return e.tree.Begin(NodeDict) }, sorted)
	}
	return e.scalar(value)
}

// scalar takes named types too (type Epoch int).
func (e *encoder) scalar(value any) error {
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Bool:
		return e.tree.AddBool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return e.tree.AddInt(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return e.tree.AddBigInt(new(big.Int).SetUint64(v.Uint()))
	case reflect.Float32, reflect.Float64:
		return e.tree.AddFloat(v.Float())
	case reflect.String:
		return e.tree.AddText(v.String())
	}
	return invalid("", "a tree cannot hold a %T", value)
}

func (e *encoder) sequence(kind NodeKind, values []any) error {
	if err := e.tree.Begin(kind); err != nil {
		return err
	}
	for _, value := range values {
		if err := e.add(value); err != nil {
			return err
		}
	}
	return e.tree.End()
}

func (e *encoder) dict(begin func() error, items *Dict) error {
	if items == nil {
		return invalid("", "a *Dict is nil")
	}
	if err := begin(); err != nil {
		return err
	}
	for key, value := range items.All() {
		if err := e.key(key); err != nil {
			return err
		}
		if err := e.add(value); err != nil {
			return err
		}
	}
	return e.tree.End()
}

func (e *encoder) key(key Key) error {
	if num, isInt := key.Int(); isInt {
		return e.tree.KeyInt(num)
	}
	return e.tree.Key(key.text)
}
