package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"iter"
	"math/big"
	"unsafe"
)

// NodeKind says what a node of a tree is.
type NodeKind int32

// KeyKind says what kind of key a node has.
type KeyKind int32

// Constants of trees.
const (
	NodeEnd       = ^uint64(0)             // no such node
	TreeMaxDepth  = C.CKPT_TREE_MAX_DEPTH  // the most containers inside each other
	TreeObject    = C.CKPT_TREE_OBJECT     // the object that holds a checkpoint's main tree
	TreeMediaType = C.CKPT_TREE_MEDIA_TYPE // of that object
	PerRankClass  = C.CKPT_PER_RANK_CLASS  // of a record that holds what is each rank's own
)

// Tree is nested trainer state: dicts, lists, numbers and text, with the names of tensors as leaves. [EncodeTree] makes
// a tree from Go values and [Tree.Value] makes Go values from a tree; the methods below build and read it node by node.
//
// Build a tree in document order, with one root value. In a dict or record, add a key before each value. Errors:
// ErrInvalid (a key out of place, missing or given twice; text that is not UTF-8; a change to the tree of a [File]).
type Tree struct {
	h     owned[*C.ckpt_tree]
	fixed bool
}

// newTree takes over what a call made, or returns its error.
func newTree(out *C.ckpt_tree, err error) (*Tree, error) {
	if err != nil {
		return nil, err
	}
	made := &Tree{}
	own(made, &made.h, newHandle("tree", out, func(p *C.ckpt_tree) { C.ckpt_tree_free(p) }))
	return made, nil
}

// NewTree makes an empty tree.
func NewTree() (*Tree, error) {
	if err := checkLibrary(); err != nil {
		return nil, err
	}
	var out *C.ckpt_tree
	var cerr *C.ckpt_error
	status := C.ckpt_tree_new(&out, &cerr)
	return newTree(out, fail(status, cerr))
}

// ParseTree parses JSON as schemas/STATE_TREE.md defines it. Errors: ErrFormat, ErrRevision (a kind of node that this
// library does not know).
func ParseTree(json []byte) (*Tree, error) {
	if err := checkLibrary(); err != nil {
		return nil, err
	}
	var out *C.ckpt_tree
	var cerr *C.ckpt_error
	text, size := counted(json)
	status := C.ckpt_tree_parse(&out, text, size, &cerr)
	return newTree(out, fail(status, cerr))
}

// Close releases the tree and always returns nil.
func (t *Tree) Close() error {
	t.h.end()
	return nil
}

// counted returns text that may hold NULs as C takes it; never NULL, which C would refuse.
func counted[T string | []byte](text T) (*C.char, C.uint64_t) {
	if len(text) == 0 {
		return &zeroEnded("")[0], 0
	}
	return (*C.char)(unsafe.Pointer(unsafe.SliceData([]byte(text)))), C.uint64_t(len(text))
}

// build runs one call that changes the tree.
func (t *Tree) build(call func(tree *C.ckpt_tree, cerr **C.ckpt_error) C.ckpt_status) error {
	tree, err := t.h.enterAlone()
	if err != nil {
		return err
	}
	defer t.h.leaveAlone()
	if t.fixed {
		return invalid("", "the tree of a file cannot be changed")
	}
	var cerr *C.ckpt_error
	status := call(tree, &cerr)
	return fail(status, cerr)
}

// Key sets the text key of the next value.
func (t *Tree) Key(key string) error {
	return t.build(func(tree *C.ckpt_tree, cerr **C.ckpt_error) C.ckpt_status {
		text, size := counted(key)
		return C.ckpt_tree_key(tree, text, size, cerr)
	})
}

// KeyInt sets the integer key of the next value.
func (t *Tree) KeyInt(key int64) error {
	return t.build(func(tree *C.ckpt_tree, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_tree_key_int(tree, C.int64_t(key), cerr)
	})
}

