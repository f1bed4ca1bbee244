// Both forms of .pt, and what is refused before a value is looked at.
#include "interop/src/pt/source.h"

#include <gtest/gtest.h>

#include "pt_fixture.h"

namespace ckpt::interop {
namespace {

using namespace pickled;

Status parse_status(const std::string& bytes, bool verify = true) {
  return PtSource::parse("x.pt", as_bytes(bytes), {.verify = verify}).status();
}

void expect_refused(const std::string& bytes, const char* reason, ckpt_status code = CKPT_FORMAT) {
  const Status status = parse_status(bytes);
  EXPECT_EQ(status.code(), code) << reason << "\n" << status.message();
  EXPECT_NE(status.message().find(reason), std::string::npos) << "expected: " << reason << "\n" << status.message();
  EXPECT_TRUE(status.message().starts_with("x.pt: ")) << status.message();
}

std::string zip_of(const std::vector<ZipItem>& items) { return make_zip(items).bytes; }
ZipItem pickle_item() { return {"m/data.pkl", document(none)}; }

TEST(PtSource, FindsPickleAndStoragesOfAZip) {
  const std::string bytes = pt_of(integer(7), {{"0", "abc"}, {"x/y", "d"}});
  auto source = PtSource::parse("x.pt", as_bytes(bytes), {});
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_FALSE(source->legacy());
  EXPECT_EQ(source->pickle()[source->pickle().root()].integer, 7);
  ASSERT_NE(source->storage("0"), nullptr);
  EXPECT_EQ(as_text(*source->storage("0")), "abc");
  ASSERT_NE(source->storage("x/y"), nullptr);
  EXPECT_EQ(source->storage("1"), nullptr);
  EXPECT_EQ(source->unchecked(), 0u);
}

TEST(PtSource, FindsPickleAndStoragesOfTheOlderForm) {
  const std::string bytes = legacy_of(tuple({storage("b", "FloatStorage", 2)}), {{"b", "12345678"}});
  auto source = PtSource::parse("x.pt", as_bytes(bytes), {});
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_TRUE(source->legacy());
  ASSERT_NE(source->storage("b"), nullptr);
  EXPECT_EQ(as_text(*source->storage("b")), "12345678");
  EXPECT_EQ(source->unchecked(), 1u);  // it has no checksums at all
}

TEST(PtSource, TheOlderFormKnowsViewsOfStorages) {
  const std::string view = tuple({text("v"), integer(1), integer(2)});
  const std::string id =
      tuple({text("storage"), global("torch", "FloatStorage"), text("r"), text("cpu"), integer(4), view}) + "Q";
  const std::string bytes = legacy_of(id, {{"r", "aaaabbbbccccdddd"}});
  auto source = PtSource::parse("x.pt", as_bytes(bytes), {});
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(as_text(*source->storage("r")), "aaaabbbbccccdddd");
  EXPECT_EQ(as_text(*source->storage("v")), "bbbbcccc");
  for (const auto& [offset, reason] : {std::pair(3, "its view at element 3 of 2 reaches past its 16 bytes"),
                                       std::pair(-1, "a persistent id that is no storage: its view")}) {
    const std::string beyond = tuple({text("v"), integer(offset), integer(2)});
    expect_refused(
        legacy_of(
            tuple({text("storage"), global("torch", "FloatStorage"), text("r"), text("cpu"), integer(4), beyond}) + "Q",
            {{"r", "aaaabbbbccccdddd"}}),
        reason);
  }
}

TEST(PtSource, LooksLikeTellsByContent) {
  EXPECT_TRUE(PtSource::looks_like(as_bytes(pt_of(none))));
  EXPECT_TRUE(PtSource::looks_like(as_bytes(legacy_of(none))));
  EXPECT_TRUE(PtSource::looks_like(as_bytes("sys_info" + std::string(249, '\0') + "ustar")));
  EXPECT_FALSE(PtSource::looks_like(as_bytes("notes.txt" + std::string(248, '\0') + "ustar")));
  EXPECT_FALSE(PtSource::looks_like(as_bytes(std::string("\x08\0\0\0\0\0\0\0{}      ", 16))));
  EXPECT_FALSE(PtSource::looks_like({}));
}

TEST(PtSource, WhatIsNeitherFormIsRefused) {
  expect_refused("", "neither a zip archive nor the older form");
  expect_refused(std::string(300, 'x'), "neither a zip archive nor the older form");
  expect_refused("sys_info" + std::string(249, '\0') + "ustar" + std::string(300, '\0'), "tar form", CKPT_UNSUPPORTED);
}

TEST(PtSource, ZipsThatAreNotTorchsAreRefused) {
  expect_refused(zip_of({{"m/x", "1"}}), "no \"m/data.pkl\" in the archive: a zip file, but none of torch.save's");
  expect_refused(zip_of({{"arr_0.npy", "1"}}), "its first entry is \"arr_0.npy\"");
  expect_refused(zip_of({{"data.pkl", document(none)}}), "no \"data.pkl\" in the archive");
  expect_refused(zip_of({pickle_item(), {"m/byteorder", "big"}}), "byte order: expected little, found \"big\"",
                 CKPT_UNSUPPORTED);
  expect_refused(zip_of({pickle_item(), {"m/version", "11\n"}}), "version: expected up to 10, found 11",
                 CKPT_UNSUPPORTED);
  expect_refused(zip_of({pickle_item(), {"m/version", "999"}}), "found 999", CKPT_UNSUPPORTED);
  expect_refused(zip_of({pickle_item(), {"m/version", "99999999999999999999"}}), "version: expected a number");
  ZipItem packed{"m/data/0", "1"};
  packed.method = 8;
  expect_refused(zip_of({pickle_item(), packed}), "is compressed", CKPT_UNSUPPORTED);
  packed.method = 99;
  expect_refused(zip_of({pickle_item(), packed}), "is compressed (method 99)", CKPT_UNSUPPORTED);
}

TEST(PtSource, CodeOfTorchScriptIsToldByTheFunctionsName) {
  const char* types = "class Module(Module):\n  __parameters__ = [\"w\", ]\n  w : Tensor\n";
  EXPECT_TRUE(parse_status(zip_of({pickle_item(), {"m/code/__torch__.py", types}})).ok());
  const std::string code = std::string(types) + "  def forward(self: __torch__.M) -> Tensor:\n    return self.w\n";
  const std::string archive = zip_of({pickle_item(), {"m/code/__torch__.py", code}});
  const auto source = PtSource::parse("x.pt", as_bytes(archive), {});
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(source->code(), "forward");
}

TEST(PtSource, DamageOfThePickleIsAlwaysFound) {
  Zip zip = make_zip({pickle_item(), {"m/data/0", "12345678"}});
  zip.bytes[zip.data[0] + 2] = '}';
  EXPECT_EQ(parse_status(zip.bytes, false).code(), CKPT_CORRUPT);
}

TEST(PtSource, EntriesWithoutChecksumsAreCounted) {
  const Zip zip = make_zip({pickle_item(), {"m/data/0", "12345678"}, {"m/data/1", ""}}, true, false);
  auto source = PtSource::parse("x.pt", as_bytes(zip.bytes), {});
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(source->unchecked(), 2u);
}

TEST(PtSource, MessagesAreTextWhateverTheFileHolds) {
  Zip zip = make_zip({pickle_item()});
  zip.bytes[zip.local[0] + 30] = '\xe1';
  expect_refused(zip.bytes, "called \"\\\\xe1/data.pkl\"");
  expect_refused(zip_of({pickle_item(), {"m/byteorder", "\xff"}}), "found \"\\\\xff\"", CKPT_UNSUPPORTED);
}

TEST(PtSource, EveryTruncationOfTheOlderFormIsRefused) {
  const std::string bytes = legacy_of(storage("b", "FloatStorage", 2), {{"b", "12345678"}});
  for (size_t size = 0; size < bytes.size(); size++)
    EXPECT_EQ(parse_status(bytes.substr(0, size)).code(), CKPT_FORMAT) << size;
  expect_refused(bytes + "x", "1 bytes after the last storage");
}

TEST(PtSource, TheOlderFormsNumbersAreChecked) {
  const std::string value = storage("b", "FloatStorage", 2);
  std::string bytes = legacy_of(value, {{"b", "12345678"}});
  put_at(bytes, bytes.size() - 16, int64_t{3});
  expect_refused(bytes, "storage \"b\": elements, at most: expected 2, found 3");
  put_at(bytes, bytes.size() - 16, int64_t{-1});
  expect_refused(bytes, "found -1");
  bytes = legacy_of(value, {{"b", "12345678"}});
  put_at(bytes, 19, int64_t{1002});
  expect_refused(bytes, "protocol: expected 1001, found 1002");
  expect_refused(document(integer(1)) + bytes, "magic number: expected 119547037146038801333356, found 1");
  bytes[4] ^= 1;  // of the magic number, without which it is a plain pickle
  expect_refused(bytes, "the pickle ends at byte 15");
  expect_refused(legacy_of(value, {{"c", "12345678"}}), "storage \"c\": the object does not name it");
  expect_refused(legacy_of(value, {{"b", "1234"}}), "storage \"b\": elements: expected 2, found 1");
  expect_refused(legacy_of(storage("b", "FloatStorage", 1), {{"b", "12345678"}}), "elements: expected 1, found 2");
  expect_refused(legacy_of(value, {{"b", "12345678"}, {"b", "12345678"}}), "the key comes twice");
  expect_refused(legacy_of(value, {{"b", "12345678"}}, 4, false), "byte order", CKPT_UNSUPPORTED);
  expect_refused(legacy_of(storage("b", "OddStorage", 2), {{"b", "12345678"}}), "unknown type", CKPT_UNSUPPORTED);
  expect_refused(legacy_of(storage(std::string(256, 'b'), "FloatStorage", 2)), "its key is longer than 255");
  expect_refused(legacy_of(text("x") + "Q", {}), "a persistent id that is no storage");
}

}  // namespace
}  // namespace ckpt::interop
