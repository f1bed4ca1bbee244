// Copies of checkpoints between every kind of store: the same bytes there, every byte checked, gone on with after any
// failure, and what sessions, retention and removal make of a copy.
#include "maintain/copy.h"

#include <atomic>

#include "commit/any_store.h"
#include "commit/commit.h"
#include "commit/retention.h"
#include "maintain/verify.h"
#include "store/remote_store.h"

namespace ckpt::commit {
namespace {

using checkpoint::Checkpoint;

struct Told {
  Status status;
  Report report;
  uint64_t bytes = 0, written = 0, peak = 0;
  bool was_there() const { return !report.findings.empty() && report.findings[0].status == CKPT_EXISTS; }
  uint64_t kept() const { return report.findings.empty() ? 0 : report.findings[0].count; }
};

Told copy(const Checkpoint& from, store::Store& to, const CopyOptions& options = {}) {
  Told told;
  Job job;
  told.status = maintain::copy_checkpoint(from, to, options, &told.report, job);
  told.bytes = job.counters.bytes_done;
  told.written = job.counters.bytes_written;
  told.peak = job.counters.staging_peak_bytes;
  return told;
}

std::shared_ptr<Checkpoint> open(std::shared_ptr<store::Store> store, const std::string& selector = "latest") {
  auto opened = Checkpoint::open(std::move(store), {selector, "main"});
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  return opened.ok() ? *opened : nullptr;
}

Told copy(const Handles& from, const std::string& selector, const Handles& to) {
  return copy(*open(from(), selector), *to());
}

// An f32 matrix of so many MiB.
Status save_large(const std::shared_ptr<session::Session>& session, int64_t step, uint64_t mib) {
  CKPT_ASSIGN(auto save, save::Save::make(session, "s" + std::to_string(step), step, {}));
  std::vector<float> values(mib << 18);
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i * 7 + static_cast<uint64_t>(step));
  CKPT_TRY(save->add_tensor("w", f32_rows(mib << 8, 1024, 0, mib << 8), values.data(), values.size() * 4));
  return run_whole(*save);
}

std::shared_ptr<store::Store> large_source(uint64_t mib, int64_t chunk_bytes = 1 << 20) {
  auto store = fresh_memory_store();
  auto session = session::Session::open(store, 0, 1, nullptr, {.chunk_bytes = chunk_bytes});
  EXPECT_TRUE(session.ok());
  const Status saved = save_large(*session, 1, mib);
  EXPECT_TRUE(saved.ok()) << saved.message();
  return store;
}

// ---- between stores ----

struct Pair {
  Kind from, to;
};
std::ostream& operator<<(std::ostream& out, const Pair& pair) { return out << pair.from << "To" << pair.to; }

std::vector<Pair> pairs() {
  const Kind directory{"Directory", directory_store}, memory{"Memory", memory_store},
      weak{"Weak", [] { return weak_store({}); }};
  return {{directory, directory}, {directory, memory}, {memory, directory},
          {memory, weak},         {weak, directory},   {weak, weak}};
}

std::vector<Pair> s3_pairs() {
  std::vector<Pair> pairs;
  for (const Kind& s3 : s3_kinds()) {
    pairs.push_back({{"Directory", directory_store}, s3});
    pairs.push_back({s3, {"Directory", directory_store}});
    pairs.push_back({s3, s3});
  }
  return pairs;
}

class Copies : public ::testing::TestWithParam<Pair> {
 protected:
  const Handles from = GetParam().from.make(), to = GetParam().to.make();
};
const auto name_of = [](const auto& pair) { return pair.param.from.name + "To" + pair.param.to.name; };
INSTANTIATE_TEST_SUITE_P(Stores, Copies, ::testing::ValuesIn(pairs()), name_of);
INSTANTIATE_TEST_SUITE_P(OnS3, Copies, ::testing::ValuesIn(s3_pairs()), name_of);

TEST_P(Copies, AreTheSameBytesAndTheLatestOfAnEmptyStore) {
  Start start(from, 3);
  for (int64_t step : {1, 2}) ASSERT_TRUE(all_ok(start.save(step)).ok());
  for (const char* selector : {"s1", "latest"}) {
    const Told told = copy(from, selector, to);
    ASSERT_TRUE(told.status.ok()) << told.status.message();
    EXPECT_TRUE(told.report.findings.empty());
  }
  for (const char* id : {"s1.1.1", "s2.1.1"}) EXPECT_EQ(files_of(*to(), id), files_of(*from(), id));
  EXPECT_EQ(*load(to, "latest", 2), 2);
  EXPECT_EQ(*load(to, "s1"), 1);
  EXPECT_EQ(*load(to, "step:1"), 1);
  Job job;
  ASSERT_TRUE(maintain::verify_checkpoint(*open(to()), {}, job).ok());
  EXPECT_TRUE(job.report.findings.empty());
  EXPECT_TRUE(checkpoint::await_listings(*to()).ok());
  auto records = to()->list(format::kAttemptsDir);
  EXPECT_TRUE(!records.ok() || records->empty()) << "a record stayed";
}

TEST_P(Copies, OfPartsOfManyBlocksAreTheSameBytes) {
  ASSERT_TRUE(save_large(open_session(from()), 1, 21).ok());
  const Told told = copy(*open(from()), *to(), {.staging_bytes = 48 << 20});
  ASSERT_TRUE(told.status.ok()) << told.status.message();
  EXPECT_EQ(told.written, told.bytes);
  EXPECT_EQ(files_of(*to(), "s1.1.1"), files_of(*from(), "s1.1.1"));
}

TEST_P(Copies, OfWhatIsThereAreOkAndMoveNothing) {
  Start start(from, 2);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  ASSERT_TRUE(copy(from, "s1", to).status.ok());
  const Told again = copy(from, "s1", to);
  EXPECT_TRUE(again.status.ok()) << again.status.message();
  EXPECT_TRUE(again.was_there());
  EXPECT_EQ(again.bytes, 0u);
  const Told full = copy(*open(from()), *to(), {.check = "full"});
  EXPECT_TRUE(full.was_there());
  EXPECT_GT(full.bytes, 0u);
  EXPECT_EQ(full.written, 0u);
}

TEST_P(Copies, GoOnWithThePartsThatAreThere) {
  Start start(from, 3);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  auto target = std::make_shared<store::ShellStore>(to());
  target->before([](std::string_view operation, std::string_view key) {
    return operation == "create" && key == "s1.1.1/PART_002" ? Status(CKPT_IO, "the cable") : Ok();
  });
  const Told first = copy(*open(from()), *target, {.threads = 1});
  EXPECT_EQ(first.status.code(), CKPT_IO);
  EXPECT_EQ(load(to, "latest").status().code(), CKPT_NOT_FOUND);
  EXPECT_TRUE(checkpoint::await_listings(*to()).ok());
  const Told second = copy(from, "latest", to);
  ASSERT_TRUE(second.status.ok()) << second.status.message();
  EXPECT_EQ(second.kept(), files_of(*from(), "s1.1.1").size() - 2);  // all parts but one, and MANIFEST
  EXPECT_EQ(files_of(*to(), "s1.1.1"), files_of(*from(), "s1.1.1"));
  EXPECT_EQ(*load(to, "latest", 2), 1);
}

TEST_P(Copies, MadeTwiceAtOnceBothEndWell) {
  Start start(from, 3);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  Told told[2];
  std::thread other([&] { told[1] = copy(from, "s1", to); });
  told[0] = copy(from, "s1", to);
  other.join();
  for (const Told& one : told) EXPECT_TRUE(one.status.ok()) << one.status.message();
  EXPECT_EQ(files_of(*to(), "s1.1.1"), files_of(*from(), "s1.1.1"));
}

TEST_P(Copies, OfARemovedCheckpointAreGoneOrWhole) {
  Start start(from, 2);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  const auto source = open(from());
  ASSERT_TRUE(all_ok(start.save(2)).ok());
  auto target = std::make_shared<store::ShellStore>(to());
  target->once("create", "s1.1.1/PART_001", [&] { (void)remove_by_id(*from(), "s1.1.1"); });
  const Told told = copy(*source, *target, {.threads = 1});
  EXPECT_TRUE(told.status.ok() || told.status.code() == CKPT_GONE) << told.status.message();
  EXPECT_EQ(is_committed(*to(), "s1.1.1"), told.status.ok());
}

// ---- failures ----

// The target fails at each of its operations in turn.
TEST(CopyFaults, LeaveNoCheckpointAndTheNextCopyIsWhole) {
  auto source = small_source(3);
  const auto files = files_of(*source, "s1.1.1");
  int at = 0;
  for (bool disturbed = true; disturbed;) {
    at++;
    auto inner = fresh_memory_store();
    auto target = std::make_shared<store::ShellStore>(inner);
    std::atomic<int> operations = 0;
    target->before([&](std::string_view operation, std::string_view key) {
      return ++operations == at ? Status(CKPT_IO, strformat("fault at {} {}", operation, key)) : Ok();
    });
    const Told told = copy(*open(source), *target, {.threads = 1});
    disturbed = operations >= at;
    EXPECT_EQ(is_committed(*inner, "s1.1.1"), told.status.ok()) << at;
    const Told again = copy(*open(source), *inner);
    ASSERT_TRUE(again.status.ok()) << at << ": " << told.status.message() << "; " << again.status.message();
    EXPECT_EQ(files_of(*inner, "s1.1.1"), files);
  }
  EXPECT_GT(at, 12);
}

TEST(CopyFaults, ThatLoseAnswersEndInAWholeCopy) {
  auto source = small_source(3);
  for (unsigned seed = 1; seed <= 20; seed++) {
    const Handles to = weak_store({.list_delay_ms = 2, .lost_per_mille = 100, .seed = seed});
    Told told;
    for (int tries = 0; tries < 20 && (tries == 0 || !told.status.ok()); tries++) {
      const bool before = is_committed(*to(), "s1.1.1");
      told = copy(*open(source), *to());
      EXPECT_FALSE(before && !told.status.ok() && told.status.code() != CKPT_IO) << told.status.message();
    }
    ASSERT_TRUE(told.status.ok()) << seed << ": " << told.status.message();
    EXPECT_EQ(*load(to, "latest", 2), 1);
  }
}

// It is put, the store says that it was not, and cannot be asked whether it was.
TEST(CopyFaults, WhoseManifestCannotBeAskedForAreUnknown) {
  const auto source = small_source();
  for (const ckpt_status says : {CKPT_IO, CKPT_NO_SPACE, CKPT_NOMEM, CKPT_TIMEOUT}) {
    const auto inner = fresh_memory_store();
    auto target = std::make_shared<store::ShellStore>(inner);
    std::atomic<bool> put{false};
    target->before([&](std::string_view operation, std::string_view key) {
      if (!key.ends_with(format::kManifestName)) return Ok();
      if (operation == "put" && !put.exchange(true)) (void)inner->put_if_absent(key, *source->get(key, 1 << 20));
      return put ? Status(says, "as the test wants it") : Ok();
    });
    const Told told = copy(*open(source), *target);
    EXPECT_EQ(told.status.code(), CKPT_COMMIT_UNKNOWN) << told.status.message();
    EXPECT_TRUE(is_committed(*inner, "s1.1.1"));
    EXPECT_TRUE(copy(*open(source), *inner).status.ok());
  }
}

// What a caller is told whose store does not answer, so that its thread is left behind.
TEST(CopyFaults, ThatLeaveAThreadBehindAreUnknownFromTheManifestOn) {
  const auto source = small_source();
  store::ShellStore target(fresh_memory_store());
  Job job;
  std::map<std::string, ckpt_status, std::less<>> told;  // in the last call for a key
  target.before([&](std::string_view, std::string_view key) {
    told[std::string(key)] = job.call->answer_of_left(Status(CKPT_TIMEOUT, "it does not answer")).code();
    return Ok();
  });
  Report report;
  ASSERT_TRUE(maintain::copy_checkpoint(*open(source), target, {.threads = 1}, &report, job).ok());
  EXPECT_EQ(told["s1.1.1/PART_001"], CKPT_TIMEOUT);
  EXPECT_EQ(told["s1.1.1/MANIFEST"], CKPT_COMMIT_UNKNOWN);
  EXPECT_EQ(told[".ckpt/attempts/1.1.s1"], CKPT_COMMIT_UNKNOWN) << "its removal";
}

TEST(CopyFaults, OfACancelledCopyTheNextGoesOn) {
  auto source = large_source(24);
  auto inner = fresh_memory_store();
  auto target = std::make_shared<store::ShellStore>(inner);
  Job job;
  target->once("create", "s1.1.1/PART_000", [&] { job.cancel(); });
  Report report;
  EXPECT_EQ(maintain::copy_checkpoint(*open(source), *target, {}, &report, job).code(), CKPT_CANCELLED);
  EXPECT_FALSE(is_committed(*inner, "s1.1.1"));
  EXPECT_EQ(files_of(*inner, "s1.1.1").size(), 0u);
  const Told told = copy(*open(source), *inner);
  ASSERT_TRUE(told.status.ok()) << told.status.message();
  EXPECT_EQ(files_of(*inner, "s1.1.1"), files_of(*source, "s1.1.1"));
}

// ---- damage ----

// Changes one byte of a file.
void flip(store::Store& store, const std::string& key, uint64_t at) {
  auto bytes = *store.get(key, 1 << 30);
  bytes[at] ^= std::byte{1};
  ASSERT_TRUE(store.remove(key, false).ok());
  ASSERT_TRUE(store.put_if_absent(key, bytes).ok());
}

// The source is open, and sound, before its bytes change: so it is the copy that must find each.
TEST(DamagedSource, IsRefusedWhateverByteItIsAndNothingIsCommitted) {
  const Handles from = directory_store();
  {
    Start start(from, 1);
    ASSERT_TRUE(all_ok(start.save(1)).ok());
  }
  const auto source = from();
  for (const auto& [name, bytes] : files_of(*source, "s1.1.1")) {
    const std::string key = "s1.1.1/" + name, path = source->path(key);
    for (uint64_t at = 0; at < bytes.size(); at += at < 128 || at + 800 > bytes.size() ? 1 : 29) {
      const auto opened = open(source);
      flip_file(path, at);
      auto target = fresh_memory_store();
      const Told told = copy(*opened, *target);
      const ckpt_status code = told.status.code();
      EXPECT_TRUE(code == CKPT_CORRUPT || code == CKPT_FORMAT || code == CKPT_REVISION)
          << key << " " << at << ": " << told.status.message();
      EXPECT_FALSE(is_committed(*target, "s1.1.1")) << key << " " << at;
      flip_file(path, at);
    }
  }
  EXPECT_TRUE(copy(*open(source), *fresh_memory_store()).status.ok());
}

TEST(DamagedSource, IsNamedByTensorPartAndOffset) {
  auto source = large_source(3);
  flip(*source, "s1.1.1/PART_000", 4096 + (2 << 20) + 5);
  const Told told = copy(*open(source), *fresh_memory_store());
  ASSERT_EQ(told.status.code(), CKPT_CORRUPT);
  EXPECT_EQ(*told.status.detail("tensor"), "w");
  EXPECT_EQ(*told.status.detail("part"), "PART_000");
  EXPECT_EQ(*told.status.detail("offset"), std::to_string(4096 + (2 << 20)));
  EXPECT_NE(told.status.message().find("elements"), std::string::npos) << told.status.message();
}

// A remote store, on the way from which bytes of the first `times` reads of a place are damaged.
class NoisyStore : public store::ShellStore {
 public:
  NoisyStore(std::shared_ptr<store::Store> inner, uint64_t at, int times)
      : ShellStore(std::move(inner)), at_(at), left_(std::make_shared<std::atomic<int>>(times)) {}
  store::Traits traits() const override {
    store::Traits traits = inner_traits();
    traits.remote = true;
    return traits;
  }
  Result<std::unique_ptr<store::Reader>> open(std::string_view key) const override {
    CKPT_ASSIGN(auto reader, ShellStore::open(key));
    if (!key.ends_with("PART_000")) return reader;
    return std::unique_ptr<store::Reader>(std::make_unique<Noisy>(std::move(reader), at_, left_));
  }

