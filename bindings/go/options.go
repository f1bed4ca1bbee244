package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"context"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// Options are the named settings of one call: {"keep_last": 3, "compression": "auto"}. Values are integers of any Go
// type, bools (1 and 0) and strings. nil means the defaults. Unknown keys and values out of range are ErrInvalid. A
// call reads its own keys and ignores the others: "Options: those used by save" are those of [KnownOptions] whose
// UsedBy has that word; `ckpt help options` prints them.
type Options map[string]any

// bag is the C object for one call.
func (o Options) bag() (*C.ckpt_options, error) {
	var made *C.ckpt_options
	var cerr *C.ckpt_error
	if status := C.ckpt_options_new(&made, &cerr); status != C.CKPT_OK {
		return nil, fail(status, cerr)
	}
	for _, key := range slices.Sorted(maps.Keys(o)) { // sorted, so that of two mistakes the same one is reported
		if err := set(made, key, o[key]); err != nil {
			C.ckpt_options_free(made)
			return nil, err
		}
	}
	return made, nil
}

func set(bag *C.ckpt_options, key string, value any) error {
	var in arguments
	var cerr *C.ckpt_error
	name := in.text(key)
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String:
		text := in.text(v.String())
		if in.err != nil {
			return in.err
		}
		status := C.ckpt_options_set_str(bag, name, text, &cerr)
		return fail(status, cerr)
	case reflect.Bool:
		if v.Bool() {
			return set(bag, key, 1)
		}
		return set(bag, key, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if in.err != nil {
			return in.err
		}
		status := C.ckpt_options_set_int(bag, name, C.int64_t(v.Int()), &cerr)
		return fail(status, cerr)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if v.Uint() > 1<<63-1 {
			return invalid("", "option %s: %d is out of range", key, v.Uint())
		}
		return set(bag, key, int64(v.Uint()))
	}
	return invalid("", "option %s: expected an integer, bool or string, found a %T", key, value)
}

// number returns what an integer option was set to, also by a bool or a text.
func (o Options) number(key string) (number int64, given bool) {
	switch v := reflect.ValueOf(o[key]); {
	case v.CanInt():
		return v.Int(), true
	case v.CanUint():
		return int64(v.Uint()), true
	case v.Kind() == reflect.Bool && v.Bool():
		return 1, true
	case v.Kind() == reflect.Bool:
		return 0, true
	case v.Kind() == reflect.String:
		number, err := strconv.ParseInt(v.String(), 10, 64)
		return number, err == nil
	}
	return 0, false
}

// withOptions makes a call that shares the object of `h`, with options and texts converted for C.
func withOptions[P comparable, R any](h *owned[P], options Options,
	call func(object P, bag *C.ckpt_options, text cTexts) (R, error), texts ...string) (R, error) {
	return entered(h, texts, func(object P, in *arguments, converted cTexts) (R, error) {
		var none R
		bag := in.options(options)
		if in.err != nil {
			return none, in.err
		}
		return call(object, bag, converted)
	})
}

// withContextAndOptions is withOptions for a call that blocks and that the context cancels.
func withContextAndOptions[P comparable, R any](ctx context.Context, h *owned[P], options Options,
	call func(object P, bag *C.ckpt_options, text cTexts) (R, error), texts ...string) (R, error) {
	return withOptions(h, options, func(object P, bag *C.ckpt_options, in cTexts) (R, error) {
		return withContext(ctx, bag, func(bag *C.ckpt_options) (R, error) { return call(object, bag, in) })
	}, texts...)
}

// OptionKind says which values an option takes.
type OptionKind int32

// KnownOptions yields all options of the loaded library.
func KnownOptions() iter.Seq2[OptionInfo, error] {
	return func(yield func(OptionInfo, error) bool) {
		for i := range C.ckpt_option_count() {
			info := C.ckpt_option_info{struct_size: C.sizeof_ckpt_option_info}
			var cerr *C.ckpt_error
			if status := C.ckpt_option_at(i, &info, &cerr); status != C.CKPT_OK {
				yield(OptionInfo{}, fail(status, cerr))
				return
			}
			if !yield(makeOptionInfo(&info), nil) {
				return
			}
		}
	}
}

// Collect gathers what an iterator of this package yields; it stops at the first error and returns that alone.
func Collect[T any](from iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for value, err := range from {
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}
