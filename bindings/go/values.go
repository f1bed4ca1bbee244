package ckpt

import (
	"iter"
	"slices"
	"strconv"
)

// Go types for the nodes of a tree, besides nil, bool, int64, *big.Int (what does not fit int64), float64, string and
// []byte.
type (
	// List is a sequence.
	List []any
	// Tuple is a sequence of fixed size in the languages that have one.
	Tuple []any
	// Set keeps its order.
	Set []any
	// TensorRef is the name of a tensor in the checkpoint; EncodeTree takes "" for its path in the tree.
	TensorRef struct{ Name string }
	// Record was an object of class Class ("torch.Size"); its items have text keys.
	Record struct {
		Class string
		Items *Dict
	}
)

// PerRankValue is what is each rank's own in a tree: a random state, a position in the data. Rank `rank` saves it so.
func PerRankValue(rank uint32, value any) Record {
	return Record{PerRankClass, new(Dict).Set("rank"+strconv.FormatUint(uint64(rank), 10), value)}
}

// Own returns the value of one rank, of a [PerRankValue] in a tree of [Reader.TreeOfRank]. Errors: ErrMismatch for
// another record, or with the values of several ranks.
func (r Record) Own() (any, error) {
	if r.Class != PerRankClass || r.Items == nil || r.Items.Len() != 1 {
		return nil, &Error{
			Status:  ErrMismatch,
			Message: "expected a " + PerRankClass + " with the value of one rank, found a record of class " + r.Class,
			Details: map[string]string{"expected": PerRankClass, "found": r.Class},
		}
	}
	return r.Items.values[r.Items.keys[0]], nil
}

// TensorData is a tensor as a leaf of the state that [Save.AddState] saves: made by [Leaf], or by hand from bytes.
type TensorData struct {
	Tensor Tensor
	Data   []byte

	element DType // of Leaf's slice
}

// Leaf makes a slice a leaf of the state that [Save.AddState] saves. The dtype follows as in AddSlice, and AddState
// refuses what AddSlice refuses.
func Leaf[T Element](tensor Tensor, data []T) TensorData {
	element := DTypeOf[T]()
	if tensor.DType == 0 {
		tensor.DType = element
	}
	return TensorData{tensor, BytesOf(data), element}
}

// Key is a key of a Dict: text or an integer; 0 and "0" are two keys.
type Key struct {
	text  string
	num   int64
	isInt bool
}

// TextKey makes a text key.
func TextKey(text string) Key { return Key{text: text} }

// IntKey makes an integer key.
func IntKey(num int64) Key { return Key{num: num, isInt: true} }

// Text returns the text of a text key, and whether it is one.
func (k Key) Text() (string, bool) { return k.text, !k.isInt }

// Int returns the number of an integer key, and whether it is one.
func (k Key) Int() (int64, bool) { return k.num, k.isInt }

// String returns the text in quotes, or the number.
func (k Key) String() string {
	if k.isInt {
		return strconv.FormatInt(k.num, 10)
	}
	return strconv.Quote(k.text)
}

// Dict is a map that keeps the order in which its keys were first set. The zero Dict is empty and ready to use.
type Dict struct {
	keys   []Key
	values map[Key]any
}

// Put sets the value of a key and returns d.
func (d *Dict) Put(key Key, value any) *Dict {
	if d.values == nil {
		d.values = map[Key]any{}
	}
	if _, known := d.values[key]; !known {
		d.keys = append(d.keys, key)
	}
	d.values[key] = value
	return d
}

// Set sets the value of a text key and returns d, so that calls can be chained.
func (d *Dict) Set(key string, value any) *Dict { return d.Put(TextKey(key), value) }

// SetInt sets the value of an integer key and returns d.
func (d *Dict) SetInt(key int64, value any) *Dict { return d.Put(IntKey(key), value) }

// Lookup returns the value of a key, and whether there is one.
func (d *Dict) Lookup(key Key) (any, bool) {
	value, known := d.values[key]
	return value, known
}

// Get returns the value of a text key; nil if there is none.
func (d *Dict) Get(key string) any { return d.values[TextKey(key)] }

// GetInt returns the value of an integer key; nil if there is none.
func (d *Dict) GetInt(key int64) any { return d.values[IntKey(key)] }

// Delete removes a key.
func (d *Dict) Delete(key Key) {
	if _, known := d.values[key]; known {
		delete(d.values, key)
		d.keys = slices.DeleteFunc(d.keys, func(k Key) bool { return k == key })
	}
}

// Len returns the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// All yields the keys and values in order.
func (d *Dict) All() iter.Seq2[Key, any] {
	return func(yield func(Key, any) bool) {
		for _, key := range d.keys {
			if !yield(key, d.values[key]) {
				return
			}
		}
	}
}