 private:
  class Noisy : public store::Reader {
   public:
    Noisy(std::unique_ptr<store::Reader> inner, uint64_t at, std::shared_ptr<std::atomic<int>> left)
        : inner_(std::move(inner)), at_(at), left_(std::move(left)) {}
    uint64_t size() const override { return inner_->size(); }
    Status read_at(uint64_t offset, MutableBytes out) const override {
      CKPT_TRY(inner_->read_at(offset, out));
      if (at_ >= offset && at_ < offset + out.size() && (*left_)-- > 0) out[at_ - offset] ^= std::byte{1};
      return Ok();
    }
    Result<Bytes> map() const override { return inner_->map(); }

   private:
    std::unique_ptr<store::Reader> inner_;
    const uint64_t at_;
    std::shared_ptr<std::atomic<int>> left_;
  };
  store::Traits inner_traits() const { return ShellStore::traits(); }
  const uint64_t at_;
  std::shared_ptr<std::atomic<int>> left_;
};

TEST(DamagedOnItsWay, AChunkIsAskedForOnceMore) {
  for (const int64_t chunk : {1 << 20, 16 << 20}) {  // within a block, and over several
    auto source = large_source(20, chunk);
    auto noisy = std::make_shared<NoisyStore>(source, 4096 + 100, 1);
    auto target = fresh_memory_store();
    const Told told = copy(*open(noisy), *target);
    ASSERT_TRUE(told.status.ok()) << told.status.message();
    EXPECT_EQ(files_of(*target, "s1.1.1"), files_of(*source, "s1.1.1"));
    auto worse = std::make_shared<NoisyStore>(source, 4096 + 100, 2);
    auto refused = fresh_memory_store();
    EXPECT_EQ(copy(*open(worse), *refused).status.code(), CKPT_CORRUPT);
    EXPECT_FALSE(is_committed(*refused, "s1.1.1"));
  }
}

// Not of what was kept of the opening, which would be damaged again.
TEST(DamagedOnItsWay, AChunkThatCameWithTheOpeningIsAskedOfTheServerOnceMore) {
  for (const int64_t chunk : {1 << 20, 16 << 20}) {
    const auto source = large_source(20, chunk);
    const store::Requests requests;
    const auto remote = std::make_shared<store::RemoteStore>(source, requests);
    remote->tail(1 << 20, 4096 + (20 << 20) - 1);
    const auto checkpoint = open(remote);
    const auto target = fresh_memory_store();
    const Told told = copy(*checkpoint, *target);
    ASSERT_TRUE(told.status.ok()) << told.status.message();
    EXPECT_EQ(files_of(*target, "s1.1.1"), files_of(*source, "s1.1.1"));
    Job job;
    ASSERT_TRUE(maintain::verify_checkpoint(*checkpoint, {}, job).ok());
    EXPECT_TRUE(job.report.findings.empty()) << job.report.findings[0].text;
  }
}

// ---- memory ----

TEST(CopyMemory, IsWhatItMayTake) {
  for (const int64_t most : {8 << 20, 32 << 20}) {
    const Told told = copy(*open(large_source(60)), *fresh_memory_store(), {.staging_bytes = most});
    ASSERT_TRUE(told.status.ok()) << told.status.message();
    EXPECT_LE(told.peak, most + (2 << 20));
    EXPECT_GE(told.peak, most / 4);
  }
  // A chunk is in memory whole before any of it is written.
  const Told told = copy(*open(large_source(60, 16 << 20)), *fresh_memory_store(), {.staging_bytes = 8 << 20});
  ASSERT_TRUE(told.status.ok()) << told.status.message();
  EXPECT_LE(told.peak, (16 << 20) + (8 << 20));
}

// ---- what is in the way ----

TEST(CopyTarget, WithAnotherCheckpointOfTheNameIsExistsAndNamesBoth) {
  auto source = small_source(), target = small_source();
  const auto before = files_of(*target, "s1.1.1");
  const Told told = copy(*open(source), *target);
  ASSERT_EQ(told.status.code(), CKPT_EXISTS) << told.status.message();
  EXPECT_EQ(*told.status.detail("expected"), to_hex(open(source)->summary().save_id));
  EXPECT_EQ(*told.status.detail("found"), to_hex(open(target)->summary().save_id));
  EXPECT_EQ(files_of(*target, "s1.1.1"), before);
}

TEST(CopyTarget, WithAnUnfinishedCopyOfAnotherCheckpointOfTheNameIsConflict) {
  auto first = small_source(), second = small_source();
  auto inner = fresh_memory_store();
  auto target = std::make_shared<store::ShellStore>(inner);
  target->once("create", "s1.1.1/PART_000",
               [&] { EXPECT_EQ(copy(*open(second), *inner).status.code(), CKPT_CONFLICT); });
  const Told told = copy(*open(first), *target);
  EXPECT_TRUE(told.status.ok()) << told.status.message();
  EXPECT_EQ(files_of(*inner, "s1.1.1"), files_of(*first, "s1.1.1"));
}

TEST(CopyTarget, WithPartsThatAreNotTheSourcesIsRefused) {
  auto source = small_source();
  auto other = small_source();
  struct Case {
    std::function<void(store::Store&)> change;
    const char* check;
    ckpt_status status;
  };
  const std::string part = "s1.1.1/PART_001";
  const auto replace = [&](store::Store& store) {
    ASSERT_TRUE(store.remove(part, false).ok());
    ASSERT_TRUE(store.put_if_absent(part, *other->get(part, 1 << 20)).ok());
  };
  const auto cut = [&](store::Store& store) {
    auto bytes = *store.get(part, 1 << 20);
    bytes.resize(bytes.size() - 4096);
    ASSERT_TRUE(store.remove(part, false).ok());
    ASSERT_TRUE(store.put_if_absent(part, bytes).ok());
  };
  const auto damage = [&](store::Store& store) { flip(store, part, 4096); };
  const Case cases[] = {{replace, "index", CKPT_CONFLICT},
                        {cut, "index", CKPT_MISMATCH},
                        {damage, "index", CKPT_OK},  // by its index alone it is the source's
                        {damage, "full", CKPT_CORRUPT}};
  for (const Case& one : cases) {
    auto target = fresh_memory_store();
    ASSERT_TRUE(copy(*open(source), *target).status.ok());
    ASSERT_TRUE(target->remove("s1.1.1/MANIFEST", true).ok());
    one.change(*target);
    const Told told = copy(*open(source), *target, {.check = one.check});
    EXPECT_EQ(told.status.code(), one.status) << told.status.message();
    EXPECT_EQ(is_committed(*target, "s1.1.1"), one.status == CKPT_OK);
  }
}

TEST(CopyTarget, WithATombstoneIsAborted) {
  auto source = small_source();
  auto target = fresh_memory_store();
  format::Tombstone closed;
  closed.reason = "closed by hand";
  const auto tombstone = format::frame_tombstone(closed);
  ASSERT_TRUE(target->make_directory("s1.1.1").ok());
  ASSERT_TRUE(target->put_if_absent("s1.1.1/MANIFEST", tombstone).ok());
  const Told told = copy(*open(source), *target);
  EXPECT_EQ(told.status.code(), CKPT_ABORTED);
  EXPECT_NE(told.status.message().find("closed by hand"), std::string::npos) << told.status.message();
}

TEST(CopyTarget, ThatLosesItsDirectoryIsAbortedAndCanBeCopiedToAgain) {
  auto source = small_source();
  auto inner = fresh_memory_store();
  auto target = std::make_shared<store::ShellStore>(inner);
  target->once("create", "s1.1.1/PART_001", [&] { ASSERT_TRUE(remove_by_id(*inner, "s1.1.1").ok()); });
  EXPECT_EQ(copy(*open(source), *target, {.threads = 1}).status.code(), CKPT_ABORTED);
  EXPECT_TRUE(copy(*open(source), *inner).status.ok());
}

TEST(CopyTarget, ThatIsRemovedWhileItsBytesAreComparedIsAborted) {
  auto source = small_source();
  auto inner = fresh_memory_store();
  ASSERT_TRUE(copy(*open(source), *inner).status.ok());
  store::ShellStore target(inner);
  target.once("open", "s1.1.1/PART_001", [&] { ASSERT_TRUE(remove_by_id(*inner, "s1.1.1").ok()); });
  EXPECT_EQ(copy(*open(source), target, {.threads = 1, .check = "full"}).status.code(), CKPT_ABORTED);
}

// ---- living together with sessions ----

class CopyAmongSessions : public ::testing::TestWithParam<Kind> {
 protected:
  const Handles to = GetParam().make();
};
INSTANTIATE_TEST_SUITE_P(Stores, CopyAmongSessions,
                         ::testing::Values(Kind{"Directory", directory_store}, Kind{"Memory", memory_store},
                                           Kind{"Weak", [] { return weak_store({}); }}),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(CopyAmongSessions, ThatIsUnfinishedIsLeftAlone) {
  auto source = small_source();
  copy_in_part(source, to(), "s1.1.1/PART_001");
  Start start(to, 2);
  ASSERT_TRUE(all_ok(start.save(5, {.keep_last = 1})).ok());
  Start next(to, 1);
  const Told told = copy(*open(source), *to());
  ASSERT_TRUE(told.status.ok()) << told.status.message();
  EXPECT_EQ(*load(to, "s1"), 1);
  EXPECT_EQ(*load(to, "latest"), 5);
}

TEST_P(CopyAmongSessions, ThatIsUnfinishedIsRemovedByHandThoughItIsTheNewest) {
  copy_in_part(small_source(), to(), "s1.1.1/PART_001");
  EXPECT_TRUE(checkpoint::await_listings(*to()).ok());
  const Status removed = remove_by_id(*to(), "s1.1.1");
  EXPECT_TRUE(removed.ok()) << removed.message();
  EXPECT_FALSE(to()->exists("s1.1.1/PART_000").ok() && *to()->exists("s1.1.1/PART_000"));
  EXPECT_FALSE(*to()->exists(".ckpt/attempts/1.1.s1"));
}

// The session has the same number as the one that made the checkpoint, so its save has the same name.
TEST_P(CopyAmongSessions, ThatHasTheNameOfASaveStaysAndTheSaveIsConflict) {
  auto source = small_source();
  Start start(to, 2);
  ASSERT_TRUE(copy(*open(source), *to()).status.ok());
  for (const Status& told : start.save(1)) EXPECT_EQ(told.code(), CKPT_CONFLICT) << told.message();
  EXPECT_EQ(files_of(*to(), "s1.1.1"), files_of(*source, "s1.1.1"));
  const auto again = start.save(1);
  ASSERT_TRUE(all_ok(again).ok()) << all_ok(again).message();
  EXPECT_EQ(open(to())->entry().id, "s1.1.2");
}

TEST_P(CopyAmongSessions, ThatIsUnfinishedGivesWayToASaveOfItsNameWhichFailsSoonOnAllRanks) {
  auto source = small_source();
  Start start(to, 2);
  copy_in_part(source, to(), "s1.1.1/PART_001");
  const auto told = start.save(1);
  EXPECT_EQ(told[0].code(), CKPT_CONFLICT) << told[0].message();
  EXPECT_EQ(told[1].code(), CKPT_ABORTED) << told[1].message();
  const auto again = start.save(1);
  ASSERT_TRUE(all_ok(again).ok()) << all_ok(again).message();
  EXPECT_EQ(copy(*open(source), *to()).status.code(), CKPT_ABORTED);
  EXPECT_TRUE(checkpoint::await_listings(*to()).ok());
  ASSERT_TRUE(remove_by_id(*to(), "s1.1.1").ok());
  EXPECT_EQ(copy(*open(source), *to()).status.ok(), to()->traits().directories);
}

TEST_P(CopyAmongSessions, IsConflictWhereASaveOfItsNameIsUnderWay) {
  auto source = small_source();
  Start start(to, 1);
  const session::Attempt attempt = start.rank(0)->next_attempt("s1");
  Job job;
  ASSERT_TRUE(open_attempt(*start.rank(0), attempt, {}, job).ok());
  const Told told = copy(*open(source), *to());
  EXPECT_EQ(told.status.code(), CKPT_CONFLICT) << told.status.message();
}

TEST_P(CopyAmongSessions, OfAnotherStoreIsForeignAndSaysSo) {
  Start start(to, 1);
  ASSERT_TRUE(all_ok(start.save(7)).ok());
  const Told told = copy(*open(small_source()), *to());
  ASSERT_TRUE(told.status.ok()) << told.status.message();
  ASSERT_EQ(told.report.findings.size(), 1u);
  EXPECT_EQ(told.report.findings[0].kind, CKPT_FINDING_DIFFERENT);
  EXPECT_EQ(*load(to, "latest"), 7);
  EXPECT_EQ(load(to, "label:s1").status().code(), CKPT_NOT_FOUND);
  EXPECT_EQ(*load(to, "s1.1.1", 2), 1);
}

// Two places of one store went on by themselves: sessions 2 here, 2 and 3 there.
TEST_P(CopyAmongSessions, FromALaterSessionDoesNotMakeRetentionRemoveWhatWasJustSaved) {
  const Handles from = memory_store();
  {
    Start first(from, 1);
    ASSERT_TRUE(all_ok(first.save(1)).ok());
  }
  ASSERT_TRUE(copy(from, "s1", to).status.ok());
  Start here(to, 1);
  for (int session = 2; session <= 3; session++) {
    Start there(from, 1);
    ASSERT_TRUE(all_ok(there.save(session * 10)).ok());
  }
  ASSERT_TRUE(copy(from, "s30", to).status.ok());
  for (int64_t step : {5, 6}) {
    const auto told = here.save(step, {.keep_last = 1});
    ASSERT_TRUE(all_ok(told).ok()) << all_ok(told).message();
  }
  EXPECT_EQ(*load(to, "s6"), 6);
  EXPECT_EQ(*load(to, "s30"), 30);
  EXPECT_EQ(load(to, "s5").status().code(), CKPT_NOT_FOUND);
  EXPECT_EQ(load(to, "s1").status().code(), CKPT_NOT_FOUND);
}

}  // namespace
}  // namespace ckpt::commit
