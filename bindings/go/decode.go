package ckpt

import "math/big"

// Value makes Go values from the tree: nil, bool, int64, *big.Int (what does not fit int64), float64, string, []byte,
// TensorRef, List, Tuple, Set, *Dict and Record. EncodeTree makes the same tree from them again.
func (t *Tree) Value() (any, error) { return t.ValueAt(0) }

// ValueAt makes Go values from one node and what is below it.
func (t *Tree) ValueAt(node uint64) (any, error) {
	from, err := t.At(node)
	if err != nil {
		return nil, err
	}
	return t.value(from)
}

func (t *Tree) value(from Node) (any, error) {
	switch from.Kind {
	case NodeNull:
		return nil, nil
	case NodeBool:
		return from.Bool, nil
	case NodeInt:
		return from.Int, nil
	case NodeBigInt:
		value, ok := new(big.Int).SetString(from.Text, 10)
		if !ok {
			return nil, &Error{Status: ErrFormat, Message: "expected an integer, found " + from.Text}
		}
		return value, nil
	case NodeFloat:
		return from.Float, nil
	case NodeText:
		return from.Text, nil
	case NodeBytes:
		return []byte(from.Text), nil
	case NodeTensor:
		return TensorRef{from.Text}, nil
	case NodeList:
		values, err := t.values(from)
		return List(values), err
	case NodeTuple:
		values, err := t.values(from)
		return Tuple(values), err
	case NodeSet:
		values, err := t.values(from)
		return Set(values), err
	case NodeDict:
		return t.dict(from)
	case NodeRecord:
		items, err := t.dict(from)
		return Record{from.Text, items}, err
	}
	return nil, &Error{Status: ErrRevision, Message: "this binding does not know nodes of kind " + from.Kind.String()}
}

// each calls `add` for the children in order. (Children takes the number of the parent, which a Node does not have.)
func (t *Tree) each(parent Node, add func(child Node, value any)) error {
	for next := parent.FirstChild; next != NodeEnd; {
		child, err := t.At(next)
		if err != nil {
			return err
		}
		value, err := t.value(child)
		if err != nil {
			return err
		}
		add(child, value)
		next = child.NextSibling
	}
	return nil
}

func (t *Tree) values(from Node) ([]any, error) {
	made := make([]any, 0, from.ChildCount)
	err := t.each(from, func(_ Node, value any) { made = append(made, value) })
	return made, err
}

func (t *Tree) dict(from Node) (*Dict, error) {
	made := new(Dict)
	err := t.each(from, func(child Node, value any) {
		if child.KeyKind == KeyInt {
			made.SetInt(child.KeyInt, value)
		} else {
			made.Set(child.Key, value)
		}
	})
	return made, err
}
