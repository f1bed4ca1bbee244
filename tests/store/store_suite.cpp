#include "store_suite.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "store/shell_store.h"

namespace ckpt::store {

Scratch::Scratch() {
  path = std::filesystem::temp_directory_path() / "ckpt-store-XXXXXX";  // file_systems.sh says where
  if (!mkdtemp(path.data())) throw std::runtime_error("no directory " + path);
}
Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::string code(const Status& status) { return status_name(status.code()); }

std::string read_text(const Store& store, std::string_view key) {
  auto data = store.get(key, 1 << 20);
  return data.ok() ? std::string(as_text(*data)) : "<" + code(data.status()) + ">";
}

std::string names(const Store& store, std::string_view directory) {
  auto entries = store.list(directory);
  if (!entries.ok()) return "<" + code(entries.status()) + ">";
  std::string text;
  for (const Entry& entry : *entries) text += (text.empty() ? "" : " ") + entry.name + (entry.directory ? "/" : "");
  return text;
}

Pattern::Pattern(size_t size, unsigned seed)
    : data_(static_cast<std::byte*>(std::aligned_alloc(kAlign, round_up(size + 1, kAlign)))), size_(size) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (size_t i = 0; i < size; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    data_.get()[i] = static_cast<std::byte>(state >> 56);
  }
}
void Pattern::Free::operator()(std::byte* data) const { std::free(data); }

void StoreSuite::SetUp() {
  home_ = GetParam().make();
  store_ = home_->open();
  ASSERT_EQ(code(store_->prepare()), "OK");
  ASSERT_EQ(code(store_->make_directory("d")), "OK");
}

static bool equal(Bytes a, Bytes b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

// ---- put and get ----

TEST_P(StoreSuite, PutMakesTheBytesReadableByEveryHandle) {
  ASSERT_EQ(code(store_->put_if_absent("d/a", as_bytes("hello"))), "OK");
  EXPECT_EQ(read_text(*home_->open(), "d/a"), "hello");
}

TEST_P(StoreSuite, PutOnATakenKeyIsExistsAndChangesNothing) {
  ASSERT_EQ(code(store_->put_if_absent("d/a", as_bytes("first"))), "OK");
  EXPECT_EQ(code(store_->put_if_absent("d/a", as_bytes("second"))), "EXISTS");
  EXPECT_EQ(read_text(*store_, "d/a"), "first");
  EXPECT_EQ(names(*store_, "d"), "a");
}

TEST_P(StoreSuite, PutSameIsOkForTheSameBytesOnly) {
  ASSERT_EQ(code(store_->put_same("d/a", as_bytes("one"))), "OK");
  EXPECT_EQ(code(store_->put_same("d/a", as_bytes("one"))), "OK");
  EXPECT_EQ(code(store_->put_same("d/a", as_bytes("two"))), "CONFLICT");
}

// Two copies of one checkpoint share a record, and the one that ends removes it.
TEST_P(StoreSuite, PutSamePutsAgainWhatIsRemovedUnderIt) {
  ASSERT_EQ(code(store_->put_if_absent("d/a", as_bytes("one"))), "OK");
  ShellStore shell(home_->open());
  shell.once("open", "d/a", [&] { EXPECT_EQ(code(store_->remove("d/a", false)), "OK"); });
  EXPECT_EQ(code(shell.put_same("d/a", as_bytes("one"))), "OK");
  EXPECT_EQ(read_text(*store_, "d/a"), "one");
}

// It was opened when it was removed: some stores tell that as GONE, of which no caller of get knows what to make.
TEST_P(StoreSuite, GetOfWhatIsRemovedOnTheWayIsTheBytesOrNotFound) {
  ASSERT_EQ(code(store_->put_if_absent("d/a", as_bytes("one"))), "OK");
  auto shell = std::make_shared<ShellStore>(home_->open());
  shell->after_open("d/a", [&] { EXPECT_EQ(code(store_->remove("d/a", false)), "OK"); });
  const auto found = shell->get("d/a", 10);
  if (found.ok())
    EXPECT_EQ(as_text(*found), "one");
  else
    EXPECT_EQ(code(found.status()), "NOT_FOUND");
}

TEST_P(DirectorySuite, PutOnADirectoryIsExists) {
  ASSERT_TRUE(store_->make_directory("d/sub").ok());
  EXPECT_EQ(code(store_->put_if_absent("d/sub", as_bytes("x"))), "EXISTS");
  EXPECT_EQ(names(*store_, "d"), "sub/");
}

TEST_P(StoreSuite, PutOfNoBytesMakesAnEmptyFile) {
  ASSERT_EQ(code(store_->put_if_absent("d/empty", {})), "OK");
  EXPECT_EQ(read_text(*store_, "d/empty"), "");
  auto reader = store_->open("d/empty");
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->size(), 0u);
}

