#include "maintain/check_store.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <set>

#include "base/call.h"
#include "base/parallel.h"
#include "base/types.h"
#include "store/io_queue.h"

namespace ckpt::maintain {
namespace {

using store::Store;

// An answer, or what is wrong with it.
Status broken(std::string what) { return Status(CKPT_CONFLICT, std::move(what)); }
Status need(bool holds, std::string otherwise) { return holds ? Ok() : broken(std::move(otherwise)); }
Status expect(const Status& told, ckpt_status wanted, std::string_view what) {
  if (told.code() == wanted) return Ok();
  return broken(strformat("{}: expected {}, found {}{}", what, status_name(wanted), status_name(told.code()),
                          told.ok() ? "" : ": ") +
                told.message());
}

std::vector<std::byte> pattern(uint64_t size, uint64_t seed) {
  std::vector<std::byte> bytes(size);
  for (uint64_t i = 0; i < size; i++) bytes[i] = static_cast<std::byte>(((i + seed * 977) * 2654435761u) >> 13);
  return bytes;
}

// Seeing what a list may still lack. Asks until it holds, at last once the delay is over.
Status await_list(const Store& store, const std::string& directory,
                  const std::function<bool(const std::string&)>& has) {
  const int64_t delay = store.traits().list_delay_ms, until = steady_ms() + delay;
  for (;;) {
    const bool last = steady_ms() > until || delay == 0;
    auto entries = store.list(directory);
    std::string names = "/";
    if (entries.status().code() != CKPT_NOT_FOUND) CKPT_TRY(entries.status());
    for (size_t i = 0; entries.ok() && i < entries->size(); i++) names += (*entries)[i].name + "/";
    if (has(names)) return Ok();
    if (last) return broken(strformat("a list {} ms later is wrong", delay));
    CKPT_TRY(CallContext::current().pause(10));
  }
}

class Probe {
 public:
  Probe(Store& store, std::string directory) : store_(store), directory_(std::move(directory)) {}

  // Whoever may not write, or reaches no server, learns that and nothing of promises.
  Status begin() { return put("begin", "begin"); }
  // ---- each returns CONFLICT where what it tries does not hold, and sets what it found ----
  Status absent(Promise&);
  Status exclusive_put(Promise& found);
  Status large_file(Promise& found);
  Status whole_at_once(Promise&);
  Status publish_if_absent(Promise&);
  Status ranges(Promise&);
  Status versions(Promise& found);
  Status lists(Promise&);
  Status long_list(Promise& found);
  Status removal(Promise&);
  Status ages(Promise& found);
  Status clean();

 private:
  // Each of them is removed in the end, since a list may lack some.
  std::string key(std::string_view name) {
    const std::lock_guard lock(mutex_);
    return *asked_.insert(strformat("{}/{}", directory_, name)).first;
  }
  Status put(std::string_view name, std::string_view text) { return store_.put_if_absent(key(name), as_bytes(text)); }
  Status has(std::string_view name, Bytes wanted) {
    CKPT_ASSIGN(const auto found, store_.get(key(name), wanted.size() + 1));
    return need(std::ranges::equal(found, wanted), strformat("{}: other bytes than were put", key(name)));
  }
  Result<std::unique_ptr<store::Writer>> begin_file(std::string_view name, Bytes bytes);
  Status write(std::string_view name, Bytes bytes);
  Result<unsigned> race(unsigned threads, unsigned rivals, const std::function<Status(unsigned)>& make);
  Status old_or_gone(const store::Reader& file, std::string_view old, Promise& found);

