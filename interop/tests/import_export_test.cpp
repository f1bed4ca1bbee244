// Import and export through the public header: what was imported can be loaded, and exports are the files again.
#include <filesystem>

#include "store_fixture.h"

namespace ckpt::interop {
namespace {

class Interop : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    must([&](auto** err) { return ckpt_options_new(&options_, err); });
  }
  void TearDown() override {
    ckpt_options_free(options_);
    StoreTest::TearDown();
  }

  Failure import(const std::string& from, const char* label = "l") {
    info_ = {};
    info_.struct_size = sizeof info_;
    return attempt([&](auto** err) { return ckpt_import(store_, from.c_str(), label, 7, options_, &info_, err); });
  }
  Failure export_to(const std::string& to, const std::string& selector) {
    ckpt_reader* reader = nullptr;
    Failure failure =
        attempt([&](auto** err) { return ckpt_reader_open(&reader, store_, selector.c_str(), nullptr, err); });
    if (failure.code == CKPT_OK)
      failure = attempt([&](auto** err) { return ckpt_export(reader, to.c_str(), options_, err); });
    ckpt_reader_free(reader);
    return failure;
  }
  void expect_round_trip(const std::string& from, const std::string& to) {
    const Failure in = import(from);
    ASSERT_EQ(in.code, CKPT_OK) << in.message;
    const Failure out = export_to(to, info_.id);
    ASSERT_EQ(out.code, CKPT_OK) << out.message;
  }

  ckpt_options* options_ = nullptr;
};

TEST_F(Interop, AnImportedFileCanBeLoaded) {
  write_file(path("m.safetensors"),
             file_of("{" + entry("w", "F32", "[2]", 0, 8) + "," + entry("e", "I8", "[0]", 8, 8) + "}", "abcdefgh"));
  const Failure failure = import(path("m.safetensors"));
  ASSERT_EQ(failure.code, CKPT_OK) << failure.message;
  EXPECT_STREQ(info_.run, "main");
  EXPECT_STREQ(info_.label, "l");
  EXPECT_EQ(info_.step, 7);
  EXPECT_EQ(info_.tensor_count, 2u);
  EXPECT_EQ(info_.world_size, 1u);

  ckpt_reader* reader = nullptr;
  std::string data(8, '\0');
  must([&](auto** err) { return ckpt_reader_open(&reader, store_, info_.id, nullptr, err); });
  load_whole(reader, "w", describe(CKPT_DTYPE_F32, {2}), data);
  EXPECT_EQ(data, "abcdefgh");
  EXPECT_STREQ(ckpt_reader_attr(reader, nullptr, "safetensors.files"), "[\"m.safetensors\"]");
  EXPECT_EQ(ckpt_reader_attr(reader, nullptr, "safetensors.order"), nullptr);
  EXPECT_EQ(ckpt_reader_attr(reader, "w", "safetensors.file"), nullptr);
  ckpt_reader_free(reader);
}

// In the reference implementation's order: widest dtypes first, then by name.
TEST_F(Interop, ACanonicalFileComesBackByteForByte) {
  std::string file =
      file_of(padded("{\"__metadata__\":{\"format\":\"pt\",\"b\":\"2\"}," + entry("step", "I64", "[]", 0, 8) + "," +
                     entry("a", "F32", "[2,3]", 8, 32) + "," + entry("\xc3\xa9\\\\\\\"", "BF16", "[3]", 32, 38) + "," +
                     entry("empty", "F8_E4M3", "[0,4]", 38, 38) + "," + entry("packed", "F4", "[2,3]", 38, 41) + "," +
                     entry("mask", "BOOL", "[1]", 41, 42) + "}"),
              pattern(41) + '\1');
  write_file(path("m.safetensors"), file);
  expect_round_trip(path("m.safetensors"), path("out.safetensors"));
  EXPECT_EQ(read_file(path("out.safetensors")), file);
  EXPECT_EQ(entry_count(), 2u);
}

