package conformance

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

func (r *runner) parseInt(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	r.check(err)
	return value
}

func (r *runner) parseUnsigned(text string) uint64 {
	value, err := strconv.ParseUint(text, 10, 64)
	r.check(err)
	return value
}

func (r *runner) parseFloat(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	r.check(err)
	return value
}

func (r *runner) int(word int) int64       { return r.parseInt(r.words[word]) }
func (r *runner) unsigned(word int) uint64 { return r.parseUnsigned(r.words[word]) }
func (r *runner) rank(word int) uint32     { return uint32(r.unsigned(word)) }

// numbers parses a shape or a list.
func (r *runner) numbers(text string) []int64 {
	made := []int64{}
	for _, number := range strings.FieldsFunc(text, func(c rune) bool { return c == ' ' || c == ':' }) {
		made = append(made, r.parseInt(number))
	}
	return made
}

// parseName returns the value of type E whose String is `text`.
func parseName[E interface {
	~int32
	String() string
}](r *runner, text string) E {
	for value := range E(64) {
		if value.String() == text {
			return value
		}
	}
	r.fail("expected a name of %T, found '%s'", E(0), text)
	return 0
}

func (r *runner) dtype(word int) ckpt.DType {
	if number, err := strconv.ParseInt(r.words[word], 10, 32); err == nil {
		return ckpt.DType(number)
	}
	found, known := ckpt.FindDType(r.words[word])
	if !known {
		r.fail("expected a dtype, found '%s'", r.words[word])
	}
	return found
}

// ---- keys ----

func (r *runner) key(key string) (found token, given bool) {
	at := slices.IndexFunc(r.keys, func(t token) bool { return t.key == key })
	if at < 0 {
		return token{}, false
	}
	return r.keys[at], true
}

// value returns the value of a key, and whether it is given.
func (r *runner) value(key string) (string, bool) {
	found, given := r.key(key)
	return found.value, given
}

// list returns the numbers of a key, and whether it is given.
func (r *runner) list(key string) ([]int64, bool) {
	found, given := r.key(key)
	return r.numbers(found.value), given
}

// tensor makes the description that DTYPE, SHAPE (the words from `first` on) and the keys of a region give.
func (r *runner) tensor(first int) ckpt.Tensor {
	made := ckpt.Shape(r.numbers(r.words[first+1])...).As(r.dtype(first))
	if box, given := r.list("box"); given {
		made = made.Box(box[:len(box)/2], box[len(box)/2:])
	}
	if flat, given := r.list("flat"); given {
		made = made.Flat(flat[0], flat[1])
	}
	if strides, given := r.list("strides"); given {
		made = made.Strided(strides...)
	}
	if first, given := r.list("first_replica"); given && first[0] != 0 {
		made = made.WithFirstReplica()
	}
	if replica, given := r.list("replica"); given {
		made = made.Replica(uint64(replica[0]), uint32(replica[1]), uint32(replica[2]))
	}
	if convert, given := r.list("convert"); given {
		made.Convert = convert[0] != 0
	}
	return made
}

// refused is the error of C for what the binding's types cannot express.
func refused(what string) error { return &ckpt.Error{Status: ckpt.ErrInvalid, Message: what} }

// optionalName returns the value of a key; "" if it is not given, as the binding takes it.
func (r *runner) optionalName() string {
	name, given := r.value("name")
	if given && name == "" {
		must(refused("an empty name is none here"))
	}
	return name
}

// ---- expectations: each looks only where the command has the key ----

// textOf returns a value as scenarios write it.
func textOf(value any) string {
	switch value := value.(type) {
	case bool:
		return map[bool]string{false: "0", true: "1"}[value]
	case []int64:
		return strings.Trim(fmt.Sprint(value), "[]")
	case ckpt.DType:
		if value.Name() == "dtype" {
			return strconv.Itoa(int(value))
		}
		return value.Name()
	}
	return fmt.Sprint(value)
}

func (r *runner) expect(key string, value any) {
	wanted, given := r.key(key)
	found := textOf(value)
	if given && wanted.kind == '=' && found != wanted.value {
		r.fail("expected %s=%s, found '%s'", key, wanted.value, found)
	}
	if given && wanted.kind == '>' && r.parseUnsigned(found) < r.parseUnsigned(wanted.value) {
		r.fail("expected %s>=%s, found %s", key, wanted.value, found)
	}
}

// expectFloat takes NaN as equal to NaN, and 0 as different from -0.
func (r *runner) expectFloat(key string, found float64) {
	text, given := r.value(key)
	if !given {
		return
	}
	wanted := r.parseFloat(text)
	if math.Float64bits(wanted) != math.Float64bits(found) && !(math.IsNaN(wanted) && math.IsNaN(found)) {
		r.fail("expected %s=%s, found %v", key, text, found)
	}
}

func (r *runner) expectCheckpoint(info ckpt.CheckpointInfo) {
	r.expect("id", info.ID)
	r.expect("label", info.Label)
	r.expect("run", info.Run)
	r.expect("step", info.Step)
	r.expect("world_size", info.WorldSize)
	r.expect("part_count", info.PartCount)
	r.expect("tensor_count", info.TensorCount)
	r.expect("object_count", info.ObjectCount)
	r.expect("state", info.State)
	r.expect("flags", uint32(info.Flags))
	r.expect("revision", info.Revision)
	r.expect("attempt", info.Attempt)
	r.expect("token", info.Token)
	r.expect("sequence", info.Sequence)
	r.expect("bytes", info.Bytes)
	r.expect("passed_over", info.PassedOver)
}

// expectWords compares the words from `first` on with all that was found, in order.
func (r *runner) expectWords(first int, found ...string) {
	if !slices.Equal(r.words[first:], found) {
		r.fail("expected %q, found %q", r.words[first:], found)
	}
}
