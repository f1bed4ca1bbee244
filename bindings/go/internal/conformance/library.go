package conformance

import (
	"fmt"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(
	command{"version", 0, 0, runVersion},
	command{"status", 2, 0, runStatus},
	command{"dtype", 3, 0, runDType},
	command{"option", 1, takesPairs, runOption},
)

func runVersion(r *runner, _ *line) error {
	number := ckpt.VersionNumber()
	text := fmt.Sprintf("%d.%d.%d", number/1000000, number/1000%1000, number%1000)
	if text != ckpt.Version() {
		r.fail("expected %s, found %s", text, ckpt.Version())
	}
	if number < ckpt.HeaderVersionNumber {
		r.fail("expected at least %d, found %d", ckpt.HeaderVersionNumber, number)
	}
	return nil
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

// checkConstants: the binding's value of a name must be `number`, and no other name may have that number.
func checkConstants[N ~int32](r *runner, all map[string]N, name string, number N) {
	for other, value := range all {
		if (other == name) != (value == number) {
			r.fail("expected %s to be %d, found %s = %d in the binding", name, number, other, value)
		}
	}
}

func runStatus(r *runner, l *line) error {
	name, number := l.words[0], ckpt.Status(r.parseInt(l.words[1]))
	if number.Name() != name {
		r.fail("expected %s for %d, found %s", name, number, number.Name())
	}
	checkConstants(r, statuses, name, number)
	return nil
}

func runDType(r *runner, l *line) error {
	name, number, bits := l.words[0], ckpt.DType(r.parseInt(l.words[1])), int(r.parseInt(l.words[2]))
	if number.Name() != name {
		r.fail("expected %s for %d, found %s", name, int32(number), number.Name())
	}
	if number.Bits() != bits {
		r.fail("expected %d bits, found %d", bits, number.Bits())
	}
	found, known := ckpt.FindDType(name)
	if known != (name != "dtype") || known && found != number {
		r.fail("expected %s to be found as %d, found %d, %v", name, int32(number), int32(found), known)
	}
	checkConstants(r, dtypes, name, number)
	return nil
}

func runOption(r *runner, l *line) error {
	for info, err := range ckpt.KnownOptions() {
		if err != nil {
			return err
		}
		if info.Key != l.words[0] {
			continue
		}
		expectName(r, l, "kind", info.Kind)
		expectInt(r, l, "min", info.Min)
		expectInt(r, l, "max", info.Max)
		r.expectText(l, "fallback", info.Fallback)
		r.expectText(l, "choices", info.Choices)
		r.expectText(l, "used_by", info.UsedBy)
		return nil
	}
	r.fail("expected an option %s, found none", l.words[0])
	return nil
}