TEST_F(Interop, EveryDtypeComesBack) {
  std::string json = "{", data;
  for (const char* dtype : {"U64", "I64", "F64",     "C64",         "F32",         "U32",     "I32",     "BF16",
                            "F16", "U16", "I16",     "F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0", "F8_E4M3", "F8_E5M2",
                            "I8",  "U8",  "F6_E3M2", "F6_E2M3",     "F4",          "BOOL"}) {
    const std::string text = dtype;
    const size_t bits = text.find("64") != std::string::npos   ? 64
                        : text.find("32") != std::string::npos ? 32
                        : text.find("16") != std::string::npos ? 16
                        : text.find("F6") != std::string::npos ? 6
                        : text == "F4"                         ? 4
                                                               : 8;
    if (data.size()) json += ',';
    json += entry("t." + text, text, "[4,2]", data.size(), data.size() + bits);
    data += text == "BOOL" ? std::string("\0\1\1\0\1\0\0\1", 8) : pattern(bits, static_cast<unsigned>(data.size()));
  }
  write_file(path("m.safetensors"), file_of(padded(json + "}"), data));
  expect_round_trip(path("m.safetensors"), path("out.safetensors"));
  EXPECT_EQ(read_file(path("out.safetensors")), read_file(path("m.safetensors")));
}

TEST_F(Interop, AnotherOrderOfTheDataIsKept) {
  const std::string file = file_of(padded("{" + entry("b", "U8", "[2]", 0, 2) + "," + entry("a", "F32", "[1]", 2, 6) +
                                          "," + entry("c", "U8", "[1]", 6, 7) + "}"),
                                   pattern(7));
  write_file(path("m.safetensors"), file);
  expect_round_trip(path("m.safetensors"), path("out.safetensors"));
  EXPECT_EQ(read_file(path("out.safetensors")), file);
}

TEST_F(Interop, AFileWithoutTensorsComesBack) {
  write_file(path("m.safetensors"), file_of(padded("{}")));
  expect_round_trip(path("m.safetensors"), path("out.safetensors"));
  EXPECT_EQ(read_file(path("out.safetensors")), file_of(padded("{}")));
}

TEST_F(Interop, TensorsLargerThanTheBufferComeBack) {
  const size_t big = (64 << 20) + 12345, sub_byte = (65 << 20) + 3;
  const std::string file = file_of(
      padded("{" + entry("a", "U8", "[" + std::to_string(big) + "]", 0, big) + "," +
             entry("b", "F6_E2M3", "[4," + std::to_string(sub_byte / 3) + "]", big, big + sub_byte / 3 * 3) + "}"),
      pattern(big + sub_byte / 3 * 3));
  write_file(path("m.safetensors"), file);
  expect_round_trip(path("m.safetensors"), path("out.safetensors"));
  EXPECT_TRUE(read_file(path("out.safetensors")) == file);
}

class InteropSet : public Interop {
 protected:
  void SetUp() override {
    Interop::SetUp();
    std::filesystem::create_directory(path("set"));
    write_file(path("set/model-00001-of-00002.safetensors"), first_);
    write_file(path("set/model-00002-of-00002.safetensors"), second_);
    write_file(path("set/model.safetensors.index.json"), index_);
  }
  void expect_same_set(const std::string& out) {
    EXPECT_EQ(read_file(out + "/model-00001-of-00002.safetensors"), first_);
    EXPECT_EQ(read_file(out + "/model-00002-of-00002.safetensors"), second_);
  }