TEST_P(DirectorySuite, AnEmptyFileMapsAsNoBytes) {
  ASSERT_TRUE(store_->put_if_absent("d/empty", {}).ok());
  auto map = (*store_->open("d/empty"))->map();
  ASSERT_TRUE(map.ok());
  EXPECT_TRUE(map->empty());
}

TEST_P(DirectorySuite, PutBelowWhatIsNoDirectoryIsNotFound) {
  ASSERT_TRUE(store_->put_if_absent("d/file", as_bytes("x")).ok());
  EXPECT_EQ(code(store_->put_if_absent("none/a", as_bytes("x"))), "NOT_FOUND");
  EXPECT_EQ(code(store_->put_if_absent("d/file/a", as_bytes("x"))), "NOT_FOUND");
}

TEST_P(StoreSuite, PutWorksInTheRoot) {
  ASSERT_EQ(code(store_->put_if_absent("top", as_bytes("x"))), "OK");
  EXPECT_EQ(read_text(*store_, "top"), "x");
}

TEST_P(StoreSuite, GetAboveTheLimitIsFormatAndAtTheLimitFine) {
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("12345")).ok());
  EXPECT_TRUE(store_->get("d/a", 5).ok());
  EXPECT_EQ(code(store_->get("d/a", 4).status()), "FORMAT");
}

TEST_P(StoreSuite, AbsentKeysAreNotFoundByEveryCall) {
  for (const char* key : {"d/none", "none/none", "none"}) {
    EXPECT_EQ(code(store_->open(key).status()), "NOT_FOUND") << key;
    EXPECT_EQ(code(store_->get(key, 9).status()), "NOT_FOUND") << key;
    EXPECT_EQ(code(store_->list(key).status()), "NOT_FOUND") << key;
    EXPECT_EQ(code(store_->bytes_in(key).status()), "NOT_FOUND") << key;
    const std::string borrowed = code(store_->borrow(key, "d/borrowed").status());
    EXPECT_TRUE(borrowed == "NOT_FOUND" || borrowed == "UNSUPPORTED") << key;
    EXPECT_EQ(code(store_->remove(key, true)), "NOT_FOUND") << key;
    EXPECT_EQ(code(store_->retire(key, "MANIFEST", {})), "NOT_FOUND") << key;
    EXPECT_EQ(code(store_->remove_directory(key)), "NOT_FOUND") << key;
    for (const auto& lock : {store_->lock_shared(key), store_->try_lock_exclusive(key)})
      EXPECT_TRUE(lock.ok() ? !(*lock)->protects() : lock.status().code() == CKPT_NOT_FOUND) << key;
  }
}

TEST_P(DirectorySuite, CreateBelowWhatIsNotThereIsNotFound) {
  EXPECT_EQ(code(store_->create("none/none", 0).status()), "NOT_FOUND");
}

TEST_P(StoreSuite, ErrorsNameTheWholePath) {
  Status status = store_->open("d/none").status();
  ASSERT_NE(status.detail("path"), nullptr);
  EXPECT_EQ(*status.detail("path"), store_->path("d/none"));
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  Status taken = store_->put_if_absent("d/a", {});
  ASSERT_NE(taken.detail("path"), nullptr);
  EXPECT_EQ(*taken.detail("path"), store_->path("d/a"));
  EXPECT_EQ(taken.message().find('\n'), std::string::npos);
}