  static constexpr unsigned kThreads = 16;
  Store& store_;
  const std::string directory_;
  // More than one block, where those are no larger than they mostly are.
  const uint64_t several_ = std::min<uint64_t>(store_.traits().block_bytes, 16 << 20) + 1;
  std::mutex mutex_;
  std::set<std::string> asked_;
};

Status Probe::absent(Promise&) {
  CKPT_TRY(expect(store_.open(key("none")).status(), CKPT_NOT_FOUND, "a file that is not there"));
  CKPT_TRY(expect(store_.remove(key("none"), true), CKPT_NOT_FOUND, "its removal"));
  CKPT_ASSIGN(const bool exists, store_.exists(key("none")));
  CKPT_ASSIGN(const bool holds, store_.has_directory(key("none")));
  return need(!exists && !holds, "what is not there is said to exist");
}

// Several make one file: which of them did, if that was one.
Result<unsigned> Probe::race(unsigned threads, unsigned rivals, const std::function<Status(unsigned)>& make) {
  std::atomic<unsigned> winners = 0, winner = 0;
  CKPT_TRY(for_each_parallel(threads, rivals, [&](size_t i) {
    const auto rival = static_cast<unsigned>(i);
    Status told = make(rival);
    if (told.ok()) winners++, winner = rival;
    return told.code() == CKPT_EXISTS ? Ok() : told;
  }));
  if (winners == 1) return winner.load();
  return broken(strformat("{} of {} puts of one name got OK", winners.load(), rivals));
}

Status Probe::exclusive_put(Promise& found) {
  constexpr unsigned kRivals = 8, kRounds = 16;
  const bool at_once = store_.traits().exclusive;
  for (unsigned round = 0; round < kRounds; round++) {
    const std::string name = strformat("slot.{}", round);
    const auto text = [](unsigned rival) { return std::string(5000 + rival, static_cast<char>('a' + rival)); };
    CKPT_ASSIGN(const unsigned winner,
                race(at_once ? kRivals : 1, kRivals, [&](unsigned rival) { return put(name, text(rival)); }));
    CKPT_TRY(has(name, as_bytes(text(winner))));
  }
  if (!at_once) return found.lacks("several processes may both get OK: only one may write here");
  return found.holds(strformat("{} names, each made by one of {} threads", kRounds, kRivals));
}

// As a save writes a part: blocks from several threads.
Result<std::unique_ptr<store::Writer>> Probe::begin_file(std::string_view name, Bytes bytes) {
  const uint64_t block = store_.traits().block_bytes;
  // On a disk what is announced as large wants memory of a kind of its own.
  CKPT_ASSIGN(auto writer, store_.create(key(name), store_.traits().directories ? 0 : bytes.size()));
  CKPT_TRY(for_each_parallel(4, (bytes.size() + block - 1) / block, [&](size_t i) {
    return writer->write_at(i * block, bytes.subspan(i * block, std::min(block, bytes.size() - i * block)));
  }));
  return writer;
}

Status Probe::write(std::string_view name, Bytes bytes) {
  CKPT_ASSIGN(const auto writer, begin_file(name, bytes));
  CKPT_ASSIGN(const bool early, store_.exists(key(name)));
  CKPT_TRY(need(!early, "a file is there before it is published"));
  return writer->publish(bytes.size());
}

// Whoever looks while a file is published sees nothing or all of it.
Status Probe::whole_at_once(Promise&) {
  const auto bytes = pattern(several_, 3);
  CKPT_ASSIGN(const auto writer, begin_file("whole", bytes));
  const std::string name = key("whole");
  std::atomic<bool> over = false;
  return for_each_parallel(2, 2, [&](size_t i) -> Status {
    if (i == 0) {
      Status published = writer->publish(bytes.size());
      over = true;
      return published;
    }
    for (bool last = false; !last;) {
      last = over;
      auto file = store_.open(name);
      if (file.status().code() == CKPT_NOT_FOUND) continue;
      CKPT_TRY(file.status());
      CKPT_TRY(need((*file)->size() == bytes.size(), "a part of a file is seen while it is published"));
      CKPT_TRY(has("whole", bytes));
      break;
    }
    return Ok();
  });
}

Status Probe::large_file(Promise& found) {
  const auto bytes = pattern(3 * store_.traits().block_bytes + 12345, 1);
  const int64_t begin = steady_ms();
  CKPT_TRY(write("large", bytes));
  const int64_t written = steady_ms();
  CKPT_TRY(has("large", bytes));
  const auto rate = [&](int64_t ms) { return bytes.size() / 1000 / static_cast<uint64_t>(std::max<int64_t>(ms, 1)); };
  return found.holds(strformat("{} MiB, written at {} MB/s, read at {} MB/s", bytes.size() >> 20, rate(written - begin),
                               rate(steady_ms() - written)));
}

Status Probe::publish_if_absent(Promise&) {
  CKPT_TRY(put("taken", "first"));
  CKPT_ASSIGN(auto writer, store_.create(key("taken"), 3));
  CKPT_TRY(writer->write_at(0, as_bytes(std::string_view("two"))));
  CKPT_TRY(expect(writer->publish(3), CKPT_EXISTS, "publishing under a name that is taken"));
  CKPT_TRY(has("taken", as_bytes(std::string_view("first"))));
  if (!store_.traits().exclusive) return Ok();
  constexpr unsigned kWriters = 4;
  std::vector<std::vector<std::byte>> bytes;
  for (unsigned i = 0; i < kWriters; i++) bytes.push_back(pattern(several_, i));
  CKPT_ASSIGN(const unsigned winner, race(kWriters, kWriters, [&](unsigned rival) -> Status {
                CKPT_ASSIGN(const auto one, begin_file("raced", bytes[rival]));
                return one->publish(bytes[rival].size());
              }));
  return has("raced", bytes[winner]);
}

Status Probe::ranges(Promise&) {
  const auto bytes = pattern(300000, 2);
  CKPT_TRY(write("ranges", bytes));
  CKPT_ASSIGN(const auto file, store_.open(key("ranges")));
  CKPT_TRY(need(file->size() == bytes.size(), strformat("a file of {} bytes has {}", bytes.size(), file->size())));
  for (const auto& [offset, size] :
       {std::pair<size_t, size_t>{0, 1}, {1, 4095}, {4095, 65537}, {299999, 1}, {7, 299993}}) {
    std::vector<std::byte> out(size);
    CKPT_TRY(file->read_at(offset, out));
    CKPT_TRY(need(std::ranges::equal(out, std::span(bytes).subspan(offset, size)),
                  strformat("{} bytes at {} are others", size, offset)));
  }
  CKPT_TRY(put("empty", ""));
  return has("empty", {});
}

Status Probe::versions(Promise& found) {
  CKPT_TRY(put("replaced", "one"));
  CKPT_ASSIGN(const auto file, store_.open(key("replaced")));
  Status over = store_.put_over(key("replaced"), as_bytes(std::string_view("two")));
  if (over.code() == CKPT_UNSUPPORTED) return found.holds("no file is ever replaced");
  CKPT_TRY(std::move(over));
  CKPT_TRY(has("replaced", as_bytes(std::string_view("two"))));
  CKPT_TRY(old_or_gone(*file, "one", found));
  CKPT_ASSIGN(const auto other, store_.open(key("replaced")));
  CKPT_TRY(store_.remove(key("replaced"), true));
  return old_or_gone(*other, "two", found);
}

// What whoever has opened it gets of a file that is no longer there.
Status Probe::old_or_gone(const store::Reader& file, std::string_view old, Promise& found) {
  std::vector<std::byte> out(old.size());
  const Status read = file.read_at(0, out);
  if (read.code() == CKPT_GONE || (read.ok() && as_text(out) == old)) return Ok();
  if (!file.version().empty()) return read.ok() ? broken("a reader of what was replaced gets other bytes") : read;
  return found.lacks("files have none: whoever loads what is pruned may get CORRUPT in the place of GONE");
}

Status Probe::lists(Promise&) {
  const std::string names[] = {"a", "A", "B", "a.b-c_d+e=f", "a b", "100%", "\xc3\xa9", std::string(200, 'x')};
  for (const std::string& name : names) CKPT_TRY(put("names/" + name, name));
  CKPT_TRY(await_list(store_, directory_ + "/names", [&](const std::string& seen) {
    return std::ranges::all_of(names, [&](const auto& name) { return seen.find("/" + name + "/") != seen.npos; }) &&
           std::ranges::count(seen, '/') == std::ssize(names) + 1;
  }));
  for (const std::string& name : names) CKPT_TRY(has("names/" + name, as_bytes(name)));
  CKPT_ASSIGN(const auto files, store_.usage(directory_ + "/names"));
  for (const store::FileUse& file : files)
    CKPT_TRY(need(file.size == file.name.size(),
                  strformat("a list gives {} bytes to a file of {}", file.size, file.name.size())));
  CKPT_ASSIGN(const bool holds, store_.has_directory(directory_ + "/names"));
  CKPT_TRY(need(holds, "a directory with files is said to be empty"));
  return await_list(store_, directory_, [](const std::string& seen) { return seen.find("/names/") != seen.npos; });
}

// More than servers tell in one answer.
Status Probe::long_list(Promise& found) {
  if (store_.traits().directories) return found.holds("a file system tells all");
  constexpr size_t kMany = 1100;
  CKPT_TRY(for_each_parallel(kThreads, kMany, [&](size_t i) { return put(strformat("many/{}", i), ""); }));
  size_t seen = 0;
  Status told = await_list(store_, directory_ + "/many", [&](const std::string& names) {
    return (seen = static_cast<size_t>(std::ranges::count(names, '/')) - 1) == kMany;
  });
  if (told.code() == CKPT_CONFLICT) return broken(strformat("a list of {} files has {}", kMany, seen));
  return told.ok() ? found.holds(strformat("{} files", kMany)) : told;
}

Status Probe::removal(Promise&) {
  CKPT_TRY(put("removed", "x"));
  CKPT_TRY(store_.remove(key("removed"), true));
  CKPT_TRY(expect(store_.open(key("removed")).status(), CKPT_NOT_FOUND, "a file that was removed"));
  CKPT_TRY(await_list(store_, directory_, [](const std::string& seen) { return seen.find("/removed/") == seen.npos; }));
  return put("removed", "again");
}

Status Probe::ages(Promise& found) {
  if (!store_.traits().tells_age) return found.lacks("it tells none: timeout_ms decides when a rank is dead");
  CKPT_TRY(put("aged", "x"));
  CKPT_ASSIGN(const int64_t age, store_.age_ms(key("aged")));
  constexpr int64_t kMost = 60000, kSecond = 1000;  // many clocks tell seconds
  CKPT_TRY(need(age >= 0 && age < kMost, strformat("a file that was put just now is {} ms old", age)));
  CKPT_TRY(CallContext::current().pause(2 * kSecond + 100));
  CKPT_ASSIGN(const int64_t later, store_.age_ms(key("aged")));
  return need(later >= kSecond && later < kMost, strformat("a file that was put two seconds ago is {} ms old", later));
}

Status Probe::clean() {
  const std::vector<std::string> all(asked_.begin(), asked_.end());
  Status cleaned;
  CKPT_TRY(for_each_parallel(kThreads, all.size(), [&](size_t i) {
    Status told = store_.remove(all[i], false);
    const std::lock_guard lock(mutex_);
    if (cleaned.ok() && told.code() != CKPT_NOT_FOUND) cleaned = std::move(told);
    return Ok();
  }));
  if (!store_.traits().directories) return cleaned;
  for (const std::string& directory : {directory_ + "/names", directory_}) (void)store_.remove_directory(directory);
  return cleaned;
}

}  // namespace

Result<std::vector<Promise>> check_store(store::Store& store) {
  const std::string directory = ".ckpt/check." + to_hex(random_id());
  CKPT_TRY(store.make_root());
  CKPT_TRY(store.make_directory(directory + "/names"));
  Probe probe(store, directory);
  CKPT_TRY(probe.begin());
  using Try = Status (Probe::*)(Promise&);
  constexpr std::pair<const char*, Try> kTries[] = {{"absence", &Probe::absent},
                                                    {"exclusive_put", &Probe::exclusive_put},
                                                    {"large_file", &Probe::large_file},
                                                    {"whole_at_once", &Probe::whole_at_once},
                                                    {"publish_if_absent", &Probe::publish_if_absent},
                                                    {"ranges", &Probe::ranges},
                                                    {"versions", &Probe::versions},
                                                    {"lists", &Probe::lists},
                                                    {"long_list", &Probe::long_list},
                                                    {"removal", &Probe::removal},
                                                    {"ages", &Probe::ages}};
  std::vector<Promise> promises;
  Status over;
  for (const auto& [name, attempt] : kTries) {
    Promise& promise = promises.emplace_back(Promise{name});
    const Status told = (probe.*attempt)(promise);
    if (!told.ok()) promise = {name, Promise::kBroken, told.message()};
    over = CallContext::current().check();
    if (!over.ok()) break;
  }
  const CancelShield also_when_over;
  Status cleaned = probe.clean();
  CKPT_TRY(std::move(over));
  CKPT_TRY(std::move(cleaned));
  return promises;
}

}  // namespace ckpt::maintain
