// The header of safetensors files: what is read, what is refused and how, and that no bytes whatever do harm.
#include "interop/src/safetensors/safetensors.h"

#include <random>

#include "safetensors_fixture.h"

namespace ckpt::interop {
namespace {

Result<Header> parse(const std::string& bytes) { return parse_header(as_bytes(bytes), "x.safetensors"); }

void expect_refused(const std::string& json, const std::string& data, const std::string& message,
                    ckpt_status code = CKPT_FORMAT) {
  const Result<Header> header = parse(file_of(json, data));
  ASSERT_FALSE(header.ok()) << json;
  EXPECT_EQ(header.status().code(), code) << header.status().message();
  EXPECT_NE(header.status().message().find(message), std::string::npos) << header.status().message();
  EXPECT_EQ(header.status().message().find("x.safetensors: "), 0u) << header.status().message();
  EXPECT_EQ(header.status().message().find('\n'), std::string::npos);
  EXPECT_EQ(*header.status().detail("path"), "x.safetensors");
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  const auto header =
      parse(file_of("{\"__metadata__\":{\"format\":\"pt\",\"a\":\"b\"}," + entry("b", "F32", "[2,2]", 2, 18) + "," +
                        entry("a", "BF16", "[]", 0, 2) + "}  ",
                    pattern(18)));
  ASSERT_TRUE(header.ok()) << header.status().message();
  ASSERT_EQ(header->tensors.size(), 2u);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[0].dtype, CKPT_DTYPE_BF16);
  EXPECT_EQ(header->tensors[0].shape.ndim, 0);
  EXPECT_EQ(to_text(header->tensors[1].shape), "[2, 2]");
  EXPECT_EQ(header->tensors[1].begin, 2u);
  EXPECT_EQ(header->tensors[1].end, 18u);
  EXPECT_EQ(*header->metadata, (StringMap{{"format", "pt"}, {"a", "b"}}));
}

TEST(Safetensors, ReadsFilesWithoutTensors) {
  EXPECT_TRUE(parse(file_of("{}")).ok());
  EXPECT_FALSE(parse(file_of("{}"))->metadata.has_value());
  EXPECT_TRUE(parse(file_of("{\"__metadata__\":{}}"))->metadata.has_value());
}

TEST(Safetensors, KnowsEveryDtypeOfTheReference) {
  const struct {
    const char* name;
    int32_t dtype;
  } rows[] = {{"BOOL", CKPT_DTYPE_BOOL},
              {"F4", CKPT_DTYPE_F4_E2M1FN},
              {"F6_E2M3", CKPT_DTYPE_F6_E2M3FN},
              {"F6_E3M2", CKPT_DTYPE_F6_E3M2FN},
              {"U8", CKPT_DTYPE_U8},
              {"I8", CKPT_DTYPE_I8},
              {"F8_E5M2", CKPT_DTYPE_F8_E5M2},
              {"F8_E4M3", CKPT_DTYPE_F8_E4M3FN},
              {"F8_E8M0", CKPT_DTYPE_F8_E8M0FNU},
              {"F8_E4M3FNUZ", CKPT_DTYPE_F8_E4M3FNUZ},
              {"F8_E5M2FNUZ", CKPT_DTYPE_F8_E5M2FNUZ},
              {"I16", CKPT_DTYPE_I16},
              {"U16", CKPT_DTYPE_U16},
              {"F16", CKPT_DTYPE_F16},
              {"BF16", CKPT_DTYPE_BF16},
              {"I32", CKPT_DTYPE_I32},
              {"U32", CKPT_DTYPE_U32},
              {"F32", CKPT_DTYPE_F32},
              {"C64", CKPT_DTYPE_C64},
              {"F64", CKPT_DTYPE_F64},
              {"I64", CKPT_DTYPE_I64},
              {"U64", CKPT_DTYPE_U64}};
  for (const auto& row : rows) {
    const uint64_t bytes = static_cast<uint64_t>(row.dtype & 0xff);  // 8 elements
    const auto header = parse(file_of("{" + entry("t", row.name, "[2,4]", 0, bytes) + "}", pattern(bytes)));
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(header->tensors[0].dtype, row.dtype);
    EXPECT_STREQ(safetensors_dtype(static_cast<uint16_t>(row.dtype)), row.name);
  }
  for (const int32_t dtype :
       std::initializer_list<int32_t>{CKPT_DTYPE_I4, CKPT_DTYPE_U4, CKPT_DTYPE_C32, CKPT_DTYPE_C128, CKPT_DTYPE_F8_E4M3,
                                      CKPT_DTYPE_F8_E3M4, CKPT_DTYPE_F8_E4M3B11FNUZ, CKPT_DTYPE(0x7f, 32)})
    EXPECT_EQ(safetensors_dtype(static_cast<uint16_t>(dtype)), nullptr);
}

TEST(Safetensors, UnknownDtypeIsUnsupportedAndNamed) {
  expect_refused("{" + entry("w", "Q4_K", "[1]", 0, 1) + "}", "x", "tensor \"w\": unknown dtype \"Q4_K\"",
                 CKPT_UNSUPPORTED);
  EXPECT_EQ(*parse(file_of("{" + entry("w", "Q4_K", "[1]", 0, 1) + "}", "x")).status().detail("tensor"), "w");
}

TEST(Safetensors, RefusesDataThatDoesNotFit) {
  const std::string a = entry("a", "U8", "[4]", 0, 4);
  expect_refused("{" + a + "}", "abc", "data past the end of the file, end: expected 3, found 4");
  expect_refused("{" + a + "}", "abcde", "bytes of data: expected 4, found 5");
  expect_refused("{" + a + "," + entry("b", "U8", "[4]", 2, 6) + "}", "abcdef",
                 "data overlaps, begin: expected 4, found 2");
  expect_refused("{" + a + "," + entry("b", "U8", "[2]", 5, 7) + "}", "abcdefg",
                 "a hole before the data, begin: expected 4, found 5");
  expect_refused("{" + entry("a", "U8", "[2]", 1, 3) + "}", "abc", "hole");
  expect_refused("{" + entry("a", "F32", "[2]", 0, 4) + "}", "abcd",
                 "tensor \"a\": bytes of data: expected 8, found 4");
  expect_refused("{" + entry("a", "U8", "[0]", 4, 0) + "}", "abcd", "data ends before it begins: expected 4, found 0");
  expect_refused("{" + a + "," + entry("b", "U8", "[4]", 0, 4) + "}", "abcd", "overlaps");
}

TEST(Safetensors, RefusesSizesThatOverflow) {
  expect_refused("{" + entry("a", "F32", "[4294967296,4294967296]", 0, 0) + "}", "", "more than 2^63-1 elements");
  expect_refused("{" + entry("a", "F64", "[4611686018427387904]", 0, 0) + "}", "", "more than 2^63-1 bytes");
  expect_refused("{" + entry("a", "U8", "[18446744073709551615,0]", 0, 0) + "}", "", "an extent above 2^63-1");
  expect_refused("{" + entry("a", "U8", "[18446744073709551616]", 0, 0) + "}", "", "unexpected 18446744073709551616");
  expect_refused("{" + entry("a", "U8", "[1]", 18446744073709551615u, 0) + "}", "", "data ends before it begins");
  expect_refused("{" + entry("a", "U8", "[-1]", 0, 0) + "}", "", "unexpected -1");
  expect_refused("{" + entry("a", "U8", "[1.0]", 0, 1) + "}", "x", "unexpected 1.0");
}

TEST(Safetensors, RefusesSubByteTensorsThatEndInsideAByte) {
  expect_refused("{" + entry("a", "F4", "[3]", 0, 2) + "}", "ab", "does not end at a whole byte");
  expect_refused("{" + entry("a", "F6_E2M3", "[2]", 0, 2) + "}", "ab", "does not end at a whole byte");
  EXPECT_TRUE(parse(file_of("{" + entry("a", "F6_E2M3", "[4]", 0, 3) + "}", "abc")).ok());
}

TEST(Safetensors, TakesSixteenDimensionsAndNoMore) {
  const std::string sixteen = "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1";
  EXPECT_TRUE(parse(file_of("{" + entry("a", "U8", "[" + sixteen + "]", 0, 1) + "}", "x")).ok());
  expect_refused("{" + entry("a", "U8", "[" + sixteen + ",1]", 0, 1) + "}", "x", "more than 16 dimensions");
}

TEST(Safetensors, RefusesWhatComesTwice) {
  const std::string a = entry("a", "U8", "[0]", 0, 0);
  expect_refused("{" + a + "," + a + "}", "", "tensor \"a\": the name comes twice");
  expect_refused("{\"__metadata__\":{},\"__metadata__\":{}}", "", "__metadata__ comes twice");
  expect_refused("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", "", "key \"k\" comes twice");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", "",
                 "dtype comes twice");
}