TEST_P(StoreSuite, BadKeysAreInvalidForEveryCall) {
  const std::string with_zero("d/a\0b", 5), long_name(256, 'x');
  for (std::string_view key :
       {std::string_view("/d/a"), std::string_view("d//a"), std::string_view("d/../a"), std::string_view("."),
        std::string_view(".."), std::string_view("d/."), std::string_view("d/"), std::string_view("../d"),
        std::string_view("d/.."), std::string_view(with_zero), std::string_view(long_name)}) {
    EXPECT_EQ(code(store_->put_if_absent(key, {})), "INVALID") << key;
    EXPECT_EQ(code(store_->create(key, 0).status()), "INVALID") << key;
    EXPECT_EQ(code(store_->open(key).status()), "INVALID") << key;
    EXPECT_EQ(code(store_->get(key, 1).status()), "INVALID") << key;
    EXPECT_EQ(code(store_->list(key).status()), "INVALID") << key;
    EXPECT_EQ(code(store_->bytes_in(key).status()), "INVALID") << key;
    EXPECT_EQ(code(store_->exists(key).status()), "INVALID") << key;
    EXPECT_EQ(code(store_->remove(key, true)), "INVALID") << key;
    EXPECT_EQ(code(store_->make_directory(key)), "INVALID") << key;
    EXPECT_EQ(code(store_->retire(key, "MANIFEST", {})), "INVALID") << key;
    EXPECT_EQ(code(store_->remove_directory(key)), "INVALID") << key;
    EXPECT_EQ(code(store_->lock_shared(key).status()), "INVALID") << key;
    EXPECT_EQ(code(store_->try_lock_exclusive(key).status()), "INVALID") << key;
  }
  EXPECT_EQ(code(store_->put_if_absent("", {})), "INVALID");
  EXPECT_EQ(code(store_->open("").status()), "INVALID");
  EXPECT_EQ(code(store_->remove_directory("")), "INVALID");
  EXPECT_EQ(code(store_->retire("d", "../d", {})), "INVALID");
}

TEST_P(StoreSuite, NamesOf234BytesFitAndLongerNewFilesAreInvalid) {
  EXPECT_EQ(code(store_->put_if_absent("d/" + std::string(234, 'x'), as_bytes("x"))), "OK");
  EXPECT_EQ(code(store_->put_if_absent("d/" + std::string(235, 'x'), as_bytes("x"))), "INVALID");
  EXPECT_EQ(code(store_->make_directory(std::string(255, 'x'))), "OK");
}

// ---- writers ----

TEST_P(StoreSuite, AWrittenFileIsInvisibleUntilPublished) {
  Pattern data(2 << 20, 1);
  auto writer = store_->create("d/part", 2 << 20);
  ASSERT_TRUE(writer.ok());
  ASSERT_EQ(code((*writer)->write_at(0, data.bytes())), "OK");
  EXPECT_EQ(code(store_->open("d/part").status()), "NOT_FOUND");
  ASSERT_EQ(code((*writer)->publish(data.bytes().size())), "OK");
  auto reader = store_->open("d/part");
  ASSERT_TRUE(reader.ok());
  std::vector<std::byte> found(data.bytes().size());
  ASSERT_TRUE((*reader)->read_at(0, found).ok());
  EXPECT_TRUE(equal(found, data.bytes()));
  EXPECT_EQ(names(*store_, "d"), "part");
}

TEST_P(DirectorySuite, PublishCutsToTheSizeGiven) {
  Pattern data(2 << 20, 2);
  for (uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{4095}, uint64_t{(1 << 20) + 77}, uint64_t{2 << 20}}) {
    std::string key = "d/cut" + std::to_string(size);
    auto writer = store_->create(key, 3 << 20);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->write_at(0, data.bytes()).ok());
    ASSERT_EQ(code((*writer)->publish(size)), "OK");
    auto found = store_->get(key, 4 << 20);
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(equal(*found, data.bytes().first(size)));
  }
}

