package conformance

import (
	"fmt"
	"slices"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner){
	"version": runVersion, "status": runStatus, "dtype": runDType, "option": runOption,
})

func runVersion(r *runner) {
	number := ckpt.VersionNumber()
	text := fmt.Sprintf("%d.%d.%d", number/1000000, number/1000%1000, number%1000)
	if text != ckpt.Version() {
		r.fail("expected %s, found %s", text, ckpt.Version())
	}
	if number < ckpt.HeaderVersionNumber {
		r.fail("expected at least %d, found %d", ckpt.HeaderVersionNumber, number)
	}
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

// checkConstants checks that the binding's value of a name is `number`, and that no other name has that number.
func checkConstants[N ~int32](r *runner, all map[string]N, name string, number N) {
	for other, value := range all {
		if (other == name) != (value == number) {
			r.fail("expected %s to be %d, found %s = %d in the binding", name, number, other, value)
		}
	}
}

func runStatus(r *runner) {
	number := ckpt.Status(r.int(1))
	if number.Name() != r.words[0] {
		r.fail("expected %s for %d, found %s", r.words[0], number, number.Name())
	}
	checkConstants(r, statuses, r.words[0], number)
}

func runDType(r *runner) {
	name, number, bits := r.words[0], ckpt.DType(r.int(1)), int(r.int(2))
	if number.Name() != name || number.Bits() != bits {
		r.fail("expected %s of %d bits, found %s of %d", name, bits, number.Name(), number.Bits())
	}
	found, known := ckpt.FindDType(name)
	if known != (name != "dtype") || known && found != number {
		r.fail("expected %s to be found as %d, found %d, %v", name, int32(number), int32(found), known)
	}
	checkConstants(r, dtypes, name, number)
}

func runOption(r *runner) {
	all := try(ckpt.Collect(ckpt.KnownOptions()))
	at := slices.IndexFunc(all, func(info ckpt.OptionInfo) bool { return info.Key == r.words[0] })
	if at < 0 {
		r.fail("expected an option %s, found none", r.words[0])
	}
	r.expect("kind", all[at].Kind)
	r.expect("min", all[at].Min)
	r.expect("max", all[at].Max)
	r.expect("fallback", all[at].Fallback)
	r.expect("choices", all[at].Choices)
	r.expect("used_by", all[at].UsedBy)
}