// AddNull adds a null, Go's nil.
func (t *Tree) AddNull() error {
	return t.build(func(tree *C.ckpt_tree, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_tree_add_null(tree, cerr)
	})
}

// AddBool adds a bool.
func (t *Tree) AddBool(value bool) error {
	return t.build(func(tree *C.ckpt_tree, cerr **C.ckpt_error) C.ckpt_status {
		number := C.int32_t(0)
		if value {
			number = 1
		}
		return C.ckpt_tree_add_bool(tree, number, cerr)
	})
}

// AddInt adds an integer.
func (t *Tree) AddInt(value int64) error {
	return t.build(func(tree *C.ckpt_tree, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_tree_add_int(tree, C.int64_t(value), cerr)
	})
}

// AddBigInt adds an integer of any size; one that fits int64 becomes a NodeInt.
func (t *Tree) AddBigInt(value *big.Int) error { return t.AddDigits(value.String()) }

// AddDigits is AddBigInt for decimal digits with an optional '-'.
func (t *Tree) AddDigits(digits string) error {
	var in arguments
	text := in.text(digits)
	if in.err != nil {
		return in.err
	}
	return t.build(func(tree *C.ckpt_tree, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_tree_add_bigint(tree, text, cerr)
	})
}

// AddFloat adds a float, also NaN and infinities; the bits of a NaN are not kept.
func (t *Tree) AddFloat(value float64) error {
	return t.build(func(tree *C.ckpt_tree, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_tree_add_float(tree, C.double(value), cerr)
	})
}

// AddText adds text, which must be UTF-8 and may hold NULs.
func (t *Tree) AddText(value string) error {
	return t.build(func(tree *C.ckpt_tree, cerr **C.ckpt_error) C.ckpt_status {
		text, size := counted(value)
		return C.ckpt_tree_add_text(tree, text, size, cerr)
	})
}

// AddBytes adds bytes.
func (t *Tree) AddBytes(value []byte) error {
	return t.build(func(tree *C.ckpt_tree, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_go_tree_add_bytes(tree, (*C.uint8_t)(unsafe.SliceData(value)), C.uint64_t(len(value)), cerr)
	})
}

// AddTensor adds a tensor and returns the name to save it under: `name`, or for "" its path in the tree. Two leaves may
// have the same name. Errors: ErrInvalid (also if the path is too long for a name).
func (t *Tree) AddTensor(name string) (string, error) {
	var in arguments
	text := in.optional(name)
	if in.err != nil {
		return "", in.err
	}
	var made string
	err := t.build(func(tree *C.ckpt_tree, cerr **C.ckpt_error) C.ckpt_status {
		var path *C.char
		status := C.ckpt_tree_add_tensor(tree, text, &path, cerr)
		if status == C.CKPT_OK {
			made = C.GoString(path) // borrowed until the next call on the tree
		}
		return status
	})
	return made, err
}

// Begin opens a list, tuple, set or dict.
func (t *Tree) Begin(kind NodeKind) error { return t.begin(kind, nil) }

// BeginRecord opens a record: an object of class `class` ("torch.Size") as a dict of text keys.
func (t *Tree) BeginRecord(class string) error {
	var in arguments
	text := in.text(class)
	if in.err != nil {
		return in.err
	}
	return t.begin(NodeRecord, text)
}

func (t *Tree) begin(kind NodeKind, class *C.char) error {
	return t.build(func(tree *C.ckpt_tree, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_tree_begin(tree, C.int32_t(kind), class, cerr)
	})
}

// End closes the innermost open container.
func (t *Tree) End() error {
	return t.build(func(tree *C.ckpt_tree, cerr **C.ckpt_error) C.ckpt_status { return C.ckpt_tree_end(tree, cerr) })
}

// Node is one node of a tree. Nodes have numbers in document order; the root is 0.
type Node struct {
	Kind        NodeKind
	KeyKind     KeyKind
	Key         string // KeyText
	KeyInt      int64  // KeyInt
	Bool        bool
	Int         int64
	Float       float64
	Text        string // NodeText; a NodeBigInt's digits, a NodeTensor's name, a NodeRecord's class; NodeBytes' bytes
	ChildCount  uint64
	FirstChild  uint64 // NodeEnd for none, like the next two
	NextSibling uint64
	Parent      uint64
}