TEST_P(DirectorySuite, PublishExtendsWithZeros) {
  for (uint64_t expected : {uint64_t{0}, uint64_t{100}, uint64_t{1 << 21}}) {
    std::string key = "d/longer" + std::to_string(expected);
    auto writer = store_->create(key, expected);
    ASSERT_TRUE(writer.ok());
    ASSERT_EQ(code((*writer)->publish(3 << 20)), "OK");
    auto found = store_->get(key, 4 << 20);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->size(), size_t{3 << 20});
    EXPECT_TRUE(std::all_of(found->begin(), found->end(), [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST_P(DirectorySuite, UnwrittenRangesReadAsZeros) {
  Pattern data(4096, 3);
  auto writer = store_->create("d/holes", 0);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->write_at(1 << 20, data.bytes()).ok());
  ASSERT_TRUE((*writer)->write_at(8192, data.bytes()).ok());
  ASSERT_TRUE((*writer)->publish((1 << 20) + 4096).ok());
  auto found = store_->get("d/holes", 2 << 20);
  ASSERT_TRUE(found.ok());
  std::vector<std::byte> wanted((1 << 20) + 4096);
  std::memcpy(wanted.data() + 8192, data.bytes().data(), 4096);
  std::memcpy(wanted.data() + (1 << 20), data.bytes().data(), 4096);
  EXPECT_TRUE(equal(*found, wanted));
}

TEST_P(StoreSuite, ADroppedWriterLeavesNothing) {
  Pattern data(4096, 4);
  {
    auto writer = store_->create("d/gone", 1 << 20);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->write_at(0, data.bytes()).ok());
  }
  ASSERT_TRUE(store_->put_if_absent("d/kept", {}).ok());
  EXPECT_EQ(names(*store_, "d"), "kept");
}

TEST_P(StoreSuite, PublishOnATakenKeyIsExistsAndLeavesNothing) {
  Pattern data(4096, 5);
  auto writer = store_->create("d/a", 4096);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->write_at(0, data.bytes()).ok());
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("first")).ok());
  EXPECT_EQ(code((*writer)->publish(4096)), "EXISTS");
  EXPECT_EQ(read_text(*store_, "d/a"), "first");
  EXPECT_EQ(names(*store_, "d"), "a");
}

TEST_P(DirectorySuite, PublishIntoARemovedDirectoryIsNotFound) {
  auto writer = store_->create("d/a", 0);
  ASSERT_TRUE(writer.ok());
  ASSERT_EQ(code(store_->remove_directory("d")), "OK");
  EXPECT_EQ(code((*writer)->publish(1)), "NOT_FOUND");
  EXPECT_EQ(code(store_->list("d").status()), "NOT_FOUND");
}

TEST_P(DirectorySuite, PublishIntoARetiredDirectoryIsNotFoundAndLeavesNothing) {
  auto writer = store_->create("d/a", 0);
  ASSERT_TRUE(writer.ok());
  ASSERT_EQ(code(store_->retire("d", "MANIFEST", {})), "OK");
  ASSERT_EQ(code(store_->make_directory("d")), "OK");
  EXPECT_EQ(code((*writer)->publish(1)), "NOT_FOUND");
  EXPECT_EQ(names(*store_, "d"), "");
}

TEST_P(StoreSuite, AWriterIsUsedUpByPublish) {
  Pattern data(4096, 6);
  auto writer = store_->create("d/a", 4096);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->publish(0).ok());
  EXPECT_EQ(code((*writer)->write_at(0, data.bytes())), "INVALID");
  EXPECT_EQ(code((*writer)->publish(0)), "INVALID");
  EXPECT_EQ(read_text(*store_, "d/a"), "");
}

TEST_P(DirectorySuite, ThreadsMayWriteDisjointRangesOfAFileThatGrows) {
  constexpr size_t kThreads = 8, kBlocks = 24, kBlock = 16384;
  for (uint64_t expected : {uint64_t{0}, uint64_t{kThreads * kBlocks * kBlock}}) {
    std::string key = "d/many" + std::to_string(expected);
    Pattern data(kThreads * kBlocks * kBlock, 7);
    auto writer = store_->create(key, expected);
    ASSERT_TRUE(writer.ok());
    std::atomic<int> failures{0};
    {
      std::vector<std::jthread> threads;
      for (size_t t = 0; t < kThreads; t++)
        threads.emplace_back([&, t] {
          for (size_t i = 0; i < kBlocks; i++) {
            size_t at = (i * kThreads + t) * kBlock;
            if (!(*writer)->write_at(at, data.bytes().subspan(at, kBlock)).ok()) failures++;
          }
        });
    }
    EXPECT_EQ(failures, 0);
    ASSERT_EQ(code((*writer)->publish(data.bytes().size())), "OK");
    auto found = store_->get(key, 1 << 30);
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(equal(*found, data.bytes()));
  }
}

