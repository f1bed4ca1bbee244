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
		return fields{"name": number.Name(), "constants": constants(statuses, number)}
	},
	"dtype": func(r *runner) any {
		number, found := ckpt.DType(r.int(0)), int32(-1)
		if dtype, known := ckpt.FindDType(number.Name()); known {
			found = int32(dtype)
		}
		return fields{
			"name": number.Name(), "bits": number.Bits(), "found": found, "constants": constants(dtypes, number),
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

var statuses = map[string]ckpt.Status{
	"OK": ckpt.StatusOK, "INVALID": ckpt.ErrInvalid, "UNSUPPORTED": ckpt.ErrUnsupported, "FORKED": ckpt.ErrForked,
	"CANCELLED": ckpt.ErrCancelled, "NOT_FOUND": ckpt.ErrNotFound, "EXISTS": ckpt.ErrExists, "GONE": ckpt.ErrGone,
	"CORRUPT": ckpt.ErrCorrupt, "FORMAT": ckpt.ErrFormat, "REVISION": ckpt.ErrRevision,
	"INCOMPLETE": ckpt.ErrIncomplete, "MISMATCH": ckpt.ErrMismatch, "CONFLICT": ckpt.ErrConflict,
	"FENCED": ckpt.ErrFenced, "ABORTED": ckpt.ErrAborted, "TIMEOUT": ckpt.ErrTimeout,
	"COMMIT_UNKNOWN": ckpt.ErrCommitUnknown, "IO": ckpt.ErrIO, "NO_SPACE": ckpt.ErrNoSpace, "NOMEM": ckpt.ErrNoMem,
	"INTERNAL": ckpt.ErrInternal,
}

var dtypes = map[string]ckpt.DType{
	"i4": ckpt.I4, "i8": ckpt.I8, "i16": ckpt.I16, "i32": ckpt.I32, "i64": ckpt.I64, "u4": ckpt.U4, "u8": ckpt.U8,
	"u16": ckpt.U16, "u32": ckpt.U32, "u64": ckpt.U64, "f16": ckpt.F16, "f32": ckpt.F32, "f64": ckpt.F64,
	"bf16": ckpt.BF16, "c32": ckpt.C32, "c64": ckpt.C64, "c128": ckpt.C128, "bool": ckpt.Bool,
	"f8_e3m4": ckpt.F8E3M4, "f8_e4m3": ckpt.F8E4M3, "f8_e4m3b11fnuz": ckpt.F8E4M3B11FNUZ,
	"f8_e4m3fn": ckpt.F8E4M3FN, "f8_e4m3fnuz": ckpt.F8E4M3FNUZ, "f8_e5m2": ckpt.F8E5M2,
	"f8_e5m2fnuz": ckpt.F8E5M2FNUZ, "f8_e8m0fnu": ckpt.F8E8M0FNU, "f6_e2m3fn": ckpt.F6E2M3FN,
	"f6_e3m2fn": ckpt.F6E3M2FN, "f4_e2m1fn": ckpt.F4E2M1FN,
}