// Len returns the number of nodes.
func (t *Tree) Len() (uint64, error) {
	return sharing(&t.h, func(tree *C.ckpt_tree, _ cTexts, _ **C.ckpt_error) (uint64, C.ckpt_status) {
		return uint64(C.ckpt_tree_node_count(tree)), C.CKPT_OK
	})
}

// At returns one node by its number. Errors: ErrNotFound.
func (t *Tree) At(node uint64) (Node, error) {
	return sharing(&t.h, func(tree *C.ckpt_tree, _ cTexts, cerr **C.ckpt_error) (Node, C.ckpt_status) {
		n := C.ckpt_node{struct_size: C.sizeof_ckpt_node}
		status := C.ckpt_tree_at(tree, C.uint64_t(node), &n, cerr)
		return Node{
			Kind: NodeKind(n.kind), KeyKind: KeyKind(n.key_kind), Key: goText(n.key, n.key_size), KeyInt: int64(n.key_int),
			Bool: n.bool_value != 0, Int: int64(n.int_value), Float: float64(n.float_value),
			Text: goText(n.text, n.text_size), ChildCount: uint64(n.child_count), FirstChild: uint64(n.first_child),
			NextSibling: uint64(n.next_sibling), Parent: uint64(n.parent),
		}, status
	})
}

// goText copies counted text; C.GoStringN takes a length of only 32 bits.
func goText(text *C.char, size C.uint64_t) string {
	return string(unsafe.Slice((*byte)(unsafe.Pointer(text)), size))
}

// Children yields the children of a node in order.
func (t *Tree) Children(parent uint64) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		node, err := t.At(parent)
		for next := node.FirstChild; err == nil && next != NodeEnd; next = node.NextSibling {
			if node, err = t.At(next); err == nil && !yield(node, nil) {
				return
			}
		}
		if err != nil {
			yield(Node{}, err)
		}
	}
}

// Find returns the number of a child of a dict or record, by its text key. Errors: ErrNotFound.
func (t *Tree) Find(parent uint64, key string) (uint64, error) {
	var in arguments
	text := in.text(key)
	if in.err != nil {
		return NodeEnd, in.err
	}
	return t.find(func(tree *C.ckpt_tree, out *C.uint64_t, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_tree_find(tree, C.uint64_t(parent), text, out, cerr)
	})
}

// FindInt returns the number of a child of a dict by its integer key, or of a list, tuple or set by its position.
// Errors: ErrNotFound.
func (t *Tree) FindInt(parent uint64, key int64) (uint64, error) {
	return t.find(func(tree *C.ckpt_tree, out *C.uint64_t, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_tree_find_int(tree, C.uint64_t(parent), C.int64_t(key), out, cerr)
	})
}

func (t *Tree) find(call func(*C.ckpt_tree, *C.uint64_t, **C.ckpt_error) C.ckpt_status) (uint64, error) {
	tree, err := t.h.enter()
	if err != nil {
		return NodeEnd, err
	}
	defer t.h.leave()
	var out C.uint64_t
	var cerr *C.ckpt_error
	if status := call(tree, &out, &cerr); status != C.CKPT_OK {
		return NodeEnd, fail(status, cerr)
	}
	return uint64(out), nil
}

// JSON returns the tree as JSON: equal trees give equal bytes. Errors: ErrInvalid (the tree is unfinished).
func (t *Tree) JSON() ([]byte, error) {
	return sharing(&t.h, func(tree *C.ckpt_tree, _ cTexts, cerr **C.ckpt_error) ([]byte, C.ckpt_status) {
		var text *C.char
		var size C.uint64_t
		status := C.ckpt_tree_json(tree, &text, &size, cerr)
		return []byte(goText(text, size)), status
	})
}