TEST(Safetensors, RefusesOtherShapesOfTheDocument) {
  expect_refused("[]", "", "does not begin with '{'");
  expect_refused(" {}", "", "does not begin with '{'");
  expect_refused("", "", "does not begin with '{'");
  expect_refused("{}x", "", "not JSON at byte");
  expect_refused("{", "", "not JSON");
  expect_refused(std::string("{}\0", 3), "", "a NUL");
  expect_refused("{\"a\":1}", "", "unexpected a number");
  expect_refused("{\"a\":null}", "", "unexpected null");
  expect_refused("{\"a\":[]}", "", "unexpected an array");
  expect_refused("{\"a\":{}}", "", "tensor \"a\": no dtype");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0]}}", "", "no shape");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", "", "no data_offsets");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0]}}", "", "expected 2 numbers, found 1");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0,0]}}", "",
                 "expected 2 numbers, found 3");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[[0]],\"data_offsets\":[0,0]}}", "", "unexpected an array");
  expect_refused("{\"a\":{\"dtype\":8,\"shape\":[0],\"data_offsets\":[0,0]}}", "", "unexpected a number");
  expect_refused("{\"a\":{\"pickle\":\"x\"}}", "", "unknown field \"pickle\"");
  expect_refused("{\"__metadata__\":{\"k\":1}}", "", "__metadata__: unexpected a number");
  expect_refused("{\"__metadata__\":{\"k\":{}}}", "", "__metadata__: unexpected an object");
  expect_refused("{\"__metadata__\":\"k\"}", "", "__metadata__: unexpected a string");
  expect_refused("{\"\xff\":{}}", "", "not JSON");
}

