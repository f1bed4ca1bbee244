#include "commit/holders.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/text.h"
#include "codec/checksum.h"
#include "commit/collect.h"
#include "format/names.h"

namespace ckpt::commit {

using session::Attempt;
using session::Session;

namespace {

// Ranks that hold the same names.
struct Class {
  Digest names;
  std::vector<uint32_t> ranks;
};

Status late(const Attempt& attempt, const std::vector<uint32_t>& ranks, int64_t timeout_ms) {
  return Status(CKPT_TIMEOUT, strformat("{}: rank {} did not tell what it holds within {} ms (option held_by=some)",
                                        attempt.directory, list_ranks(ranks), timeout_ms))
      .with("ranks", list_ranks(ranks));
}

Status bad(const Session& session, const std::string& key) {
  return Status(CKPT_FORMAT, session.store().path(key) + ": not what a rank wrote; something else wrote there")
      .with("path", session.store().path(key));
}

// All bytes of a file as numbers.
template <typename T>
Result<LargeVector<T>> read_all(const Session& session, const std::string& key, uint64_t most) {
  CKPT_ASSIGN(const std::vector<std::byte> file, session.store().get(key, most * sizeof(T)));
  if (file.size() % sizeof(T) != 0) return bad(session, key);
  LargeVector<T> values(file.size() / sizeof(T));
  if (!file.empty()) std::memcpy(values.data(), file.data(), file.size());
  return values;
}

}  // namespace

// ---- telling ----

// The digest of the names. Ranks with the same names write the same file.
static Result<Digest> tell_names(Session& session, const Attempt& attempt, std::span<const uint64_t> names) {
  const Digest digest = codec::xxh3_128(std::as_bytes(names));
  const std::string key = format::names_key(session.plan().token, digest);
  CKPT_ASSIGN(const bool there, session.store().exists(key));  // since an earlier save, mostly
  Status told = there ? Ok() : session.store().put_if_absent(key, std::as_bytes(names));
  if (!told.ok() && told.code() != CKPT_EXISTS) return told;
  CKPT_TRY(session.store().put_own(format::holding_key(attempt.directory, session.rank()),
                                   std::as_bytes(std::span(&digest, 1))));
  return digest;
}

// Rank 0 puts together what each rank told: the digest of its names, in order of rank.
static Result<LargeVector<Digest>> gather(Session& session, const Attempt& attempt, const CommitSettings& settings,
                                          Job& job) {
  LargeVector<Digest> table(session.world_size());
  Awaited awaited;
  awaited.key = [&](uint32_t rank) { return format::holding_key(attempt.directory, rank); };
  awaited.take = [&](uint32_t rank) -> Status {
    CKPT_ASSIGN(const auto digest, read_all<Digest>(session, awaited.key(rank), 1));
    if (digest.size() != 1) return bad(session, awaited.key(rank));
    table[rank] = digest[0];
    return Ok();
  };
  awaited.late = [&](const std::vector<uint32_t>& ranks) { return late(attempt, ranks, settings.timeout_ms); };
  CKPT_TRY(collect(session, attempt, settings, job, 0, session.world_size(), awaited));
  CKPT_TRY(session.store().put_own(format::holders_key(attempt.directory), std::as_bytes(std::span(table))));
  return table;
}

// The others wait for it.
static Result<LargeVector<Digest>> await_table(Session& session, const Attempt& attempt, const CommitSettings& settings,
                                               Job& job) {
  LargeVector<Digest> table;
  Awaited awaited;
  awaited.key = [&](uint32_t) { return format::holders_key(attempt.directory); };
  awaited.take = [&](uint32_t) -> Status {
    CKPT_ASSIGN(table, read_all<Digest>(session, awaited.key(0), session.world_size()));
    return table.size() == session.world_size() ? Ok() : bad(session, awaited.key(0));
  };
  awaited.writer = [](uint32_t) { return 0; };
  awaited.late = [&](const std::vector<uint32_t>&) { return late(attempt, {0}, settings.timeout_ms); };
  CKPT_TRY(collect(session, attempt, settings, job, 0, 1, awaited));
  (void)session.store().remove(format::holding_key(attempt.directory, session.rank()), false);
  return table;
}

// ---- finding ----

static std::vector<Class> classes_of(std::span<const Digest> table) {
  std::vector<Class> classes;
  std::map<Digest, size_t> places;
  for (uint32_t rank = 0; rank < table.size(); rank++) {
    const auto [at, fresh] = places.try_emplace(table[rank], classes.size());
    if (fresh) classes.push_back({table[rank], {}});
    classes[at->second].ranks.push_back(rank);
  }
  return classes;
}

// Adds the ranks of a class to the holders of those of our names that they hold. The group's number tells the classes
// apart that hold a name, so that all its members find the same one.
static void add_class(const Class& found, uint32_t rank, std::span<const uint64_t> theirs,
                      std::span<const uint64_t> names, LargeVector<Holders>* holders) {
  const auto count = static_cast<uint32_t>(found.ranks.size());
  const auto before = static_cast<uint32_t>(std::ranges::lower_bound(found.ranks, rank) - found.ranks.begin());
  auto at = theirs.begin();
  for (size_t i = 0; i < names.size(); i++) {
    while (at != theirs.end() && *at < names[i]) ++at;
    if (at == theirs.end()) break;
    if (*at != names[i]) continue;
    Holders& of = (*holders)[i];
    const uint64_t mixed[] = {of.group, found.names.lo, found.names.hi};
    of.group = codec::xxh3_64(std::as_bytes(std::span(mixed)));
    of.index += before;
    of.count += count;
  }
}

Result<LargeVector<Holders>> find_holders(Session& session, const Attempt& attempt, const CommitSettings& settings,
                                          Job& job, std::span<const uint64_t> names) {
  CKPT_ASSIGN(const Digest own, tell_names(session, attempt, names));
  CKPT_ASSIGN(const auto table, session.rank() == 0 ? gather(session, attempt, settings, job)
                                                    : await_table(session, attempt, settings, job));
  LargeVector<Holders> holders(names.size());
  for (const Class& found : classes_of(table)) {
    LargeVector<uint64_t> theirs;
    const std::string key = format::names_key(session.plan().token, found.names);
    if (found.names != own) {
      CKPT_ASSIGN(theirs, read_all<uint64_t>(session, key, uint64_t{1} << 32));
      if (codec::xxh3_128(std::as_bytes(std::span(theirs))) != found.names) return bad(session, key);
    }
    add_class(found, session.rank(), found.names == own ? names : std::span<const uint64_t>(theirs), names, &holders);
  }
  for (Holders& of : holders)
    if (of.count == session.world_size()) of.group = 0;
  return holders;
}

void remove_holders(Session& session, const Attempt& attempt) {
  (void)session.store().remove(format::holding_key(attempt.directory, 0), false);
  (void)session.store().remove(format::holders_key(attempt.directory), false);
}

}  // namespace ckpt::commit
