// What calls say when one question to the store, or every one from then on, gets no answer: that, and nothing about a
// checkpoint. In a clean store a call that answers all the same must say what it says without a fault.
#include "checkpoint/engine.h"
#include "checkpoint/select.h"
#include "commit/retention.h"
#include "maintain/repair.h"
#include "maintain/verify.h"
#include "session/runs.h"

namespace ckpt::commit {
namespace {

using Store = std::shared_ptr<store::Store>;

// Adds what it found to the report.
struct Question {
  const char* name;
  std::function<Status(const Store&, Report*)> ask;
  ckpt_status answer = CKPT_OK;
};

Status list(const Store& store, Report* report) {
  CKPT_ASSIGN(const auto entries, checkpoint::list_places(*store));
  for (const auto& entry : entries)
    if (entry.unusable()) report->add(CKPT_FINDING_DAMAGED, entry.problem.code(), entry.id, entry.problem.message());
  return Ok();
}

Status verify(const Store& store, Report* report) {
  CKPT_ASSIGN(auto checkpoint, checkpoint::Checkpoint::open(store, {"s3.1.1", "main"}));
  Job job;
  Status verified = maintain::verify_checkpoint(*checkpoint, {.threads = 1, .verify_mode = "full"}, job);
  report->findings = job.report.findings;
  return verified;
}

Status label(const Store& store, Report* report) {
  CKPT_ASSIGN(const Id id, checkpoint::find_store_id(*store));
  CKPT_ASSIGN(const auto found, checkpoint::find_label(*store, {id, "main", "s2"}, [](const auto&) { return Ok(); }));
  for (const auto& entry : found.damaged)
    report->add(CKPT_FINDING_DAMAGED, entry.problem.code(), entry.id, entry.problem.message());
  return found.sound || !found.damaged.empty() ? Ok() : Status(CKPT_NOT_FOUND, "nobody has the label");
}

Status prune(const Store& store, Report* report) {
  Job job;
  return apply_retention(*store, {.run = "main", .keep_last = 1, .protect = "s1", .dry_run = true}, report, job);
}

Status runs(const Store& store, Report*) {
  CKPT_ASSIGN(const auto runs, session::list_runs(*store));  // one that cannot be read is not counted
  return runs.size() == 1 ? Ok() : Status(CKPT_NOT_FOUND, "the run is not seen");
}

Status open_as(const Store& store, std::string_view selector) {
  return checkpoint::Checkpoint::open(store, {selector, "main"}).status();
}

const Question kQuestions[] = {
    {"list", list},
    {"verify", verify},
    {"label", label},
    {"prune", prune},
    {"runs", runs},
    {"repair",
     [](const Store& store, Report* report) {
       return maintain::repair_checkpoint(*store, "s2.1.1", true, false, report);
     },
     CKPT_EXISTS},
    {"latest", [](const Store& store, Report*) { return open_as(store, "latest"); }},
    {"step", [](const Store& store, Report*) { return open_as(store, "step:2"); }},
    {"token",
     [](const Store& store, Report*) {
       CKPT_ASSIGN(const uint64_t token, checkpoint::highest_token(*store));
       return token == 1 ? Ok() : Status(CKPT_NOT_FOUND, "the session is not seen");
     }},
};

// Asks; the question of that number gets `code`. Whether it was that many.
bool ask(const Question& question, const Store& inner, size_t number, ckpt_status code) {
  const auto shell = std::make_shared<store::ShellStore>(inner);
  shell->on_read([](std::string_view, uint64_t) {});
  const bool is_over = code == CKPT_TIMEOUT || code == CKPT_CANCELLED;
  size_t asked = 0;
  std::string at;
  shell->before([&](std::string_view operation, std::string_view key) {
    if (++asked < number || (asked > number && !is_over)) return Ok();
    if (asked == number) at = std::string(operation) + " " + std::string(key);
    return Status(code, "no answer");
  });
  Report report;
  const Status told = question.ask(shell, &report);
  const std::string where =
      strformat("{}, {} at {}: {} {}", question.name, status_name(code), at, status_name(told.code()), told.message());
  EXPECT_TRUE(told.code() == code || told.code() == question.answer) << where;
  for (const Finding& finding : report.findings) {
    const bool may_be_told = finding.kind == CKPT_FINDING_DAMAGED && finding.status == CKPT_IO;
    EXPECT_TRUE(may_be_told || finding.kind == CKPT_FINDING_REMOVED || finding.kind == CKPT_FINDING_KEPT)
        << where << ": " << finding.text;
  }
  return asked >= number;
}

// An object and a table.
Status save_table(const std::shared_ptr<session::Session>& session, int64_t step) {
  static constexpr uint64_t kIds[] = {3, 1, 2};
  static constexpr float kValues[] = {30, 10, 20};
  const void* const values[] = {kValues};
  const uint64_t bytes[] = {sizeof kValues};
  CKPT_ASSIGN(auto save, save::Save::make(session, "s" + std::to_string(step), step, {}));
  CKPT_TRY(save->add_object("o", "text/plain", CKPT_OBJECT_SHARED, as_bytes("object")));
  save::TableRequest table{};
  ckpt_table_desc& desc = table.desc;
  desc.struct_size = sizeof desc;
  desc.id_dtype = CKPT_DTYPE_I64;
  desc.row_count = 3;
  desc.bucket_count = 8;
  desc.column_count = 1;
  table.ids = kIds;
  table.ids_bytes = sizeof kIds;
  save::TableRequest::Column& column = table.columns.emplace_back();
  column.name = "v";
  column.desc.struct_size = sizeof column.desc;
  column.desc.dtype = CKPT_DTYPE_F32;
  column.data = values;
  column.data_bytes = bytes;
  CKPT_TRY(save->add_table("t", table));
  return run_whole(*save);
}

TEST(NoAnswer, IsNoFactAboutACheckpointWhateverWasAskedFor) {
  const Store inner = fresh_memory_store();
  const auto session = open_session(inner);
  for (int64_t step : {1, 2, 3}) ASSERT_TRUE(save_table(session, step).ok());
  for (const Question& question : kQuestions)
    for (const ckpt_status code : {CKPT_TIMEOUT, CKPT_CANCELLED, CKPT_NOMEM, CKPT_IO})
      for (size_t number = 1; ask(question, inner, number, code); number++) ASSERT_LT(number, 1000u);
}

}  // namespace
}  // namespace ckpt::commit
