package ckpt_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

func detailOf(err error, key string) string {
	var found *ckpt.Error
	if errors.As(err, &found) {
		return found.Detail(key)
	}
	return "no *ckpt.Error"
}

func TestAnErrorIsItsStatusAndHasMessageAndDetails(t *testing.T) {
	reader := saved(t, nil, func(save *ckpt.Save) { ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(4), ramp[float32](4))) })
	_, err := reader.Tensor("absent")
	is(t, err, ckpt.ErrNotFound, fs.ErrNotExist)
	if errors.Is(err, ckpt.ErrCorrupt) || errors.Is(err, fs.ErrExist) || errors.Is(err, ckpt.ErrClosed) {
		t.Errorf("%v is too much", err)
	}
	var found *ckpt.Error
	var status ckpt.Status
	if !errors.As(err, &found) || !errors.As(err, &status) || found.Status != status || status != ckpt.ErrNotFound {
		t.Fatalf("%v is no *ckpt.Error", err)
	}
	if found.Detail("tensor") != "absent" || found.Detail("part") != "" || !strings.Contains(found.Message, "absent") {
		t.Errorf("message %q, details %v", found.Message, found.Details)
	}
	if text := err.Error(); !strings.HasPrefix(text, "ckpt: NOT_FOUND: ") {
		t.Errorf("the text is %q", text)
	}
	load := newLoad(t, reader)
	err = ckpt.AddSlice(load, "w", ckpt.Shape(4), ramp[int32](4))
	is(t, err, ckpt.ErrMismatch)
	if !strings.Contains(detailOf(err, "expected"), "f32") || !strings.Contains(detailOf(err, "found"), "i32") {
		t.Errorf("%v does not say what was expected and found", err)
	}
}

func TestAStatusOfANewerLibraryIsKeptAsItsNumber(t *testing.T) {
	unknown := ckpt.Status(46)
	err := error(&ckpt.Error{Status: unknown, Message: "new"})
	is(t, err, ckpt.Status(46))
	if errors.Is(err, ckpt.ErrCommitUnknown) || unknown.Name() != "UNKNOWN" || !strings.Contains(err.Error(), "46") {
		t.Errorf("the error is %v", err)
	}
	if text := ckpt.ErrNoSpace.Error(); text != "ckpt: NO_SPACE" {
		t.Errorf("the text is %q", text)
	}
}

func TestTextWithANULIsRefusedNotCut(t *testing.T) {
	store := openStore(t)
	_, err := store.Find("a\x00b", nil)
	is(t, err, ckpt.ErrInvalid)
	_, err = ckpt.OpenStore("mem:a\x00b", nil)
	is(t, err, ckpt.ErrInvalid)
	_, err = ckpt.OpenStore("mem:a", ckpt.Options{"direct_io": "off\x00"})
	is(t, err, ckpt.ErrInvalid)
	save := newSave(t, openSession(t, store), "a", nil)
	is(t, ckpt.AddSlice(save, "w\x00", ckpt.Shape(1), []float32{1}), ckpt.ErrInvalid)
	is(t, save.SetAttr("k", "v\x00"), ckpt.ErrInvalid)
}

func TestOptionsTakeIntegersBoolsAndTextAndNothingElse(t *testing.T) {
	session := openSession(t, openStore(t))
	type small uint8
	for _, right := range []ckpt.Options{
		nil, {}, {"keep_last": 3}, {"keep_last": small(3)}, {"wait": true}, {"wait": false}, {"compression": "lz4"},
		{"threads": int64(2), "compression": "auto"},
	} {
		need[*ckpt.Save](t)(ckpt.NewSave(session, "a", -1, right)).Close()
	}
	for _, wrong := range []ckpt.Options{
		{"keep_last": 1.5}, {"keep_last": nil}, {"keep_last": "three"}, {"keep_last": -1}, {"compression": "zip"},
		{"compression": 1}, {"no such option": 1}, {"keep_last": uint64(1 << 63)}, {"threads": 1000},
	} {
		save, err := ckpt.NewSave(session, "a", -1, wrong)
		is(t, err, ckpt.ErrInvalid)
		if save != nil {
			t.Errorf("%v made a save", wrong)
		}
	}
}

func TestEveryOptionIsListed(t *testing.T) {
	all := need[[]ckpt.OptionInfo](t)(ckpt.Collect(ckpt.KnownOptions()))
	found := map[string]ckpt.OptionInfo{}
	for _, info := range all {
		if info.Key == "" || info.Help == "" || info.UsedBy == "" {
			t.Errorf("%+v says too little", info)
		}
		found[info.Key] = info
	}
	keep, existing := found["keep_last"], found["on_existing"]
	if keep.Kind != ckpt.OptionInt || keep.Fallback != "0" || keep.Max == 0 {
		t.Errorf("%+v", keep)
	}
	if existing.Kind != ckpt.OptionStr || existing.Choices != "error|replace|keep" {
		t.Errorf("%+v", existing)
	}
	for range ckpt.KnownOptions() { // leaving early is no mistake
		break
	}
}