TEST(Safetensors, RefusesHeadersThatAreNotThere) {
  for (size_t size = 0; size < 8; size++) EXPECT_EQ(parse(std::string(size, '\0')).status().code(), CKPT_FORMAT);
  std::string bytes = file_of("{}");
  bytes[7] = '\x7f';
  EXPECT_EQ(parse(bytes).status().code(), CKPT_FORMAT);
  bytes.assign(8 + kMaxHeaderBytes + 1, ' ');
  const uint64_t size = kMaxHeaderBytes + 1;
  std::memcpy(bytes.data(), &size, 8);
  EXPECT_NE(parse(bytes).status().message().find("expected 100000000 bytes at most"), std::string::npos);
}

TEST(Safetensors, DeepNestingEndsEarly) {
  expect_refused("{\"a\":{\"shape\":" + std::string(1 << 20, '['), "", "unexpected an array");
  JsonEvents none;
  EXPECT_EQ(parse_json(std::string(1 << 20, '['), none).code(), CKPT_FORMAT);
}

TEST(Safetensors, MessagesShowHostileNamesSafely) {
  expect_refused("{\"a\\nb\\u0001\":{}}", "", "tensor \"a\\nb\\u0001\"");
  const auto header = parse(file_of("{\"" + std::string(1 << 20, 'n') + "\":{}}"));
  EXPECT_LT(header.status().message().size(), 400u);
}

std::string sample() {
  return file_of(padded("{\"__metadata__\":{\"format\":\"pt\"}," + entry("w", "F32", "[2,1]", 0, 8) + "," +
                        entry("e", "I8", "[0,7]", 8, 8) + "," + entry("\xc3\xa9", "F4", "[2]", 8, 9) + "}"),
                 pattern(9));
}

// Whatever is accepted must be whole: its tensors cover the data and lie inside the file.
void expect_sound_or_refused(const std::string& bytes) {
  const Result<Header> header = parse(bytes);
  if (!header.ok()) {
    EXPECT_TRUE(header.status().code() == CKPT_FORMAT || header.status().code() == CKPT_UNSUPPORTED);
    return;
  }
  uint64_t end = 0;
  for (const Tensor& tensor : header->tensors) {
    EXPECT_EQ(tensor.begin, end);
    EXPECT_EQ(tensor.end - tensor.begin, *tensor_bytes(tensor.shape, tensor.dtype));
    end = tensor.end;
  }
  EXPECT_EQ(header->data_offset + end, bytes.size());
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string bytes = sample();
  ASSERT_TRUE(parse(bytes).ok()) << parse(bytes).status().message();
  for (size_t size = 0; size < bytes.size(); size++) {
    // Its own heap block, so that the sanitizer sees a read past the end.
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(parse_header(std::as_bytes(std::span(cut)), "cut").ok()) << size;
  }
  EXPECT_FALSE(parse(bytes + "x").ok());
}

