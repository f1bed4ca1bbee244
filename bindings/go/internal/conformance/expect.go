package conformance

import (
	"bytes"
	"fmt"
	"math"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// The expectations look only where the line names the key.

func expectInt[N ~int | ~int32 | ~int64](r *runner, l *line, key string, found N) {
	if wanted, given := l.value(key); given && r.parseInt(wanted) != int64(found) {
		r.fail("expected %s=%s, found %d", key, wanted, found)
	}
}

func expectUnsigned[N ~uint32 | ~uint64](r *runner, l *line, key string, found N) {
	if wanted, given := l.value(key); given && r.parseUnsigned(wanted) != uint64(found) {
		r.fail("expected %s=%s, found %d", key, wanted, found)
	}
}

func sameFloat(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || a == b && math.Signbit(a) == math.Signbit(b)
}

func (r *runner) expectFloat(l *line, key string, found float64) {
	if wanted, given := l.value(key); given && !sameFloat(r.parseFloat(wanted), found) {
		r.fail("expected %s=%s, found %v", key, wanted, found)
	}
}

func (r *runner) expectText(l *line, key, found string) {
	if wanted, given := l.value(key); given && wanted != found {
		r.fail("expected %s=%s, found '%s'", key, wanted, found)
	}
}

func (r *runner) expectHex(l *line, key string, found []byte) {
	if wanted, given := l.value(key); given && !bytes.Equal(r.parseHex(wanted), found) {
		r.fail("expected %s=%s, found %x", key, wanted, found)
	}
}

// expectName compares by name and refuses one that E does not have.
func expectName[E interface {
	~int32
	String() string
}](r *runner, l *line, key string, found E) {
	if wanted, given := l.value(key); given && parseName[E](r, wanted) != found {
		r.fail("expected %s=%s, found %v", key, wanted, found)
	}
}

func (r *runner) expectDType(l *line, key string, found ckpt.DType) {
	if wanted, given := l.value(key); given && r.parseDType(wanted) != found {
		r.fail("expected %s=%s, found %v (%d)", key, wanted, found, int32(found))
	}
}

func (r *runner) expectCheckpoint(l *line, info ckpt.CheckpointInfo) {
	r.expectText(l, "id", info.ID)
	r.expectText(l, "label", info.Label)
	r.expectText(l, "run", info.Run)
	expectInt(r, l, "step", info.Step)
	expectUnsigned(r, l, "world_size", info.WorldSize)
	expectUnsigned(r, l, "part_count", info.PartCount)
	expectUnsigned(r, l, "tensor_count", info.TensorCount)
	expectUnsigned(r, l, "object_count", info.ObjectCount)
	expectName(r, l, "state", info.State)
	expectUnsigned(r, l, "flags", info.Flags)
	expectUnsigned(r, l, "revision", info.Revision)
	expectUnsigned(r, l, "attempt", info.Attempt)
	expectUnsigned(r, l, "token", info.Token)
	expectUnsigned(r, l, "sequence", info.Sequence)
	expectUnsigned(r, l, "bytes", info.Bytes)
}

// expectList compares the words from `first` on with all that was found, in order.
func (r *runner) expectList(l *line, first int, found []string) {
	wanted := l.words[first:]
	for i := range min(len(wanted), len(found)) {
		if wanted[i] != found[i] {
			r.fail("expected '%s' at place %d, found '%s'", wanted[i], i, found[i])
		}
	}
	if len(wanted) != len(found) {
		r.fail("expected %d entries, found %d: %s", len(wanted), len(found), fmt.Sprint(found))
	}
}
