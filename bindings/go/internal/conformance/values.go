package conformance

import (
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

// list returns the numbers of a key, and whether it is given.
func (r *runner) list(key string) ([]int64, bool) {
	text, given := r.keys[key]
	return r.numbers(text), given
}

// number returns the number of a key, 0 if it is not given.
func (r *runner) number(key string) uint64 {
	if text, given := r.keys[key]; given {
		return r.parseUnsigned(text)
	}
	return 0
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

// missing is the error of C for an index past the end.
func missing(what string) error { return &ckpt.Error{Status: ckpt.ErrNotFound, Message: what} }

// optionalName returns the value of a key; "" if it is not given, as the binding takes it.
func (r *runner) optionalName() string {
	name, given := r.keys["name"]
	if given && name == "" {
		must(refused("an empty name is none here"))
	}
	return name
}