  const std::string first_ = file_of(padded("{\"__metadata__\":{\"format\":\"pt\"}," + entry("z", "F32", "[1]", 0, 4) +
                                            "," + entry("b", "U8", "[2]", 4, 6) + "}"),
                                     pattern(6, 1));
  const std::string second_ =
      file_of(padded("{\"__metadata__\":{\"format\":\"pt\",\"n\":\"2\"}," + entry("a", "U8", "[3]", 0, 3) + "}"),
              pattern(3, 2));
  const std::string index_ =
      "{\n  \"metadata\": {\n    \"total_parameters\": 6,\n    \"total_size\": 9\n  },\n  \"weight_map\": {\n"
      "    \"a\": \"model-00002-of-00002.safetensors\",\n    \"b\": \"model-00001-of-00002.safetensors\",\n"
      "    \"z\": \"model-00001-of-00002.safetensors\"\n  }\n}\n";
};

TEST_F(InteropSet, ASetComesBackByteForByte) {
  for (const std::string from : {"set", "set/model.safetensors.index.json"}) {
    const std::string out = path("out" + std::to_string(from.size()));
    ASSERT_EQ(import(path(from), from == "set" ? "a" : "b").code, CKPT_OK);
    const Failure failure = export_to(out, info_.id);
    ASSERT_EQ(failure.code, CKPT_OK) << failure.message;
    expect_same_set(out);
    EXPECT_EQ(read_file(out + "/model.safetensors.index.json"), index_);
  }
}

TEST_F(InteropSet, ASetWithoutIndexGetsOne) {
  std::filesystem::remove(path("set/model.safetensors.index.json"));
  expect_round_trip(path("set"), path("out/"));
  expect_same_set(path("out"));
  EXPECT_NE(read_file(path("out/model.safetensors.index.json")).find("\"total_size\": 9\n"), std::string::npos);
}

TEST_F(InteropSet, ASetWithoutIndexHasAllFilesThatTheirNamesSay) {
  std::filesystem::remove(path("set/model.safetensors.index.json"));
  std::filesystem::rename(path("set/model-00001-of-00002.safetensors"), path("set/model-00001-of-00003.safetensors"));
  std::filesystem::rename(path("set/model-00002-of-00002.safetensors"), path("set/model-00003-of-00003.safetensors"));
  const auto expect_missing = [&](const std::string& name) {
    const Failure failure = import(path("set"));
    EXPECT_EQ(failure.code, CKPT_INCOMPLETE);
    EXPECT_NE(failure.message.find(name + " is missing"), std::string::npos) << failure.message;
  };
  expect_missing("model-00002-of-00003.safetensors");
  std::filesystem::rename(path("set/model-00001-of-00003.safetensors"), path("set/model-00002-of-00003.safetensors"));
  expect_missing("model-00001-of-00003.safetensors");
}

TEST_F(InteropSet, ASetCanBeExportedAsOneFile) {
  expect_round_trip(path("set"), path("out.safetensors"));
  EXPECT_EQ(read_file(path("out.safetensors")),
            file_of(padded("{\"__metadata__\":{\"format\":\"pt\",\"n\":\"2\"}," + entry("z", "F32", "[1]", 0, 4) + "," +
                           entry("a", "U8", "[3]", 4, 7) + "," + entry("b", "U8", "[2]", 7, 9) + "}"),
                    pattern(4, 1) + pattern(3, 2) + pattern(6, 1).substr(4)));
}

TEST_F(InteropSet, AnIndexThatDoesNotMatchItsFilesIsRefused) {
  write_file(path("set/model.safetensors.index.json"), "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\"}}");
  Failure failure = import(path("set"));
  EXPECT_EQ(failure.code, CKPT_FORMAT);
  EXPECT_EQ(failure.details["tensor"], "a");
  write_file(path("set/model.safetensors.index.json"), "{\"weight_map\":{\"a\":\"gone.safetensors\"}}");
  EXPECT_EQ(import(path("set")).code, CKPT_NOT_FOUND);
  write_file(path("set/model.safetensors.index.json"), "{\"weight_map\":{\"a\":\"../m.safetensors\"}}");
  EXPECT_EQ(import(path("set")).code, CKPT_FORMAT);
}

