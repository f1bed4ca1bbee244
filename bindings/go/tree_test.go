package ckpt_test

import (
	"context"
	"math"
	"math/big"
	"reflect"
	"slices"
	"testing"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

func digits(text string) *big.Int {
	value, _ := new(big.Int).SetString(text, 10)
	return value
}

func dict() *ckpt.Dict { return new(ckpt.Dict) }

// nested is a state with a value of every kind.
func nested() *ckpt.Dict {
	return dict().
		Set("model", dict().Set("w", ckpt.TensorRef{Name: "model/w"})).
		Set("optimizer", dict().
			Set("state", dict().
				SetInt(0, dict().Set("step", int64(7)).Set("exp_avg", ckpt.TensorRef{Name: "optimizer/state/0/exp_avg"})).
				Set("0", "text, not 0").
				SetInt(math.MinInt64, nil)).
			Set("betas", ckpt.Tuple{0.9, 0.999})).
		Set("flags", ckpt.List{true, false, nil, ckpt.List{}, ckpt.Tuple{}, ckpt.Set{}, dict()}).
		Set("seen", ckpt.Set{int64(3), int64(1), "a"}).
		Set("floats", ckpt.List{1.0, math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 5e-324, 0.1}).
		Set("ints", ckpt.List{int64(math.MaxInt64), int64(math.MinInt64), digits("9223372036854775808"),
			digits("-123456789012345678901234567890")}).
		Set("text", "€ and \x00 and \"").
		Set("", []byte{0, 255}).
		Set("no bytes", []byte{}).
		Set("size", ckpt.Record{Class: "torch.Size", Items: dict().Set("items", ckpt.Tuple{int64(2), int64(3)})}).
		Set("$", "a key like others")
}

func TestNativeValuesComeBackWithOrderAndKinds(t *testing.T) {
	state := nested()
	tree := need[*ckpt.Tree](t)(ckpt.EncodeTree(state))
	defer tree.Close()
	if back := need[any](t)(tree.Value()); !reflect.DeepEqual(back, state) {
		t.Errorf("encoded %v, decoded %v", state, back)
	}
	parsed := need[*ckpt.Tree](t)(ckpt.ParseTree(need[[]byte](t)(tree.JSON())))
	defer parsed.Close()
	if back := need[any](t)(parsed.Value()); !reflect.DeepEqual(back, state) {
		t.Errorf("encoded %v, parsed %v", state, back)
	}
	reader := saved(t, nil, func(save *ckpt.Save) {
		for _, name := range []string{"model/w", "optimizer/state/0/exp_avg"} {
			ok(t, ckpt.AddSlice(save, name, ckpt.Shape(1), []float32{1}))
		}
		ok(t, save.AddTree("", tree))
	})
	loaded := need[*ckpt.Tree](t)(reader.Tree(""))
	if back := need[any](t)(loaded.Value()); !reflect.DeepEqual(back, state) {
		t.Errorf("saved %v, loaded %v", state, back)
	}
}

func TestAllGoNumbersTextsAndMapsAreTaken(t *testing.T) {
	type celsius float32
	type name string
	tree := need[*ckpt.Tree](t)(ckpt.EncodeTree(map[string]any{
		"b": []any{1, int8(2), uint16(3), uint64(math.MaxUint64), celsius(0.5), name("x"), true, big.NewInt(4)},
		"a": math.NaN(),
	}))
	defer tree.Close()
	wanted := `{"a":{"$":"float","value":"nan"},` +
		`"b":[1,2,3,{"$":"int","value":"18446744073709551615"},0.5,"x",true,4]}`
	if json := string(need[[]byte](t)(tree.JSON())); json != wanted {
		t.Errorf("the tree is %s", json)
	}
	if value := need[any](t)(tree.Value()).(*ckpt.Dict).Get("a").(float64); !math.IsNaN(value) {
		t.Errorf("NaN became %v", value)
	}
}

func TestValuesWithoutAPlaceInATreeAreRefused(t *testing.T) {
	deep := any(nil)
	for range ckpt.TreeMaxDepth + 1 {
		deep = ckpt.List{deep}
	}
	for _, wrong := range []any{
		struct{}{}, 1i, make(chan int), map[int]any{}, []int{1}, &struct{}{}, (*ckpt.Dict)(nil), (*big.Int)(nil),
		ckpt.Record{Class: "", Items: dict()}, ckpt.Record{Class: "C"}, "\xff", deep,
		ckpt.Record{Class: "C", Items: dict().SetInt(1, 2)}, ckpt.List{ckpt.Leaf(ckpt.Shape(1), []float32{1})},
		ckpt.TensorRef{Name: "a/../b"},
	} {
		tree, err := ckpt.EncodeTree(wrong)
		is(t, err, ckpt.ErrInvalid)
		if tree != nil {
			t.Errorf("%T made a tree", wrong)
		}
	}
}

func TestAddStateSavesTensorsUnderTheirPaths(t *testing.T) {
	w, moment := ramp[float32](6), []uint16{1, 2}
	reader := saved(t, nil, func(save *ckpt.Save) {
		ok(t, save.AddState("", dict().
			Set("model", dict().Set("w", ckpt.Leaf(ckpt.Shape(2, 3), w))).
			Set("optimizer", dict().Set("state", dict().SetInt(0, dict().
				Set("exp_avg", ckpt.Leaf(ckpt.Shape(2).As(ckpt.BF16), moment)))))))
		is(t, save.AddState("again", dict().Set("model", dict().Set("w", ckpt.Leaf(ckpt.Shape(2, 3), w)))),
			ckpt.ErrExists)
	})
	value := need[any](t)(need[*ckpt.Tree](t)(reader.Tree("")).Value())
	ref := value.(*ckpt.Dict).Get("optimizer").(*ckpt.Dict).Get("state").(*ckpt.Dict).GetInt(0).(*ckpt.Dict).Get("exp_avg")
	if ref != (ckpt.TensorRef{Name: "optimizer/state/0/exp_avg"}) {
		t.Fatalf("the leaf is %v", ref)
	}
	loaded, info, err := ckpt.ReadSlice[uint16](t.Context(), reader, ref.(ckpt.TensorRef).Name, nil)
	ok(t, err)
	if !slices.Equal(loaded, moment) || info.DType != ckpt.BF16 {
		t.Errorf("loaded %v of %v", loaded, info.DType)
	}
	object := need[ckpt.ObjectInfo](t)(reader.Object(ckpt.TreeObject, 0))
	if object.MediaType != ckpt.TreeMediaType {
		t.Errorf("the tree's object is %q", object.MediaType)
	}
}

func TestALeafIsRefusedWhereItsSliceWouldBe(t *testing.T) {
	save := newSave(t, openSession(t, openStore(t)), "a", nil)
	refuses := func(slice error, leaf ckpt.TensorData) {
		t.Helper()
		state := save.AddState("", dict().Set("w", leaf))
		is(t, state, ckpt.ErrInvalid)
		if slice == nil || state == nil || slice.Error() != state.Error() || detailOf(state, "tensor") != "w" {
			t.Errorf("AddSlice: %v; AddState: %v", slice, state)
		}
	}
	half, bits, small := ckpt.Shape(4).As(ckpt.BF16), ckpt.Shape(1).As(ckpt.U8), ckpt.Shape(2).As(ckpt.U4)
	refuses(ckpt.AddSlice(save, "w", half, ramp[float32](4)), ckpt.Leaf(half, ramp[float32](4)))
	refuses(ckpt.AddSlice(save, "w", bits, []bool{true}), ckpt.Leaf(bits, []bool{true}))
	refuses(ckpt.AddSlice(save, "w", small, []int8{1}), ckpt.Leaf(small, []int8{1}))
	ok(t, save.AddState("", dict().
		Set("bytes", ckpt.Leaf(half, make([]byte, 8))).
		Set("by hand", ckpt.TensorData{Tensor: half, Data: make([]byte, 8)})))
}

func TestADictKeepsOrderAndTellsIntFromText(t *testing.T) {
	d := dict().Set("b", 1).SetInt(0, 2).Set("0", 3).Set("b", 4)
	d.Delete(ckpt.IntKey(7))
	if d.Len() != 3 || d.Get("b") != 4 || d.GetInt(0) != 2 || d.Get("0") != 3 || d.Get("absent") != nil {
		t.Errorf("the dict is %v", d)
	}
	d.Delete(ckpt.TextKey("b"))
	d.Set("b", nil)
	var keys []string
	for key := range d.All() {
		keys = append(keys, key.String())
	}
	value, known := d.Lookup(ckpt.TextKey("b"))
	if !known || value != nil || !slices.Equal(keys, []string{"0", `"0"`, `"b"`}) {
		t.Errorf("the keys are %v; b is %v, %v", keys, value, known)
	}
}

func TestALargeStateIsEncodedWhole(t *testing.T) {
	state := dict()
	for i := range int64(20000) {
		state.SetInt(i, ckpt.List{i, float64(i) / 3})
	}
	tree := need[*ckpt.Tree](t)(ckpt.EncodeTree(state))
	defer tree.Close()
	if count := need[uint64](t)(tree.Len()); count != 60001 {
		t.Errorf("%d nodes", count)
	}
	if back := need[any](t)(tree.Value()); !reflect.DeepEqual(back, state) {
		t.Error("the large state came back different")
	}
}

func TestATreeOfAFileOutlivesItAndCannotBeChanged(t *testing.T) {
	path := t.TempDir() + "/x.pt"
	reader := saved(t, nil, func(save *ckpt.Save) {
		ok(t, save.AddState("", dict().Set("epoch", 3).Set("w", ckpt.Leaf(ckpt.Shape(2, 2), ramp[float32](4)))))
	})
	ok(t, reader.Export(context.Background(), path, nil))
	file := need[*ckpt.File](t)(ckpt.OpenFile(path, nil))
	tree := need[*ckpt.Tree](t)(file.Tree())
	view := need[*ckpt.MappedTensor](t)(file.Map(0))
	info := need[ckpt.FileTensor](t)(file.Tensor(0))
	if format := need[string](t)(file.Format()); format != "pt" || info.Name != "w" || info.DType != ckpt.F32 {
		t.Errorf("a file of format %s with %+v", format, info)
	}
	ok(t, file.Close())
	is(t, first(file.Format()), ckpt.ErrClosed)
	is(t, first(ckpt.Collect(file.Tensors())), ckpt.ErrClosed)
	is(t, tree.AddInt(1), ckpt.ErrInvalid)
	value := need[any](t)(tree.Value())
	if !reflect.DeepEqual(value, dict().Set("epoch", int64(3)).Set("w", ckpt.TensorRef{Name: "w"})) {
		t.Errorf("the file's tree is %v", value)
	}
	if !slices.Equal(view.Bytes(), ckpt.BytesOf(ramp[float32](4))) {
		t.Error("the file's tensor has other bytes")
	}
	ok(t, tree.Close())
	ok(t, view.Close())
	imported := need[ckpt.CheckpointInfo](t)(openStore(t).Import(context.Background(), path, "x", 3, nil))
	if imported.Step != 3 || imported.TensorCount != 1 || imported.Run != "main" {
		t.Errorf("imported as %+v", imported)
	}
}