TEST(Safetensors, EveryChangedByteIsRefusedOrSound) {
  const std::string bytes = sample();
  for (size_t at = 0; at < bytes.size(); at++)
    for (int value = 0; value < 256; value++) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(value);
      expect_sound_or_refused(changed);
    }
}

TEST(Safetensors, RandomDocumentsAreRefusedOrSound) {
  const std::string tokens[] = {"{",
                                "}",
                                "[",
                                "]",
                                ":",
                                ",",
                                "\"a\"",
                                "\"dtype\"",
                                "\"shape\"",
                                "\"data_offsets\"",
                                "\"U8\"",
                                "\"__metadata__\"",
                                "0",
                                "1",
                                "-1",
                                "1e9",
                                "null",
                                "true",
                                "18446744073709551615",
                                "\"\\ud800\"",
                                "\"a\":{\"dtype\":\"U8\",\"shape\":[",
                                "],\"data_offsets\":[0,1]}"};
  std::mt19937 random(7);
  for (int round = 0; round < 20000; round++) {
    std::string json = "{";
    for (size_t i = random() % 12; i > 0; i--) json += tokens[random() % std::size(tokens)];
    expect_sound_or_refused(file_of(json + (random() % 2 ? "}" : ""), std::string(random() % 3, 'x')));
  }
}

TEST(Safetensors, HostileHeadersCostASmallMultipleOfTheirSize) {
  // Per tensor the shortest entry has 49 bytes of JSON.
  static_assert(sizeof(Tensor) <= 4 * 49);
  std::string json = "{";
  for (int i = 0; i < 50000; i++) json += (i ? "," : "") + entry(std::to_string(i), "U8", "[]", 0, 0);
  expect_refused(json + "}", "", "bytes of data: expected 1, found 0");
}

TEST(Safetensors, MetadataOfTooManyEntriesIsRefused) {
  std::string json = "{\"__metadata__\":{\"\":\"\"";
  for (size_t i = 0; i < tree::kMaxMapEntries; i++) json += ",\"\":\"\"";
  expect_refused(json + "}}", "", "__metadata__: more than 1048576 entries");
}

TEST(Safetensors, WrittenHeadersReadBackAndArePaddedToEight) {
  std::vector<Tensor> tensors(3);
  tensors[0] = {"w\"\\\n\x01/\xc3\xa9", CKPT_DTYPE_F32, Shape::of(std::array<uint64_t, 2>{2, 3}), 0, 24};
  tensors[1] = {"scalar", CKPT_DTYPE_BOOL, Shape{}, 24, 25};
  tensors[2] = {"empty", CKPT_DTYPE_I64, Shape::of(std::array<uint64_t, 2>{0, 3}), 25, 25};
  const StringMap metadata = {{"z", "1"}, {"a", "\"2\""}};
  const auto text = make_header(tensors, metadata);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->size() % 8, 0u);
  const auto header = parse(*text + pattern(25));
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->data_offset, text->size());
  EXPECT_EQ(*header->metadata, metadata);
  for (size_t i = 0; i < 3; i++) {
    const Tensor &a = header->tensors[i], &b = tensors[i];
    EXPECT_TRUE(a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.begin == b.begin && a.end == b.end);
  }
}

TEST(Safetensors, HeaderBytesAreThoseOfTheReferenceImplementation) {
  // safetensors 0.8.0: serialize({"b": f32 [2], "a": u8 []}, {"format": "pt"})
  const std::string json = "{\"__metadata__\":{\"format\":\"pt\"}," + entry("b", "F32", "[2]", 0, 8) + "," +
                           entry("a", "U8", "[]", 8, 9) + "}";
  std::vector<Tensor> tensors = {{"a", CKPT_DTYPE_U8, Shape{}, 8, 9},
                                 {"b", CKPT_DTYPE_F32, Shape::of(std::array<uint64_t, 1>{2}), 0, 8}};
  std::sort(tensors.begin(), tensors.end(), canonical_before);
  EXPECT_EQ(*make_header(tensors, StringMap{{"format", "pt"}}), file_of(padded(json)));
}

TEST(Safetensors, HeadersThatReadersRefuseAreNotWritten) {
  const StringMap metadata = {{"k", std::string(kMaxHeaderBytes, 'v')}};
  EXPECT_EQ(make_header({}, metadata).status().code(), CKPT_UNSUPPORTED);
}

}  // namespace
}  // namespace ckpt::interop