// ---- readers ----

TEST_P(StoreSuite, ReadAtGivesEveryRangeAndRefusesThePastOfTheEnd) {
  Pattern data(10000, 8);
  ASSERT_TRUE(store_->put_if_absent("d/a", data.bytes()).ok());
  auto reader = store_->open("d/a");
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->size(), 10000u);
  for (size_t offset : {0, 1, 4095, 4096, 9999, 10000})
    for (size_t size : {0, 1, 100, 5000, 10000}) {
      std::vector<std::byte> out(size);
      Status status = (*reader)->read_at(offset, out);
      if (offset + size > 10000) {
        EXPECT_EQ(code(status), "INCOMPLETE") << offset << " " << size;
      } else {
        ASSERT_EQ(code(status), "OK") << offset << " " << size;
        EXPECT_TRUE(equal(out, data.bytes().subspan(offset, size)));
      }
    }
  std::byte one;
  EXPECT_EQ(code((*reader)->read_at(UINT64_MAX, {&one, 1})), "INCOMPLETE");
  EXPECT_EQ(code((*reader)->read_at(INT64_MAX, {&one, 1})), "INCOMPLETE");
}

TEST_P(DirectorySuite, MapShowsTheWholeFileAtOneAlignedAddress) {
  Pattern data(100001, 9);
  ASSERT_TRUE(store_->put_if_absent("d/a", data.bytes()).ok());
  auto reader = store_->open("d/a");
  ASSERT_TRUE(reader.ok());
  auto map = (*reader)->map(), again = (*reader)->map();
  ASSERT_TRUE(map.ok() && again.ok());
  EXPECT_TRUE(equal(*map, data.bytes()));
  EXPECT_EQ(map->data(), again->data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(map->data()) % kAlign, 0u);
}

TEST_P(DirectorySuite, AnOpenReaderOutlivesTheRemovalOfItsFile) {
  Pattern data(100000, 10);
  ASSERT_TRUE(store_->put_if_absent("d/a", data.bytes()).ok());
  auto reader = store_->open("d/a");
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ(code(store_->remove_directory("d")), "OK");
  EXPECT_EQ(code(store_->open("d/a").status()), "NOT_FOUND");
  std::vector<std::byte> out(100000);
  ASSERT_TRUE((*reader)->read_at(0, out).ok());
  EXPECT_TRUE(equal(out, data.bytes()));
  auto map = (*reader)->map();
  ASSERT_TRUE(map.ok());
  EXPECT_TRUE(equal(*map, data.bytes()));
}

TEST_P(DirectorySuite, OpenOfADirectoryIsFormat) {
  EXPECT_EQ(code(store_->open("d").status()), "FORMAT");
  EXPECT_EQ(code(store_->get("d", 10).status()), "FORMAT");
  EXPECT_EQ(code(store_->lock_shared("d").status()), "FORMAT");
  EXPECT_EQ(code(store_->try_lock_exclusive("d").status()), "FORMAT");
}

// ---- directories ----

TEST_P(DirectorySuite, MakeDirectoryMakesParentsAndAcceptsExistingOnes) {
  EXPECT_EQ(code(store_->make_directory("a/b/c")), "OK");
  EXPECT_EQ(code(store_->make_directory("a/b/c")), "OK");
  EXPECT_EQ(code(store_->make_directory("a/b/d")), "OK");
  EXPECT_EQ(names(*store_, "a/b"), "c/ d/");
}

TEST_P(DirectorySuite, MakeDirectoryOverAFileIsFormat) {
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  EXPECT_EQ(code(store_->make_directory("d/a")), "FORMAT");
  EXPECT_EQ(code(store_->make_directory("d/a/b")), "FORMAT");
}

TEST_P(DirectorySuite, ListIsInTheOrderOfBytesWithKinds) {
  for (const char* key : {"d/b", "d/a.x", "d/a-x", "d/a", "d/Z", "d/\xc3\xa9"})
    ASSERT_TRUE(store_->put_if_absent(key, as_bytes("four")).ok());
  ASSERT_TRUE(store_->make_directory("d/a+/inner").ok());
  EXPECT_EQ(names(*store_, "d"), "Z a a+/ a-x a.x b \xc3\xa9");
  auto entries = store_->list("d");
  ASSERT_TRUE(entries.ok());
  EXPECT_FALSE((*entries)[1].directory);
  EXPECT_TRUE((*entries)[2].directory);
}

