// What the writer of zip archives writes, looked at byte by byte and by the reader.
#include "interop/src/zip/writer.h"

#include <cstring>
#include <vector>

#include "interop/src/zip/reader.h"
#include "safetensors_fixture.h"

namespace ckpt::interop {
namespace {

struct Named {
  std::string name, data;
};

class ZipWriterTest : public testing::Test {
 protected:
  // The archive of these entries; every second one goes in by pieces.
  std::string archive(const std::vector<Named>& entries, uint64_t zip64_from = ZipWriter::kZip64From) {
    OutputFile file = OutputFile::temporary().take();
    ZipWriter writer(file, zip64_from);
    for (size_t i = 0; i < entries.size(); i++) {
      const Bytes data = as_bytes(entries[i].data);
      if (i % 2 == 0) {
        EXPECT_TRUE(writer.add(entries[i].name, data).ok());
        continue;
      }
      EXPECT_TRUE(writer.begin(entries[i].name, data.size()).ok());
      for (size_t at = 0; at < data.size(); at += 7)
        EXPECT_TRUE(writer.write(data.subspan(at, std::min<size_t>(7, data.size() - at))).ok());
      EXPECT_TRUE(writer.end().ok());
    }
    EXPECT_TRUE(writer.finish().ok());
    const MappedFile written = file.map().take();
    EXPECT_EQ(writer.size(), written.bytes().size());
    return std::string(as_text(written.bytes()));
  }

  static void expect_entries(const std::string& bytes, const std::vector<Named>& expected) {
    Result<ZipReader> reader = ZipReader::open(as_bytes(bytes));
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    ASSERT_EQ(reader->entries().size(), expected.size());
    for (const Named& entry : expected) {
      const ZipEntry* found = reader->find(entry.name);
      ASSERT_NE(found, nullptr) << entry.name;
      Result<Bytes> data = reader->bytes(*found);
      ASSERT_TRUE(data.ok()) << data.status().message();
      EXPECT_EQ(as_text(*data), entry.data) << entry.name;
    }
    const Status sums = reader->verify(1);
    EXPECT_TRUE(sums.ok()) << sums.message();
  }
};

const std::vector<Named> kEntries = {
    {"archive/data.pkl", "abc"}, {"archive/data/0", pattern(1000)}, {"archive/none", ""}, {"archive/ü", pattern(63)},
    {"archive/empty", ""},       {"archive/data/1", pattern(64)},
};

TEST_F(ZipWriterTest, ReaderFindsEveryEntryWithItsCheckSum) { expect_entries(archive(kEntries), kEntries); }

TEST_F(ZipWriterTest, LongFormIsReadTheSame) {
  const std::string brief = archive(kEntries), mixed = archive(kEntries, 64), longest = archive(kEntries, 0);
  EXPECT_LT(brief.size(), longest.size());
  expect_entries(mixed, kEntries);
  expect_entries(longest, kEntries);
}

TEST_F(ZipWriterTest, DataLiesAtMultiplesOf64) {
  for (uint64_t zip64_from : {ZipWriter::kZip64From, uint64_t{0}}) {
    const std::string bytes = archive(kEntries, zip64_from);
    Result<ZipReader> reader = ZipReader::open(as_bytes(bytes));
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    for (const ZipEntry& entry : reader->entries()) EXPECT_EQ(entry.begin % 64, 0u) << entry.name;
  }
}

TEST_F(ZipWriterTest, SameContentGivesTheSameBytes) { EXPECT_EQ(archive(kEntries), archive(kEntries)); }

TEST_F(ZipWriterTest, EmptyArchiveIsOne) { expect_entries(archive({}), {}); }

TEST_F(ZipWriterTest, MoreEntriesThanTheShortFormCounts) {
  std::vector<Named> entries;
  for (int i = 0; i < 66'000; i++) entries.push_back({"archive/data/" + std::to_string(i), std::to_string(i)});
  expect_entries(archive(entries), entries);
}

TEST_F(ZipWriterTest, WrongAmountOfDataIsRefused) {
  OutputFile file = OutputFile::temporary().take();
  ZipWriter writer(file);
  EXPECT_EQ(writer.write(as_bytes("a")).code(), CKPT_INVALID);
  ASSERT_TRUE(writer.begin("a", 2).ok());
  EXPECT_EQ(writer.write(as_bytes("abc")).code(), CKPT_INVALID);
  EXPECT_EQ(writer.end().code(), CKPT_INVALID);
  EXPECT_EQ(writer.add("b", {}).code(), CKPT_INVALID);
  EXPECT_EQ(writer.finish().code(), CKPT_INVALID);
  ASSERT_TRUE(writer.write(as_bytes("ab")).ok());
  EXPECT_TRUE(writer.end().ok());
  EXPECT_TRUE(writer.finish().ok());
}

TEST_F(ZipWriterTest, NamesThatAZipCannotHoldAreRefused) {
  OutputFile file = OutputFile::temporary().take();
  ZipWriter writer(file);
  EXPECT_EQ(writer.add("", {}).code(), CKPT_INVALID);
  EXPECT_EQ(writer.add(std::string(65536, 'a'), {}).code(), CKPT_INVALID);
}

}  // namespace
}  // namespace ckpt::interop
