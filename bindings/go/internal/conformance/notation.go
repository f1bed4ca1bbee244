package conformance

import (
	"encoding/hex"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

func (r *runner) parseInt(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r.fail("expected a number, found '%s'", text)
	}
	return value
}

func (r *runner) parseUnsigned(text string) uint64 {
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		r.fail("expected a number >= 0, found '%s'", text)
	}
	return value
}

func (r *runner) parseFloat(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil && !strings.Contains(err.Error(), "out of range") { // strtod gives infinity then, as this does
		r.fail("expected a number, found '%s'", text)
	}
	return value
}

func (r *runner) parseDType(text string) ckpt.DType {
	if text != "" && '0' <= text[0] && text[0] <= '9' {
		return ckpt.DType(r.parseInt(text))
	}
	found, known := ckpt.FindDType(text)
	if !known {
		r.fail("expected a dtype, found '%s'", text)
	}
	return found
}

func (r *runner) parseShape(text string) []int64 {
	if text == "-" {
		return []int64{}
	}
	var made []int64
	for _, extent := range strings.Split(text, "x") {
		made = append(made, r.parseInt(extent))
	}
	return made
}

func shapeText(shape []int64) string {
	if len(shape) == 0 {
		return "-"
	}
	var extents []string
	for _, extent := range shape {
		extents = append(extents, strconv.FormatInt(extent, 10))
	}
	return strings.Join(extents, "x")
}

func (r *runner) parseHex(text string) []byte {
	value, err := hex.DecodeString(text)
	if err != nil {
		r.fail("expected pairs of hexadecimal digits, found '%.40s'", text)
	}
	return value
}

// parseName is the value of type E whose String is `text`.
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

func (r *runner) path(file string) string {
	if strings.HasPrefix(file, "/") {
		return file
	}
	return filepath.Join(r.directory, file)
}

// ---- keys of a line ----

// value is that of a key, and whether it is given.
func (l *line) value(key string) (string, bool) {
	for _, p := range l.pairs {
		if p.key == key {
			p.used = true
			return p.value, true
		}
	}
	return "", false
}

var integer = regexp.MustCompile(`^-?[0-9]+$`)

func (r *runner) optionsOf(l *line) ckpt.Options {
	made := ckpt.Options{}
	for _, option := range l.options {
		if integer.MatchString(option.value) {
			made[option.key] = r.parseInt(option.value)
		} else {
			made[option.key] = strings.TrimPrefix(option.value, `"`)
		}
	}
	return made
}

func (r *runner) divided(text string) (string, string) {
	first, second, found := strings.Cut(text, ":")
	if !found {
		r.fail("expected A:B, found '%s'", text)
	}
	return first, second
}

func (r *runner) parseRegion(l *line, dtype, shape string) ckpt.Tensor {
	made := ckpt.Shape(r.parseShape(shape)...).As(r.parseDType(dtype))
	if text, given := l.value("box"); given {
		offset, extent := r.divided(text)
		made = made.Box(r.parseShape(offset), r.parseShape(extent))
	}
	if text, given := l.value("flat"); given {
		offset, size := r.divided(text)
		made = made.Flat(r.parseInt(offset), r.parseInt(size))
	}
	if text, given := l.value("strides"); given {
		made = made.Strided(r.parseShape(text)...)
	}
	if text, given := l.value("replica"); given {
		group, rest := r.divided(text)
		index, count := r.divided(rest)
		made = made.Replica(r.parseUnsigned(group), uint32(r.parseUnsigned(index)), uint32(r.parseUnsigned(count)))
	}
	return made
}

// parseDevice says whether the line names one.
func (r *runner) parseDevice(l *line) (kind ckpt.DeviceType, id int32, given bool) {
	text, given := l.value("device")
	if !given {
		return ckpt.CPU, 0, false
	}
	first, second := r.divided(text)
	return ckpt.DeviceType(r.parseInt(first)), int32(r.parseInt(second)), true
}

// refused is the error of C for what the binding's types do not let a program say.
func refused(what string) error { return &ckpt.Error{Status: ckpt.ErrInvalid, Message: what} }