TEST_P(DirectorySuite, BytesInADirectoryAreThoseOfItsOwnFiles) {
  ASSERT_TRUE(store_->make_directory("d/sub").ok());
  EXPECT_EQ(*store_->bytes_in("d"), 0u);
  for (const char* key : {"d/a", "d/b", "d/sub/c"}) ASSERT_TRUE(store_->put_if_absent(key, as_bytes("four")).ok());
  EXPECT_EQ(*store_->bytes_in("d"), 8u);
}

TEST_P(DirectorySuite, FilesAndDirectoriesExistUntilTheyAreRemoved) {
  EXPECT_FALSE(*store_->exists("d/a"));
  EXPECT_FALSE(*store_->exists("none/a"));
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  EXPECT_TRUE(*store_->exists("d/a"));
  EXPECT_TRUE(*store_->has_directory("d"));
  EXPECT_FALSE(*store_->has_directory("e"));
  EXPECT_FALSE(*store_->exists("d/a/below"));
  ASSERT_TRUE(store_->remove("d/a", true).ok());
  EXPECT_FALSE(*store_->exists("d/a"));
}

TEST_P(DirectorySuite, ListOfTheRootHasAllThatIsAtTheTop) {
  ASSERT_TRUE(store_->put_if_absent("top", {}).ok());
  std::string found = names(*store_, "");
  EXPECT_TRUE(found == "d/ top" || found == ".ckpt/ d/ top") << found;
}

TEST_P(StoreSuite, ListOfAFileIsNotFound) {
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  EXPECT_EQ(names(*store_, "d/a"), "<NOT_FOUND>");
}

TEST_P(DirectorySuite, RemoveTakesAFileOnceAndNoDirectory) {
  for (bool sync : {false, true}) {
    ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
    EXPECT_EQ(code(store_->remove("d/a", sync)), "OK");
    EXPECT_EQ(code(store_->remove("d/a", sync)), "NOT_FOUND");
  }
  EXPECT_EQ(code(store_->remove("d", true)), "FORMAT");
  EXPECT_EQ(code(store_->put_if_absent("d/a", {})), "OK");
}

TEST_P(StoreSuite, RemoveDirectoryTakesAllFiles) {
  for (const char* key : {"d/MANIFEST", "d/PART_000", "d/PART_001"})
    ASSERT_TRUE(store_->put_if_absent(key, as_bytes("x")).ok());
  EXPECT_EQ(code(store_->remove_directory("d")), "OK");
  EXPECT_EQ(names(*store_, "d"), "<NOT_FOUND>");
  EXPECT_EQ(code(store_->remove_directory("d")), "NOT_FOUND");
}

TEST_P(DirectorySuite, RemoveDirectoryNamesADirectoryInItAndRemovesNothing) {
  ASSERT_TRUE(store_->put_if_absent("d/MANIFEST", as_bytes("x")).ok());
  ASSERT_TRUE(store_->make_directory("d/mine").ok());
  Status status = store_->remove_directory("d");
  EXPECT_EQ(code(status), "IO");
  EXPECT_NE(status.message().find("mine"), std::string::npos) << status.message();
  EXPECT_EQ(names(*store_, "d"), "MANIFEST mine/");
}

TEST_P(DirectorySuite, RemoveDirectoryOfAFileIsNotFound) {
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  EXPECT_EQ(code(store_->remove_directory("d/a")), "NOT_FOUND");
  EXPECT_EQ(names(*store_, "d"), "a");
}

// ---- attempts ----

TEST_P(StoreSuite, AnAttemptExistsOnceItIsOpenedByWhomever) {
  EXPECT_FALSE(*store_->attempt_exists("records/7", "s1"));
  for (int i = 0; i < 2; i++) EXPECT_EQ(code(store_->open_attempt("records/7", as_bytes("main"), "s1")), "OK");
  EXPECT_TRUE(*store_->attempt_exists("records/7", "s1"));
  EXPECT_EQ(read_text(*store_, "records/7"), "main");
  EXPECT_EQ(code(store_->put_if_absent("s1/PART_000", as_bytes("x"))), "OK");
}

