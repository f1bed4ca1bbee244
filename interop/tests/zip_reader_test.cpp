// The zip reader against archives made byte by byte, and every way in which they can lie.
#include "interop/src/zip/reader.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "zip_fixture.h"

namespace ckpt::interop {
namespace {

Zip two() { return make_zip({{"a/data.pkl", "pickle"}, {"a/data/0", "storage"}}); }

Status open_status(const std::string& bytes) { return ZipReader::open(as_bytes(bytes)).status(); }

void expect_refused(const std::string& bytes, const char* reason, ckpt_status code = CKPT_FORMAT) {
  const Status status = open_status(bytes);
  EXPECT_EQ(status.code(), code) << reason;
  EXPECT_NE(status.message().find(reason), std::string::npos) << "expected: " << reason << "\n" << status.message();
}

std::string text_of(const ZipReader& zip, const char* name) {
  const ZipEntry* entry = zip.find(name);
  if (!entry) return "no such entry";
  auto bytes = zip.bytes(*entry);
  return bytes.ok() ? std::string(as_text(*bytes)) : bytes.status().message();
}

TEST(ZipReader, ReadsWhatTorchWrites) {
  ZipItem padded{"a/data/0", "storage"};
  padded.extra = "FB" + little<uint16_t>(5) + "ZZZZZ";
  for (const bool end64 : {true, false})
    for (const bool descriptor : {true, false}) {
      padded.descriptor = descriptor;
      const Zip zip = make_zip({{"a/data.pkl", "pickle"}, padded, {"a/empty", ""}}, end64);
      auto reader = ZipReader::open(as_bytes(zip.bytes));
      ASSERT_TRUE(reader.ok()) << reader.status().message();
      EXPECT_EQ(text_of(*reader, "a/data.pkl"), "pickle");
      EXPECT_EQ(text_of(*reader, "a/data/0"), "storage");
      EXPECT_EQ(text_of(*reader, "a/empty"), "");
      EXPECT_EQ(reader->find("a/data"), nullptr);
      EXPECT_EQ(reader->entries()[1].name, "a/data/0");
      EXPECT_TRUE(reader->verify(2).ok());
    }
}

TEST(ZipReader, ReadsZip64Entries) {
  ZipItem item{"a/data/0", "storage"};
  item.zip64 = true;
  const Zip zip = make_zip({{"a/data.pkl", "pickle"}, item});
  auto reader = ZipReader::open(as_bytes(zip.bytes));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(text_of(*reader, "a/data/0"), "storage");
}

// 5 GiB of zeros that take no memory.
TEST(ZipReader, ReadsEntriesOfMoreThan4GiB) {
  constexpr uint64_t kSize = uint64_t{5} << 30, kTail = 1 << 16;
  void* memory =
      mmap(nullptr, kSize + kTail, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* base = static_cast<char*>(memory);
  Zip zip;
  ZipItem item{"a/data/0", ""};
  add_local(zip, item, 0, 0);
  zip.bytes.resize(zip.data[0]);  // without the descriptor of the short form
  std::memcpy(base, zip.bytes.data(), zip.bytes.size());
  std::string tail = "PK\x07\x08" + little<uint32_t>(0) + little(kSize) + little(kSize);
  const uint64_t directory = zip.data[0] + kSize + tail.size();
  const std::string wide = little(kSize) + little(kSize) + little(uint64_t{0});
  std::string entry = "PK\x01\x02" + little<uint32_t>(0) + little<uint16_t>(8) + little<uint16_t>(0) +
                      little<uint32_t>(0) + little<uint32_t>(0) + little(UINT32_MAX) + little(UINT32_MAX) +
                      little(static_cast<uint16_t>(item.name.size())) + little<uint16_t>(28) + little<uint16_t>(0) +
                      little<uint16_t>(0) + little<uint16_t>(0) + little<uint32_t>(0) + little(UINT32_MAX) + item.name +
                      little<uint16_t>(1) + little<uint16_t>(24) + wide;
  tail += entry;
  const uint64_t end64 = directory + entry.size();
  tail += "PK\x06\x06" + little<uint64_t>(44) + little<uint32_t>(0) + little<uint32_t>(0) + little<uint32_t>(0) +
          little<uint64_t>(1) + little<uint64_t>(1) + little(uint64_t{entry.size()}) + little(directory) +
          "PK\x06\x07" + little<uint32_t>(0) + little(end64) + little<uint32_t>(1) + "PK\x05\x06" +
          little<uint32_t>(0) + little<uint16_t>(1) + little<uint16_t>(1) +
          little(static_cast<uint32_t>(entry.size())) + little(UINT32_MAX) + little<uint16_t>(0);
  std::memcpy(base + zip.data[0] + kSize, tail.data(), tail.size());
  const Bytes file(reinterpret_cast<std::byte*>(base), zip.data[0] + kSize + tail.size());
  auto reader = ZipReader::open(file);
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  if (reader.ok()) {
    EXPECT_EQ(reader->entries()[0].size, kSize);
    EXPECT_EQ(reader->bytes(reader->entries()[0])->size(), kSize);
  }
  munmap(memory, kSize + kTail);
}

TEST(ZipReader, EveryTruncationIsRefused) {
  const Zip zip = two();
  for (size_t size = 0; size < zip.bytes.size(); size++)
    EXPECT_EQ(open_status(zip.bytes.substr(0, size)).code(), CKPT_FORMAT) << size;
  expect_refused("", "truncated");
  expect_refused(zip.bytes.substr(0, zip.directory), "truncated: no end record");
}

TEST(ZipReader, ADirectoryThatIsNotWhereItIsSaidToBeIsRefused) {
  Zip zip = two();
  put_at(zip.bytes, zip.locator + 8, uint64_t{zip.end64 - 1});
  expect_refused(zip.bytes, "not where its locator says");
  zip = two();
  put_at(zip.bytes, zip.end64 + 4, uint64_t{43});
  expect_refused(zip.bytes, "does not end at its locator");
  zip = two();
  put_at(zip.bytes, zip.end + 16, static_cast<uint32_t>(zip.directory + 1));
  expect_refused(zip.bytes, "disagree");
  zip = make_zip({{"a/data.pkl", "pickle"}}, false);
  put_at(zip.bytes, zip.end + 12, uint32_t{1});
  expect_refused(zip.bytes, "does not end where the end record begins");
  zip = make_zip({{"a/data.pkl", "pickle"}}, false);
  put_at(zip.bytes, zip.end + 8, uint16_t{2});
  put_at(zip.bytes, zip.end + 10, uint16_t{2});
  expect_refused(zip.bytes, "more entries than");
  zip = make_zip({{"a/data.pkl", "pickle"}, {"a/data/0", "storage"}}, false);
  put_at(zip.bytes, zip.end + 8, uint16_t{1});
  put_at(zip.bytes, zip.end + 10, uint16_t{1});
  expect_refused(zip.bytes, "bytes between the directory and its end record");
}

TEST(ZipReader, SeveralDisksAndEncryptionAreUnsupported) {
  Zip zip = make_zip({{"a/data.pkl", "pickle"}}, false);
  put_at(zip.bytes, zip.end + 4, uint16_t{1});
  expect_refused(zip.bytes, "several disks", CKPT_UNSUPPORTED);
  zip = two();
  put_at(zip.bytes, zip.locator + 16, uint32_t{2});
  expect_refused(zip.bytes, "several disks", CKPT_UNSUPPORTED);
  ZipItem item{"a/data.pkl", "pickle"};
  item.flags = 1;
  expect_refused(make_zip({item}).bytes, "encrypted", CKPT_UNSUPPORTED);
}

TEST(ZipReader, OverlappingEntriesAreRefused) {
  Zip zip = make_zip({{"a/x", "1234567890"}, {"a/x", "1234567890"}});
  put_at(zip.bytes, zip.entry[1] + 42, static_cast<uint32_t>(zip.local[0]));
  expect_refused(zip.bytes, "overlaps entry \"a/x\"");
  // An entry inside the data of another one.
  ZipItem inner{"a/y", "in"};
  inner.descriptor = false;
  const Zip inside = make_zip({inner});
  zip = make_zip({{"a/x", inside.bytes.substr(0, inside.directory)}, inner});
  put_at(zip.bytes, zip.entry[1] + 42, static_cast<uint32_t>(zip.data[0]));
  expect_refused(zip.bytes, "overlaps entry");
}

TEST(ZipReader, EntriesThatReachIntoTheDirectoryAreRefused) {
  Zip zip = make_zip({{"a/x", "1234567890"}});
  put_at(zip.bytes, zip.entry[0] + 42, static_cast<uint32_t>(zip.directory));
  expect_refused(zip.bytes, "no local header");
  put_at(zip.bytes, zip.entry[0] + 42, UINT32_MAX);
  expect_refused(zip.bytes, "no zip64 extra field");
  put_at(zip.bytes, zip.entry[0] + 42, UINT32_MAX - 1);
  expect_refused(zip.bytes, "no local header");
  zip = make_zip({{"a/x", "1234567890"}});
  put_at(zip.bytes, zip.local[0] + 28, uint16_t{65535});
  expect_refused(zip.bytes, "reaches into the directory");
  zip = make_zip({{"a/x", "1234567890"}});
  put_at(zip.bytes, zip.entry[0] + 20, uint32_t{1000});
  put_at(zip.bytes, zip.entry[0] + 24, uint32_t{1000});
  expect_refused(zip.bytes, "data past the end");
}

TEST(ZipReader, LocalHeadersThatLieAreRefused) {
  auto plain = [] {
    ZipItem item{"a/x", "1234567890"};
    item.descriptor = false;
    return make_zip({item});
  };
  Zip zip = plain();
  zip.bytes[zip.local[0] + 30] = 'b';
  expect_refused(zip.bytes, "its local header is called \"b/x\"");
  zip = plain();
  put_at(zip.bytes, zip.local[0] + 18, uint32_t{9});
  expect_refused(zip.bytes, "stored size: expected 10, found 9");
  zip = plain();
  put_at(zip.bytes, zip.local[0] + 22, uint32_t{9});
  expect_refused(zip.bytes, "size in its local header: expected 10, found 9");
  zip = plain();
  put_at(zip.bytes, zip.local[0] + 14, uint32_t{9});
  expect_refused(zip.bytes, "CRC-32 in its local header");
  zip = plain();
  put_at(zip.bytes, zip.local[0] + 8, uint16_t{8});
  expect_refused(zip.bytes, "other flags or another method");
  zip = plain();
  put_at(zip.bytes, zip.local[0] + 18, UINT32_MAX);
  expect_refused(zip.bytes, "no zip64 extra field in its local header");
  zip = two();
  zip.bytes[zip.data[0] + 6 + 4]++;  // the CRC-32 in the descriptor
  expect_refused(zip.bytes, "no data descriptor that agrees");
}

TEST(ZipReader, ASizeThatIsNotTheStoredSizeIsRefused) {
  ZipItem item{"a/x", "1234567890"};
  item.size = 11;
  expect_refused(make_zip({item}).bytes, "stored size: expected 11, found 10");
}

TEST(ZipReader, ANameGivenTwiceIsRefused) {
  expect_refused(make_zip({{"a/x", "1"}, {"a/x", "2"}}).bytes, "the name comes twice");
}

TEST(ZipReader, DamageIsFoundByTheChecksum) {
  Zip zip = two();
  zip.bytes[zip.data[1]] ^= 1;
  auto reader = ZipReader::open(as_bytes(zip.bytes));
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(reader->verify(*reader->find("a/data.pkl")).ok());
  const Status status = reader->verify(2);
  EXPECT_EQ(status.code(), CKPT_CORRUPT);
  EXPECT_NE(status.message().find("\"a/data/0\": CRC-32: expected"), std::string::npos) << status.message();
  EXPECT_EQ(*status.detail("offset"), std::to_string(zip.data[1]));
}

TEST(ZipReader, ChecksumsThatTorchLeftOutAreNotCompared) {
  const Zip zip = make_zip({{"a/data.pkl", "pickle"}}, true, false);
  auto reader = ZipReader::open(as_bytes(zip.bytes));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader->entries()[0].crc, 0u);
  EXPECT_TRUE(reader->verify(1).ok());
}

class CompressedEntry : public testing::Test {
 protected:
  Zip zip_of(uint64_t size, uint32_t crc = 0) const {
    ZipItem item{"a/code/x.py", deflated(content_)};
    item.method = 8;
    item.size = size;
    item.crc = crc;
    return make_zip({item});
  }
  Result<std::string> text_of(const Zip& zip, uint64_t limit) const {
    CKPT_ASSIGN(const ZipReader reader, ZipReader::open(as_bytes(zip.bytes)));
    return reader.text(reader.entries()[0], limit);
  }
  const std::string content_ = std::string(1 << 19, 'c') + "end";
};

TEST_F(CompressedEntry, IsTextAndNoBytesInPlace) {
  const Zip zip = zip_of(content_.size(), crc_of(content_));
  const auto reader = ZipReader::open(as_bytes(zip.bytes));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader->bytes(reader->entries()[0]).status().code(), CKPT_UNSUPPORTED);
  EXPECT_EQ(*text_of(zip, content_.size()), content_);
  EXPECT_EQ(text_of(zip, content_.size() - 1).status().code(), CKPT_FORMAT);
  EXPECT_EQ(*text_of(zip_of(content_.size()), content_.size()), content_);  // its CRC-32 was not recorded
}

TEST_F(CompressedEntry, OfAnotherSizeOrContentIsRefused) {
  for (const uint64_t size : {content_.size() - 1, content_.size() + 1})
    EXPECT_EQ(text_of(zip_of(size), UINT64_MAX).status().code(), CKPT_FORMAT);
  EXPECT_EQ(text_of(zip_of(content_.size(), crc_of("else")), UINT64_MAX).status().code(), CKPT_CORRUPT);
}

TEST_F(CompressedEntry, SizeThatItOnlySaysTakesNoMemory) {
  const auto peak = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const auto before = peak();
  EXPECT_EQ(text_of(zip_of(1 << 30), UINT64_MAX).status().code(), CKPT_FORMAT);
  EXPECT_LT(peak() - before, 256 << 10);
}

TEST(ZipReader, ACommentMayFollowTheEndRecord) {
  Zip zip = two();
  put_at(zip.bytes, zip.end + 20, uint16_t{4});
  zip.bytes += "note";
  EXPECT_TRUE(open_status(zip.bytes).ok());
  zip.bytes += "!";
  expect_refused(zip.bytes, "no end record");
}

}  // namespace
}  // namespace ckpt::interop
