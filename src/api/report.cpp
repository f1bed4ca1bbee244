// ckpt_report: findings.
#include "api/handles.h"

using namespace ckpt;
using namespace ckpt::api;

size_t ckpt_report_count(const ckpt_report* report) { return report ? report->report.findings.size() : 0; }

ckpt_status ckpt_report_at(const ckpt_report* report, size_t index, ckpt_finding* out, ckpt_error** err) {
  return guard(err, [&] {
    if (!report) return null_status("report");
    if (index >= report->report.findings.size())
      return Status(CKPT_NOT_FOUND, strformat("finding {} of {}", index, report->report.findings.size()));
    const Finding& from = report->report.findings[index];
    ckpt_finding finding{};
    finding.kind = from.kind;
    finding.status = from.status;
    finding.text = from.text.c_str();
    finding.name = from.name.empty() ? nullptr : from.name.c_str();
    finding.part = from.part.empty() ? nullptr : from.part.c_str();
    finding.offset = from.offset;
    finding.size = from.size;
    finding.first_element = from.first_element;
    finding.last_element = from.last_element;
    finding.max_abs = from.max_abs;
    finding.max_rel = from.max_rel;
    finding.count = from.count;
    return put_info(finding, out);
  });
}

void ckpt_report_free(ckpt_report* report) { release(report); }