TEST_P(StoreSuite, ARetiredCheckpointIsGone) {
  ASSERT_TRUE(store_->open_attempt("records/7", as_bytes("main"), "s1").ok());
  for (const char* key : {"s1/PART_000", "s1/MANIFEST"}) ASSERT_TRUE(store_->put_if_absent(key, as_bytes("x")).ok());
  EXPECT_EQ(code(store_->retire("s1", "MANIFEST", as_bytes("a tombstone"))), "OK");
  EXPECT_EQ(read_text(*store_, "s1/PART_000"), "<NOT_FOUND>");
  const bool stays = !store_->traits().directories;
  EXPECT_EQ(read_text(*store_, "s1/MANIFEST"), stays ? "a tombstone" : "<NOT_FOUND>");
  EXPECT_EQ(code(store_->retire("s1", "MANIFEST", as_bytes("a tombstone"))), "NOT_FOUND");
}

TEST_P(StoreSuite, TheSlotOfARetiredAttemptIsNeverTakenByAWriterThatComesLate) {
  ASSERT_TRUE(store_->open_attempt("records/7", as_bytes("main"), "s1").ok());
  ASSERT_TRUE(store_->put_if_absent("s1/PART_000", as_bytes("x")).ok());
  ASSERT_TRUE(store_->put_if_absent("s1/MANIFEST", as_bytes("a tombstone")).ok());
  EXPECT_EQ(code(store_->retire("s1", "MANIFEST", {})), "OK");
  EXPECT_EQ(read_text(*store_, "s1/PART_000"), "<NOT_FOUND>");
  EXPECT_NE(code(store_->put_if_absent("s1/MANIFEST", as_bytes("late"))), "OK");
}

TEST_P(DirectorySuite, RetireNamesADirectoryThatIsNotOursAndRemovesNothing) {
  ASSERT_TRUE(store_->put_if_absent("d/MANIFEST", as_bytes("x")).ok());
  ASSERT_TRUE(store_->make_directory("d/mine").ok());
  Status status = store_->retire("d", "MANIFEST", {});
  EXPECT_EQ(code(status), "CONFLICT");
  EXPECT_NE(status.message().find("mine"), std::string::npos) << status.message();
  EXPECT_EQ(names(*store_, "d"), "MANIFEST mine/");
}

// ---- locks ----

TEST_P(DirectorySuite, SharedLocksGoTogetherAndKeepTheExclusiveOut) {
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  auto other = home_->open();
  auto first = store_->lock_shared("d/a"), second = other->lock_shared("d/a");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(code(store_->try_lock_exclusive("d/a").status()), "CONFLICT");
  (*first).reset();
  EXPECT_EQ(code(store_->try_lock_exclusive("d/a").status()), "CONFLICT");
  (*second).reset();
  EXPECT_EQ(code(store_->try_lock_exclusive("d/a").status()), "OK");
}

TEST_P(DirectorySuite, AnExclusiveLockKeepsAllOthersOutUntilItEnds) {
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  auto held = store_->try_lock_exclusive("d/a");
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(code(home_->open()->lock_shared("d/a").status()), "CONFLICT");
  EXPECT_EQ(code(home_->open()->try_lock_exclusive("d/a").status()), "CONFLICT");
  (*held).reset();
  EXPECT_EQ(code(store_->lock_shared("d/a").status()), "OK");
}

TEST_P(DirectorySuite, ALockOutlivesItsStoreHandleAndItsFile) {
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  auto held = home_->open()->try_lock_exclusive("d/a");
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(code(store_->lock_shared("d/a").status()), "CONFLICT");
  ASSERT_TRUE(store_->remove("d/a", false).ok());
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  EXPECT_EQ(code(store_->try_lock_exclusive("d/a").status()), "OK") << "a new file of the same name is not locked";
}

TEST_P(DirectorySuite, ItsUriOpensTheSameStore) {
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("x")).ok());
  auto again = open_store(store_->uri(), {});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(read_text(**again, "d/a"), "x");
  EXPECT_EQ((*again)->path("d/a"), store_->path("d/a"));
}

}  // namespace ckpt::store
