package conformance

import (
	"bytes"
	"encoding/binary"
	"slices"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner) any{
	"version": func(*runner) any {
		return fields{"text": ckpt.Version(), "number": ckpt.VersionNumber(), "header": ckpt.HeaderVersionNumber}
	},
	"status": func(r *runner) any {
		number := ckpt.Status(r.int(0))
		return fields{"name": number.Name(), "constants": constants(statusConstants, number)}
	},
	"dtype": func(r *runner) any {
		number, found := ckpt.DType(r.int(0)), int32(-1)
		if dtype, known := ckpt.FindDType(number.Name()); known {
			found = int32(dtype)
		}
		return fields{
			"name": number.Name(), "bits": number.Bits(), "found": found, "constants": constants(dtypeConstants, number),
		}
	},
	"option": func(r *runner) any {
		all := try(ckpt.Collect(ckpt.KnownOptions()))
		at := slices.IndexFunc(all, func(info ckpt.OptionInfo) bool { return info.Key == r.words[0] })
		if at < 0 {
			r.fail("expected an option %s, found none", r.words[0])
		}
		return record(all[at], nil)
	},
	"memory":     func(r *runner) any { return r.put(0, &memory{generated(r.unsigned(1), r.unsigned(2))}) },
	"memory.hex": func(r *runner) any { return r.put(0, &memory{[]byte(r.words[1])}) },
	"memory.alloc": func(r *runner) any {
		buffer := try(ckpt.NewBuffer(r.unsigned(1)))
		defer buffer.Close()
		return r.put(0, &memory{bytes.Clone(buffer.Bytes())})
	},
	"memory.part": func(r *runner) any {
		from, offset, size := get[*memory](r, 1).data, r.unsigned(2), r.unsigned(3)
		if offset > uint64(len(from)) || size > uint64(len(from))-offset {
			r.fail("expected %d bytes at %d, found %d in all", size, offset, len(from))
		}
		return r.put(0, &memory{bytes.Clone(from[offset : offset+size])})
	},
	"same": func(r *runner) any {
		return words{textOf(bytes.Equal(get[*memory](r, 0).data, get[*memory](r, 1).data))}
	},
	"free": func(r *runner) any {
		r.free(r.words[0])
		return nil
	},
})

// memory is the memory of a scenario: bytes that tensors are saved from and loaded into.
type memory struct{ data []byte }

// bytes returns the bytes of the memory that this word names; nil for an empty word.
func (r *runner) bytes(word int) []byte {
	if r.words[word] == "" {
		return nil
	}
	return get[*memory](r, word).data
}

// putCopy puts the bytes of a view, which it closes.
func (r *runner) putCopy(word int, view *ckpt.MappedTensor) any {
	defer view.Close()
	return r.put(word, &memory{bytes.Clone(view.Bytes())})
}

// generated returns the little-endian words of splitmix64; zeros for seed 0.
func generated(size, seed uint64) []byte {
	out := make([]byte, (size+7)/8*8)
	for at := 0; seed != 0 && at < len(out); at += 8 {
		seed += 0x9E3779B97F4A7C15
		z := seed
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		binary.LittleEndian.PutUint64(out[at:], z^z>>31)
	}
	return out[:size]
}
