#include "commit/kept.h"

#include <set>

#include "base/strformat.h"
#include "checkpoint/catalog.h"
#include "checkpoint/not_found.h"
#include "format/names.h"

namespace ckpt::commit {
namespace {

constexpr std::string_view kKept = "kept\n", kReleased = "released\n", kRemoving = "removing\n";

struct Last {
  uint64_t number = 0;  // 0: there is no word
  std::string word;
};

// One after the other, since a list may lag behind.
Result<Last> last_word(const store::Store& store, std::string_view id) {
  for (Last last;;) {
    auto text = store.get(format::kept_key(id, last.number + 1), 64);
    if (text.status().code() == CKPT_NOT_FOUND) return last;
    CKPT_TRY(text.status());
    last = {last.number + 1, std::string(as_text(*text))};
  }
}

Status refuse(const store::Store& store, std::string_view id, const std::string& why) {
  return Status(CKPT_CONFLICT, store.path(id) + why).with("path", store.path(id));
}

// Says `word` if `may` allows it after the last one, or if that is the last one already. Whoever is faster says his
// first, and then that is the last one. Returns how many words there are.
template <typename May>
Result<uint64_t> say(store::Store& store, std::string_view id, std::string_view word, const May& may) {
  constexpr int kTries = 100, kCostOfIo = 25;
  CKPT_TRY(needs_room(store.make_directory(format::kKeptDir)));
  Status put;
  for (int tries = 0; tries < kTries; tries += put.code() == CKPT_IO ? kCostOfIo : 1) {
    CKPT_ASSIGN(const Last last, last_word(store, id));
    if (last.word == word) return last.number;
    CKPT_TRY(may(last.word));
    put = store.put_if_absent(format::kept_key(id, last.number + 1), as_bytes(word));
    if (put.ok()) return last.number + 1;
    if (put.code() != CKPT_EXISTS && put.code() != CKPT_IO)
      return needs_room(std::move(put));  // of an IO the next look tells what was put
  }
  return put;
}

}  // namespace

Status needs_room(Status status) {
  if (status.code() != CKPT_NO_SPACE) return status;
  return std::move(status).in(
      "a small file must be written first, so remove another checkpoint (ckpt rm, which needs "
      "no room), or any other file, and try again");
}

Result<bool> is_kept(const store::Store& store, std::string_view id) {
  CKPT_ASSIGN(const Last last, last_word(store, id));
  return last.word == kKept;
}

void note_kept(const store::Store& store, std::span<checkpoint::CheckpointEntry> entries) {
  const auto words = store.list(format::kKeptDir);
  std::set<std::string_view> ids;
  for (size_t i = 0; words.ok() && i < words->size(); i++)
    ids.insert(std::string_view((*words)[i].name).substr(0, (*words)[i].name.rfind('.')));
  for (checkpoint::CheckpointEntry& entry : entries)
    if (ids.contains(entry.id)) note_kept(store, entry);
}

void note_kept(const store::Store& store, checkpoint::CheckpointEntry& entry) {
  if (entry.in_mirror()) return;
  const auto kept = is_kept(store, entry.id);
  entry.kept = kept.ok() && *kept;
}

Status keep(store::Store& store, std::string_view id) {
  CKPT_TRY(checkpoint::committed_entry(store, id).status());
  auto lock = store.lock_shared(format::slot_key(id));  // as a reader: nobody removes it meanwhile, if locks do that
  CKPT_TRY(lock.status());
  CKPT_ASSIGN(const uint64_t words, say(store, id, kKept, [&](const std::string& last) {
                if (last != kRemoving) return Ok();
                return refuse(store, id,
                              ": somebody has begun to remove it, and may go on at any time: ckpt cp saves its bytes");
              }));
  // A removal that was over before that word leaves nothing to keep.
  Status there = checkpoint::committed_entry(store, id).status();
  if (there.code() == CKPT_NOT_FOUND) forget_kept(store, id, words);
  return there;
}

Status release(store::Store& store, std::string_view id) {
  CKPT_ASSIGN(const bool kept, is_kept(store, id));
  if (!kept) return checkpoint::committed_entry(store, id).status();
  return say(store, id, kReleased, [](const std::string&) { return Ok(); }).status();
}

Result<uint64_t> claim_removal(store::Store& store, std::string_view id, bool locked) {
  const auto may = [&](const std::string& last) {
    return last != kKept ? Ok() : refuse(store, id, " is kept, since somebody said so (ckpt keep)").with("kept", "1");
  };
  if (!locked) return say(store, id, kRemoving, may);
  CKPT_ASSIGN(const Last last, last_word(store, id));
  CKPT_TRY(may(last.word));
  return last.number;
}

void forget_kept(store::Store& store, std::string_view id, uint64_t words) {
  for (; words > 0; words--) (void)store.remove(format::kept_key(id, words), false);
}

}  // namespace ckpt::commit
