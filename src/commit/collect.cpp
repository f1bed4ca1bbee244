#include "commit/collect.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "base/parallel.h"
#include "base/text.h"
#include "commit/outcome.h"
#include "format/names.h"

namespace ckpt::commit {

using session::Attempt;
using session::Session;

// Ranks that counted differently write under another attempt of the label. That explains a rank that never comes.
static std::string found_elsewhere(const Session& session, const Attempt& attempt) {
  auto entries = session.store().list("");
  if (!entries.ok()) return "";
  std::string text;
  for (const auto& entry : *entries) {
    auto name = format::parse_checkpoint_dir(entry.name);
    if (!name || name->label != attempt.label || name->token != session.plan().token || name->attempt == attempt.number)
      continue;
    auto files = session.store().list(entry.name);
    if (!files.ok()) continue;
    for (const auto& file : *files)
      if (format::parse_part_name(file.name))
        text += (text.empty() ? "; found elsewhere: " : ", ") + entry.name + "/" + file.name;
  }
  return text;
}

static Status missing_parts(const Session& session, const Attempt& attempt, const std::vector<uint32_t>& missing,
                            int64_t timeout_ms) {
  return Status(CKPT_TIMEOUT, strformat("{}: no part of rank {} within {} ms{}", attempt.directory, list_ranks(missing),
                                        timeout_ms, found_elsewhere(session, attempt)))
      .with("ranks", list_ranks(missing))
      .with("expected", uint64_t{session.world_size()})
      .with("found", session.world_size() - missing.size());
}

static Status check_belongs(const checkpoint::PartFile& part, const Session& session, const Attempt& attempt,
                            uint32_t rank) {
  const format::PartHeader& header = part.header;
  if (header.save_id == attempt.save_id && header.rank == rank && header.world_size == session.world_size())
    return Ok();
  return checkpoint::at_part(
      Status(CKPT_MISMATCH,
             strformat("part of save {}, rank {} of {}, expected save {}, rank {} of {}", to_hex(header.save_id),
                       header.rank, header.world_size, to_hex(attempt.save_id), rank, session.world_size())),
      session.store(), attempt.directory, rank);
}

// ---- waiting ----

// So many files are worth several threads.
static constexpr size_t kManyFiles = 16;

// Of a file that may be there: another try may read it, unless the time is up, which the caller sees.
static bool is_unread(ckpt_status code) { return code == CKPT_IO || code == CKPT_TIMEOUT; }

// Of many that are there each would take some time, and all together more than there is.
static Status take_in_time(const Awaited& awaited, uint32_t number) {
  Status over = CallContext::current().check();
  if (over.ok()) return awaited.take(number);
  if (over.code() != CKPT_TIMEOUT) return over;
  return std::move(over).in(awaited.key(number) + ": the time was up before it was read");
}

// Files of a try that may be there, and why the first of them was not read.
struct Unread {
  std::vector<uint32_t> numbers;
  Status why;
};

// Takes the first `count` of the missing files. What is not there stays missing, or is again: a rank takes its part
// back once the attempt is closed, and then the slot says why. So does what is not read, since the next try may
// succeed.
static Status take_files(const Awaited& awaited, size_t count, unsigned threads, std::vector<uint32_t>* missing,
                         Unread* unread) {
  std::vector<Status> taken(count);
  CKPT_TRY(for_each_parallel(count < kManyFiles ? 1 : threads, count, [&](size_t i) {
    taken[i] = take_in_time(awaited, (*missing)[i]);
    return Ok();
  }));
  std::vector<uint32_t> still;
  for (size_t i = 0; i < count; i++) {
    if (taken[i].ok()) continue;
    const ckpt_status code = taken[i].code();
    if (code != CKPT_NOT_FOUND && code != CKPT_GONE && !is_unread(code)) return std::move(taken[i]);
    still.push_back((*missing)[i]);
    if (!is_unread(code)) continue;
    if (unread->why.ok()) unread->why = std::move(taken[i]);
    unread->numbers.push_back((*missing)[i]);
  }
  missing->erase(missing->begin(), missing->begin() + static_cast<ptrdiff_t>(count));
  missing->insert(missing->begin(), still.begin(), still.end());
  return Ok();
}

// Asks for the first missing file only. Once it has come, others may have come too: tries twice as many each time,
// until one is missing. So what is not there costs few questions, however many files are awaited.
static Status take_arrived(const Session& session, const Awaited& awaited, unsigned threads,
                           std::vector<uint32_t>* missing, Status* unreadable) {
  auto there = session.store().exists(awaited.key((*missing)[0]));
  if (is_unread(there.status().code())) *unreadable = there.status();
  if (!there.ok()) return is_unread(there.status().code()) ? Ok() : std::move(there).status();
  Unread unread;
  for (size_t count = *there ? 1 : 0; count != 0; count = std::min(count * 2, missing->size())) {
    const size_t before = missing->size();
    CKPT_TRY(take_files(awaited, count, threads, missing, &unread));
    if (before - missing->size() != count) break;
  }
  *unreadable = std::move(unread.why);
  return Ok();
}

// Another rank's failure shows soon; only silence takes until the deadline. Nobody commits without what this rank makes
// of these files, so a slot that cannot be read holds no commit.
static Status check_open(OutcomePoll& poll, Status* unreadable) {
  Status outcome = poll.ask();
  if (outcome.code() == CKPT_NOT_FOUND) return Ok();
  if (outcome.ok()) return Status(CKPT_INTERNAL, "committed before all parts were there");
  if (outcome.code() == CKPT_GONE) return Status(CKPT_ABORTED, outcome.message());
  if (outcome.code() != CKPT_COMMIT_UNKNOWN) return outcome;
  *unreadable = Status(CKPT_IO, outcome.message());
  return Ok();
}

static std::vector<uint32_t> numbers_from(uint32_t first, uint32_t count) {
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

static std::vector<uint32_t> writers_of(const Awaited& awaited, std::vector<uint32_t> numbers) {
  if (awaited.writer)
    for (uint32_t& number : numbers) number = awaited.writer(number);
  return numbers;
}

// This rank wrote its own file before it began to collect, and that is the first one: nobody else will bring it.
static Status check_own(const Session& session, const Attempt& attempt, const Awaited& awaited, uint32_t number) {
  if ((awaited.writer ? awaited.writer(number) : number) != session.rank()) return Ok();
  // It was taken back if the attempt is closed, and then the slot says why.
  Status outcome = read_outcome(session, attempt);
  if (outcome.code() == CKPT_GONE) return Status(CKPT_ABORTED, outcome.message());
  if (outcome.code() != CKPT_NOT_FOUND && outcome.code() != CKPT_COMMIT_UNKNOWN) return outcome;
  const std::string path = session.store().path(awaited.key(number));
  return Status(CKPT_IO, path + ": this rank wrote it, and it is not there any more").with("path", path);
}

static ContextScope last_look() {
  constexpr int64_t kLastLookMs = 2000;
  return ContextScope(CallContext::current().ending_at(steady_ms() + kLastLookMs));
}

// What came just before the time was up. A rank that wrote nothing explains more than files that rank 0 did not get to.
// Giving up has its own time after that.
static Status take_last(const Awaited& awaited, unsigned threads, std::vector<uint32_t> missing) {
  Unread unread;
  {
    const ContextScope within = last_look();
    CKPT_TRY(take_files(awaited, missing.size(), threads, &missing, &unread));  // those after the first
  }
  if (missing.empty()) return Ok();
  std::vector<uint32_t> absent;
  std::ranges::set_difference(missing, unread.numbers, std::back_inserter(absent));
  if (absent.empty()) return std::move(unread.why).with("ranks", list_ranks(writers_of(awaited, std::move(missing))));
  const ContextScope within = last_look();  // it asks the store, too
  return awaited.late(absent);
}

// Every other poll looks at the slot.
Status collect(Session& session, const Attempt& attempt, const CommitSettings& settings, Job& job, uint32_t first,
               uint32_t count, const Awaited& awaited) {
  std::vector<uint32_t> missing = numbers_from(first, count);
  FaultWatch faults;  // of the files: that the slot can be read does not help them
  OutcomePoll poll(session, attempt);
  bool look = false;
  for (Backoff backoff(settings.timeout_ms); !missing.empty(); look = !look) {
    CKPT_TRY(job.check());
    const ContextScope within = backoff.within();
    const size_t before = missing.size();
    Status unreadable;
    CKPT_TRY(look ? check_open(poll, &unreadable)
                  : take_arrived(session, awaited, settings.threads, &missing, &unreadable));
    if (missing.size() != before) backoff.reset();
    if (look ? poll.fails() : faults.lasts(!unreadable.ok())) return unreadable;
    if (backoff.expired()) break;
    if (missing.empty()) break;
    if (!look && unreadable.ok()) CKPT_TRY(check_own(session, attempt, awaited, missing[0]));
    CKPT_TRY(session.check_alive(attempt, writers_of(awaited, missing)));  // a rank that is gone writes no more
    backoff.sleep();
  }
  return missing.empty() ? Ok() : take_last(awaited, settings.threads, std::move(missing));
}

Result<std::vector<checkpoint::PartFile>> collect_parts(Session& session, const Attempt& attempt,
                                                        const CommitSettings& settings, Job& job, uint32_t first,
                                                        uint32_t count) {
  std::vector<checkpoint::PartFile> parts(count);
  Awaited awaited;
  awaited.key = [&](uint32_t rank) { return format::part_key(attempt.directory, rank); };
  awaited.take = [&](uint32_t rank) -> Status {
    CKPT_ASSIGN(checkpoint::PartFile part, checkpoint::open_part(session.store(), attempt.directory, rank));
    CKPT_TRY(check_belongs(part, session, attempt, rank));
    part.file.reset();  // a thousand ranks must not take a thousand descriptors
    parts[rank - first] = std::move(part);
    return Ok();
  };
  awaited.late = [&](const std::vector<uint32_t>& missing) {
    return missing_parts(session, attempt, missing, settings.timeout_ms);
  };
  CKPT_TRY(collect(session, attempt, settings, job, first, count, awaited));
  return parts;
}

// ---- groups of ranks ----

// The ranks whose parts are not there; if all are, the leaders that did not gather them.
static Status missing_groups(const Session& session, const Attempt& attempt, const RankGroups& groups,
                             const std::vector<uint32_t>& missing, int64_t timeout_ms) {
  std::set<std::string> there;
  if (auto files = session.store().list(attempt.directory); files.ok())
    for (const auto& file : *files) there.insert(file.name);
  std::vector<uint32_t> ranks, leaders;
  for (uint32_t group : missing) {
    leaders.push_back(groups.first(group));
    for (uint32_t rank : numbers_from(groups.first(group), groups.ranks(group)))
      if (!there.contains(format::part_name(rank))) ranks.push_back(rank);
  }
  if (!ranks.empty()) return missing_parts(session, attempt, ranks, timeout_ms);
  return Status(CKPT_TIMEOUT, strformat("{}: all parts are there, but rank {} did not gather those of its group of {} "
                                        "ranks within {} ms",
                                        attempt.directory, list_ranks(leaders), groups.size, timeout_ms))
      .with("ranks", list_ranks(leaders));
}

Result<std::vector<Gathered>> collect_groups(Session& session, const Attempt& attempt, const CommitSettings& settings,
                                             Job& job, const RankGroups& groups) {
  std::vector<Gathered> gathered(groups.count() - 1);
  Awaited awaited;
  awaited.key = [&](uint32_t group) { return format::group_key(attempt.directory, group); };
  awaited.take = [&](uint32_t group) -> Status {
    CKPT_ASSIGN(gathered[group - 1], get_group(session.store(), attempt.directory, group, groups, attempt.save_id));
    return Ok();
  };
  awaited.writer = [&](uint32_t group) { return groups.first(group); };
  awaited.late = [&](const std::vector<uint32_t>& missing) {
    return missing_groups(session, attempt, groups, missing, settings.timeout_ms);
  };
  CKPT_TRY(collect(session, attempt, settings, job, 1, groups.count() - 1, awaited));
  return gathered;
}

}  // namespace ckpt::commit
