#include "checkpoint/given_names.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "checkpoint/not_found.h"
#include "checkpoint/selector.h"
#include "format/names.h"

namespace ckpt::checkpoint {
namespace {

struct Word {
  uint64_t number = 0;  // 0: there is none
  std::string id;       // "": the name was taken away
};

// A store that has every file that it is asked for must not keep a reader for ever.
constexpr uint64_t kMostWords = 1 << 20;

Result<Word> read_word(const store::Store& store, const std::string& key, uint64_t number) {
  CKPT_ASSIGN(const auto text, store.get(key, 512));
  std::string_view id = as_text(text);
  const bool whole = id.ends_with('\n');
  id.remove_suffix(whole ? 1 : 0);
  if (whole && number <= kMostWords && (id.empty() || can_be_id(id))) return Word{number, std::string(id)};
  return Status(CKPT_FORMAT, store.path(key) + ": expected the id of a checkpoint").with("path", store.path(key));
}

// `seen`: the numbers of the words on the way to it.
Result<Word> last_word(const store::Store& store, std::string_view run, std::string_view name,
                       std::vector<uint64_t>* seen = nullptr) {
  Word last;
  for (unsigned bit = 0;;) {
    const uint64_t above = last.number >> bit, next = (above | 1) << bit++;
    if (next <= last.number) continue;
    auto word = read_word(store, format::given_name_key(run, name, next), next);
    if (word.status().code() == CKPT_NOT_FOUND) {
      if (above == 0) return last;
      continue;
    }
    CKPT_ASSIGN(last, std::move(word));
    if (seen) seen->push_back(next);
    bit = 0;
  }
}

bool stays(uint64_t word, uint64_t last) {
  const uint64_t lowest = word & (~word + 1);
  return std::has_single_bit(word) || (last & ~(lowest - 1)) == word;
}

// Whoever is faster says his word first, and then ours is the next one.
Status say(store::Store& store, std::string_view run, std::string_view name, std::string_view id) {
  constexpr int kTries = 100;
  const auto key = [&](uint64_t number) { return format::given_name_key(run, name, number); };
  Status put;
  for (int i = 0; i < kTries; i++) {
    std::vector<uint64_t> seen;
    CKPT_ASSIGN(const Word last, last_word(store, run, name, &seen));
    if (last.id == id) return Ok();
    const uint64_t number = last.number + 1;
    put = store.put_if_absent(key(number), as_bytes(std::string(id) + "\n"));
    if (put.code() == CKPT_EXISTS) continue;
    for (size_t k = 0; put.ok() && k < seen.size(); k++)
      if (!stays(seen[k], number)) (void)store.remove(key(seen[k]), false);
    return put;
  }
  return put;
}

}  // namespace

Result<std::string> named_id(const store::Store& store, std::string_view run, std::string_view name) {
  CKPT_TRY(format::check_run(run));
  CKPT_TRY(format::check_given_name(name));
  CKPT_ASSIGN(Word last, last_word(store, run, name));
  return std::move(last.id);
}

void note_names(const store::Store& store, std::span<CheckpointEntry> entries) {
  std::set<std::pair<std::string, std::string>> names;  // by run
  const auto runs = store.list(format::kGivenNamesDir);
  for (size_t i = 0; runs.ok() && i < runs->size(); i++) {
    const std::string& run = (*runs)[i].name;
    const auto words = store.list(format::given_names_dir(run));
    for (size_t k = 0; words.ok() && k < words->size(); k++)
      if (const auto name = format::parse_given_name((*words)[k].name)) names.emplace(run, *name);
  }
  for (const auto& [run, name] : names) {
    const auto id = named_id(store, run, name);
    const auto entry = std::ranges::find_if(entries, [&](const auto& one) { return id.ok() && one.id == *id; });
    if (entry == entries.end() || entry->names.size() + name.size() + 2 > sizeof(ckpt_checkpoint_info::names)) continue;
    entry->names += (entry->names.empty() ? "" : " ") + name;
  }
}

Status give_name(store::Store& store, std::string_view run, std::string_view name, std::string_view id) {
  CKPT_TRY(format::check_run(run));
  CKPT_TRY(format::check_given_name(name));
  CKPT_ASSIGN(const CheckpointEntry entry, committed_entry(store, id));
  if (entry.summary.run != run)
    return Status(CKPT_INVALID,
                  strformat("{} is of run {}, not of {}", store.path(id), in_quotes(entry.summary.run), in_quotes(run)))
        .with("path", store.path(id))
        .with("expected", std::string(run))
        .with("found", entry.summary.run);
  auto lock = store.lock_shared(format::slot_key(id));  // as a reader: nobody removes it meanwhile, if locks do that
  CKPT_TRY(lock.status());
  CKPT_TRY(store.make_directory(format::given_names_dir(run)));
  CKPT_TRY(say(store, run, name, id));
  return committed_entry(store, id).status();
}

Status take_name(store::Store& store, std::string_view run, std::string_view name) {
  CKPT_ASSIGN(const std::string id, named_id(store, run, name));
  if (id.empty()) return explain_not_found(store, "name:" + std::string(name), run);
  return say(store, run, name, "");
}

}  // namespace ckpt::checkpoint
