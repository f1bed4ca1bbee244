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
		made.findings[i] = makeFinding(&f)
	}
	return made, nil
}