TEST_F(InteropSet, ATensorInTwoFilesIsRefused) {
  std::filesystem::remove(path("set/model.safetensors.index.json"));
  write_file(path("set/model-00003.safetensors"), second_);
  const Failure failure = import(path("set"));
  EXPECT_EQ(failure.code, CKPT_FORMAT);
  EXPECT_NE(failure.message.find("tensor \"a\": it is also in "), std::string::npos) << failure.message;
}

TEST_F(Interop, ABadFileCreatesNothingInTheStore) {
  write_file(path("m.safetensors"), file_of("{" + entry("w", "F32", "[2]", 0, 8) + "}", "abc"));
  const Failure failure = import(path("m.safetensors"));
  EXPECT_EQ(failure.code, CKPT_FORMAT);
  EXPECT_EQ(failure.details.at("path"), path("m.safetensors"));
  EXPECT_EQ(failure.details.at("tensor"), "w");
  EXPECT_EQ(import(path("none.safetensors")).code, CKPT_NOT_FOUND);
  EXPECT_EQ(checkpoint_count(), 0u);
}

TEST_F(Interop, ANameWithANulIsRefused) {
  write_file(path("m.safetensors"), file_of("{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"));
  EXPECT_EQ(import(path("m.safetensors")).code, CKPT_FORMAT);
}

TEST_F(Interop, TheRunCanBeChosenAndExistingLabelsAreRefused) {
  write_file(path("m.safetensors"), file_of("{}"));
  must([&](auto** err) { return ckpt_options_set_str(options_, "run", "mine", err); });
  ASSERT_EQ(import(path("m.safetensors")).code, CKPT_OK);
  EXPECT_STREQ(info_.run, "mine");
  const std::string first = info_.id;
  EXPECT_EQ(import(path("m.safetensors")).code, CKPT_EXISTS);
  must([&](auto** err) { return ckpt_options_set_str(options_, "on_existing", "keep", err); });
  ASSERT_EQ(import(path("m.safetensors")).code, CKPT_OK);
  EXPECT_NE(info_.id, first);  // both are kept
  EXPECT_STREQ(info_.label, "l");
}

TEST_F(Interop, InfoMayBeNull) {
  write_file(path("m.safetensors"), file_of("{}"));
  must([&](auto** err) { return ckpt_import(store_, path("m.safetensors").c_str(), "l", -1, nullptr, nullptr, err); });
}

TEST_F(Interop, LongMetadataComesBack) {
  const std::string value = pattern(0) + std::string(3 << 20, 'v');
  std::string accents;
  for (int i = 0; i < (1 << 20); i++) accents += "\xc3\xa9";
  const std::string file = file_of(padded("{\"__metadata__\":{\"k\":\"" + value + "\",\"l\":\"" + accents + "\"}}"));
  write_file(path("m.safetensors"), file);
  expect_round_trip(path("m.safetensors"), path("out.safetensors"));
  EXPECT_TRUE(read_file(path("out.safetensors")) == file);
}

TEST_F(Interop, ATrainersCheckpointIsExportedInTheUsualOrder) {
  save("own", {{{"b", CKPT_DTYPE_U8, {2}, "xy"}, {"a", CKPT_DTYPE_F32, {}, "abcd"}}, {}, ""});
  ASSERT_EQ(export_to(path("out.safetensors"), "own").code, CKPT_OK);
  const std::string expected =
      file_of(padded("{" + entry("a", "F32", "[]", 0, 4) + "," + entry("b", "U8", "[2]", 4, 6) + "}"), "abcdxy");
  EXPECT_EQ(read_file(path("out.safetensors")), expected);
  ASSERT_EQ(export_to(path("out"), "own").code, CKPT_OK);
  EXPECT_EQ(read_file(path("out/model.safetensors")), expected);
  EXPECT_FALSE(std::filesystem::exists(path("out/model.safetensors.index.json")));
}

