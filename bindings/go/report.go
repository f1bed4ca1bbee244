package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"iter"
	"log/slog"
	"slices"
)

// FindingKind says what a finding is about.
type FindingKind int32

// The kinds of findings.
const (
	FindingDamaged    FindingKind = C.CKPT_FINDING_DAMAGED     // verify: wrong bytes; repair: an unusable part
	FindingMissing    FindingKind = C.CKPT_FINDING_MISSING     // verify: a part; load: a name asked for; diff: only in a
	FindingExtra      FindingKind = C.CKPT_FINDING_EXTRA       // load: a name not asked for; diff: only in b
	FindingDifferent  FindingKind = C.CKPT_FINDING_DIFFERENT   // diff
	FindingRemoved    FindingKind = C.CKPT_FINDING_REMOVED     // prune
	FindingKept       FindingKind = C.CKPT_FINDING_KEPT        // prune: not removed, and why
	FindingRepaired   FindingKind = C.CKPT_FINDING_REPAIRED    // repair: was written, or with dry_run would be
	FindingPassedOver FindingKind = C.CKPT_FINDING_PASSED_OVER // open: a newer checkpoint that cannot be loaded
	FindingNoCache    FindingKind = C.CKPT_FINDING_NO_CACHE    // open: the cache cannot be used; loads read the store
	FindingAnew       FindingKind = C.CKPT_FINDING_ANEW        // save: it goes on from nothing that its run has
)

// String returns the kind as ckpt.h spells it, "DAMAGED".
func (k FindingKind) String() string {
	return nameOf("FindingKind", int32(k), map[int32]string{
		C.CKPT_FINDING_DAMAGED: "DAMAGED", C.CKPT_FINDING_MISSING: "MISSING", C.CKPT_FINDING_EXTRA: "EXTRA",
		C.CKPT_FINDING_DIFFERENT: "DIFFERENT", C.CKPT_FINDING_REMOVED: "REMOVED", C.CKPT_FINDING_KEPT: "KEPT",
		C.CKPT_FINDING_REPAIRED: "REPAIRED", C.CKPT_FINDING_PASSED_OVER: "PASSED_OVER",
		C.CKPT_FINDING_ANEW: "ANEW", C.CKPT_FINDING_NO_CACHE: "NO_CACHE",
	})
}

// Finding is one line of a report.
type Finding struct {
	Kind   FindingKind
	Status Status // ErrCorrupt, ErrFormat, ErrIncomplete, … for an error; else StatusOK
	Text   string // one line for people
	Name   string // tensor, object or checkpoint id; "" for none
	Part   string // "PART_003"; "" for none

	Offset, Size              uint64  // bytes in the part
	FirstElement, LastElement int64   // in the flattened tensor, inclusive; -1 for none
	MaxAbs, MaxRel            float64 // diff of values: the largest differences; NaN for none
	Count                     uint64  // diff of values: elements that differ
}

// Report is a list of findings: plain values, with nothing to close.
type Report struct{ findings []Finding }

// Len returns the number of findings.
func (r Report) Len() int { return len(r.findings) }

// At returns one finding; `index` counts from 0. It panics past the end, as a slice does.
func (r Report) At(index int) Finding { return r.findings[index] }

// All yields the findings with their indexes.
func (r Report) All() iter.Seq2[int, Finding] { return slices.All(r.findings) }

// warnOfAnew logs that a save, which was committed, does not go on from what its run has: a trainer that forgot to load
// asks for no report.
func warnOfAnew(report Report, err error) {
	for _, finding := range report.findings {
		if err == nil && finding.Kind == FindingAnew {
			slog.Warn("ckpt: " + finding.Text)
		}
	}
}

// takeReport copies the report of C and frees it.
func takeReport(from *C.ckpt_report, err error) (Report, error) {
	if err != nil {
		return Report{}, err
	}
	defer C.ckpt_report_free(from)
	made := Report{make([]Finding, C.ckpt_report_count(from))}
	for i := range made.findings {
		f := C.ckpt_finding{struct_size: C.sizeof_ckpt_finding}
		var cerr *C.ckpt_error
		if status := C.ckpt_report_at(from, C.size_t(i), &f, &cerr); status != C.CKPT_OK {
			return Report{}, fail(status, cerr)
		}
		made.findings[i] = Finding{
			Kind: FindingKind(f.kind), Status: Status(f.status), Text: C.GoString(f.text), Name: C.GoString(f.name),
			Part: C.GoString(f.part), Offset: uint64(f.offset), Size: uint64(f.size),
			FirstElement: int64(f.first_element), LastElement: int64(f.last_element),
			MaxAbs: float64(f.max_abs), MaxRel: float64(f.max_rel), Count: uint64(f.count),
		}
	}
	return made, nil
}