TEST_F(Interop, AliasesAreExportedAsCopies) {
  save("own", {{{"w", CKPT_DTYPE_U8, {2, 3}, "abcdef"}},
               {{"tied", "w", {}, {}, 0}, {"row", "w", {2}, {1}, 3}, {"t", "w", {3, 2}, {1, 3}, 0}},
               ""});
  const Failure failure = export_to(path("out.safetensors"), "own");
  ASSERT_EQ(failure.code, CKPT_OK) << failure.message;
  EXPECT_EQ(read_file(path("out.safetensors")),
            file_of(padded("{" + entry("row", "U8", "[2]", 0, 2) + "," + entry("t", "U8", "[3,2]", 2, 8) + "," +
                           entry("tied", "U8", "[2,3]", 8, 14) + "," + entry("w", "U8", "[2,3]", 14, 20) + "}"),
                    "deadbecfabcdefabcdef"));
}

TEST_F(Interop, WhatSafetensorsLacksIsUnsupportedBeforeAnythingIsWritten) {
  const SavedTensor tensors[] = {{"int4", CKPT_DTYPE_I4, {2}, "x"},
                                 {"complex", CKPT_DTYPE_C128, {1}, pattern(16)},
                                 {"float8", CKPT_DTYPE_F8_E3M4, {1}, "x"},
                                 {"unknown", CKPT_DTYPE(0x60, 8), {1}, "x"},
                                 {"odd", CKPT_DTYPE_F4_E2M1FN, {3}, std::string("x\1", 2)},
                                 {"__metadata__", CKPT_DTYPE_U8, {1}, "x"}};
  for (const SavedTensor& tensor : tensors) {
    save("own-" + tensor.name, {{tensor}, {}, ""});
    for (const char* target : {"out.safetensors", "out"}) {
      const Failure failure = export_to(path(target), "own-" + tensor.name);
      EXPECT_EQ(failure.code, CKPT_UNSUPPORTED) << tensor.name;
      EXPECT_EQ(failure.details.at("tensor"), tensor.name);
    }
  }
  EXPECT_EQ(entry_count(), 0u);
}

TEST_F(Interop, AnExportNeverOverwrites) {
  save("own", {{{"w", CKPT_DTYPE_U8, {1}, "x"}}, {}, ""});
  write_file(path("out.safetensors"), "mine");
  EXPECT_EQ(export_to(path("out.safetensors"), "own").code, CKPT_EXISTS);
  EXPECT_EQ(read_file(path("out.safetensors")), "mine");
  std::filesystem::create_directory(path("out"));
  write_file(path("out/README"), "mine");
  EXPECT_EQ(export_to(path("out"), "own").code, CKPT_EXISTS);
  EXPECT_EQ(entry_count(), 2u);
  std::filesystem::remove(path("out/README"));
  EXPECT_EQ(export_to(path("out"), "own").code, CKPT_OK);
}

TEST_F(Interop, HostileAttributesDoNotLeaveTheDirectory) {
  const std::pair<const char*, const char*> attributes[] = {
      {"safetensors.files", "[\"../x.safetensors\"]"},
      {"safetensors.files", "[\"/tmp/x.safetensors\"]"},
      {"safetensors.files", "[\"a.safetensors\",\"a.safetensors\"]"},
      {"safetensors.files", "{"},
      {"safetensors.metadata", "{\"k\":1}"},
      {"safetensors.order", "[1]"},
      {"safetensors.index", "{},\"weight_map\":{}"},
      {"safetensors.index", "[]"}};
  for (size_t i = 0; i < std::size(attributes); i++) {
    const std::string label = "own-" + std::to_string(i);
    save(label, {{{"w", CKPT_DTYPE_U8, {1}, "x"}}, {}, ""}, {attributes[i]});
    const Failure failure = export_to(path("out"), label);
    EXPECT_EQ(failure.code, CKPT_FORMAT) << attributes[i].first << " " << attributes[i].second;
    EXPECT_NE(failure.message.find(attributes[i].first), std::string::npos) << failure.message;
  }
  EXPECT_EQ(entry_count(), 0u);
}

}  // namespace
}  // namespace ckpt::interop
