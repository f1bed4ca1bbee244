// Sets of files: indexes, directories, the names that are taken; and files that appear in one step.
#include "interop/src/safetensors/file_set.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "interop/src/files.h"
#include "safetensors_fixture.h"

namespace ckpt::interop {
namespace {

void expect_refused(const std::string& text, const std::string& message) {
  const auto index = parse_index(text);
  ASSERT_FALSE(index.ok()) << text;
  EXPECT_EQ(index.status().code(), CKPT_FORMAT);
  EXPECT_NE(index.status().message().find(message), std::string::npos) << index.status().message();
}

TEST(Index, KeepsItsMetadataAndMap) {
  const auto index = parse_index(
      "{\"metadata\": {\"total_size\": 12, \"x\": [1.50, -2, {\"y\": null}, []], \"z\": \"\\u00e9\"},"
      " \"other\": [[1], {\"a\": \"b\"}], \"weight_map\": {\"b\": \"2.safetensors\", \"a\": \"1.safetensors\"}}");
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(index->metadata, "{\"total_size\":12,\"x\":[1.50,-2,{\"y\":null},[]],\"z\":\"\xc3\xa9\"}");
  EXPECT_EQ(index->weight_map, (StringMap{{"b", "2.safetensors"}, {"a", "1.safetensors"}}));
}

TEST(Index, RefusesWhatIsNotAnIndex) {
  expect_refused("", "not JSON");
  expect_refused("[]", "unexpected an array");
  expect_refused("3", "unexpected 3");
  expect_refused("{}", "no weight_map");
  expect_refused("{\"weight_map\":[]}", "weight_map: unexpected an array");
  expect_refused("{\"weight_map\":3}", "weight_map: unexpected 3");
  expect_refused("{\"weight_map\":{\"a\":3}}", "weight_map: unexpected 3");
  expect_refused("{\"weight_map\":{\"a\":{}}}", "weight_map: unexpected an object");
  expect_refused("{\"weight_map\":{\"a\":[]}}", "weight_map: unexpected an array");
  expect_refused("{\"metadata\":[],\"weight_map\":{}}", "metadata: unexpected an array");
  expect_refused("{\"metadata\":1,\"weight_map\":{}}", "metadata: unexpected 1");
  expect_refused("{\"weight_map\":{},\"weight_map\":{}}", "weight_map comes twice");
  expect_refused("{\"metadata\":{},\"metadata\":{},\"weight_map\":{}}", "metadata comes twice");
  expect_refused("{\"weight_map\":{\"a\":\"1.safetensors\",\"a\":\"2.safetensors\"}}", "tensor \"a\" comes twice");
  expect_refused("{\"weight_map\":{},\"x\":" + std::string(100000, '[') + "}", "deeper than 32 levels");
}

TEST(Index, TakesOnlyPlainFileNames) {
  for (const char* name : {"../a.safetensors", "/a.safetensors", "d/a.safetensors", ".a.safetensors", "",
                           ".safetensors", "a.bin", "a\\u0000.safetensors", "a\\n.safetensors"})
    expect_refused(std::string("{\"weight_map\":{\"t\":\"") + name + "\"}}",
                   "expected a plain *.safetensors file name");
  EXPECT_TRUE(check_file_name("model-00001-of-00002.safetensors").ok());
  EXPECT_TRUE(check_file_name("mod\xc3\xa8le 1.safetensors").ok());
  EXPECT_FALSE(check_file_name("\xff.safetensors").ok());
  EXPECT_FALSE(check_file_name(std::string(250, 'a') + ".safetensors").ok());
}

TEST(Index, EveryTruncationAndChangeIsRefusedOrRead) {
  const std::string text = "{\"metadata\":{\"total_size\":4,\"l\":[1,{}]},\"weight_map\":{\"a\":\"1.safetensors\"}}";
  for (size_t size = 0; size < text.size(); size++) EXPECT_FALSE(parse_index(text.substr(0, size)).ok()) << size;
  for (size_t at = 0; at < text.size(); at++)
    for (int value = 0; value < 256; value++) {
      std::string changed = text;
      changed[at] = static_cast<char>(value);
      const auto index = parse_index(changed);
      EXPECT_TRUE(index.ok() || index.status().code() == CKPT_FORMAT);
    }
}

TEST(Index, IsLaidOutLikePythons) {
  // json.dumps(index, indent=2, sort_keys=True) + "\n"
  EXPECT_EQ(
      make_index("{\"l\":[1,[]],\"o\":{},\"t\":\"{\\\"[,\"}", {{"b", "1.safetensors"}, {"\xc3\xa9", "2.safetensors"}}),
      "{\n  \"metadata\": {\n    \"l\": [\n      1,\n      []\n    ],\n    \"o\": {},\n    \"t\": \"{\\\"[,\"\n  },\n"
      "  \"weight_map\": {\n    \"b\": \"1.safetensors\",\n    \"\\u00e9\": \"2.safetensors\"\n  }\n}\n");
  EXPECT_EQ(make_index("{}", {}), "{\n  \"metadata\": {},\n  \"weight_map\": {}\n}\n");
}

TEST(Index, WrittenTextReadsBack) {
  const StringMap map = {{"a\"\n", "1.safetensors"}, {"\xf0\x9f\x98\x80", "2.safetensors"}};
  const auto index = parse_index(make_index("{\"total_size\":1}", map));
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(index->weight_map, map);
  EXPECT_EQ(index->metadata, "{\"total_size\":1}");
}

class FileSets : public TemporaryDirectory {};

TEST_F(FileSets, ADirectoryWithoutIndexIsAllItsSafetensors) {
  for (const char* name : {"b.safetensors", "a.safetensors", ".hidden.safetensors", "c.bin"})
    write_file(path(name), "");
  const auto set = find_files(directory_);
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->names, (std::vector<std::string>{"a.safetensors", "b.safetensors"}));
  EXPECT_FALSE(set->has_index);
}

TEST_F(FileSets, AnIndexDecidesWhichFilesAreRead) {
  write_file(path("other.safetensors"), "");
  write_file(path(kIndexFile),
             "{\"weight_map\":{\"x\":\"b.safetensors\",\"y\":\"a.safetensors\",\"z\":\"b.safetensors\"}}");
  for (const std::string& given : {directory_, path(kIndexFile)}) {
    const auto set = find_files(given);
    ASSERT_TRUE(set.ok());
    EXPECT_EQ(set->names, (std::vector<std::string>{"a.safetensors", "b.safetensors"}));
    EXPECT_EQ(std::filesystem::path(set->paths[0]).parent_path(), directory_);
    EXPECT_TRUE(set->has_index);
  }
}

// As transformers chooses (5.24, _get_resolved_checkpoint_files): the file, then the index, without variants.
TEST_F(FileSets, OfAHuggingFaceDirectoryThoseFilesAreTakenThatTransformersLoads) {
  using Names = std::vector<std::string>;
  const std::string one = "model-00001-of-00002.safetensors", two = "model-00002-of-00002.safetensors";
  const std::string file = kDefaultFile, index = kIndexFile, extra = "extra.safetensors";
  const std::string mapped = "{\"weight_map\":{\"x\":\"" + one + "\",\"y\":\"" + two + "\"}}";
  struct Case {
    Names there, taken;
    std::string index;
  };
  const Case cases[] = {
      {{file, "model.fp16.safetensors", "model.bf16-00001-of-00003.safetensors"}, {file}, ""},
      {{file, one, two}, {file}, ""},
      {{file, two}, {file}, ""},
      {{file, one, two}, {file}, mapped},
      {{file, one, two}, {file}, "{"},
      {{one, two}, {one, two}, mapped},
      {{file, extra, one}, {extra, file}, "{\"weight_map\":{\"x\":\"" + file + "\",\"y\":\"" + extra + "\"}}"},
      {{one, two, "model.fp16-00001-of-00002.safetensors", "model-00001-of-00002.fp16.safetensors",
        "consolidated.safetensors", "consolidated-00001-of-00009.safetensors"},
       {one, two},
       ""},
      {{file, "consolidated.safetensors"}, {file}, ""},
      {{"consolidated.safetensors"}, {"consolidated.safetensors"}, ""},
      {{"model.fp16.safetensors"}, {"model.fp16.safetensors"}, ""},
      {{"diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.fp16.safetensors"},
       {"diffusion_pytorch_model.safetensors"},
       ""},
      // What transformers does not know is of the same state.
      {{file, extra, "model_1.safetensors", "models.safetensors"},
       {extra, file, "model_1.safetensors", "models.safetensors"},
       ""},
      {{"layer.safetensors", "layer.0.safetensors"}, {"layer.0.safetensors", "layer.safetensors"}, ""}};
  for (size_t i = 0; i < std::size(cases); i++) {
    const std::string folder = path(std::to_string(i));
    std::filesystem::create_directory(folder);
    for (const std::string& name : cases[i].there) write_file(folder + "/" + name, "");
    if (!cases[i].index.empty()) write_file(folder + "/" + index, cases[i].index);
    Names taken = cases[i].taken;
    std::sort(taken.begin(), taken.end());
    const auto set = find_files(folder);
    ASSERT_TRUE(set.ok()) << i << set.status().message();
    EXPECT_EQ(set->names, taken) << i;
  }
}

// transformers writes one only for several files; of none it is what a killed program left.
TEST_F(FileSets, AnIndexThatNamesNoFileIsIncomplete) {
  write_file(path(kIndexFile), "{\"metadata\":{\"total_size\":0},\"weight_map\":{}}");
  for (const std::string& given : {directory_, path(kIndexFile)}) {
    const auto set = find_files(given);
    EXPECT_EQ(set.status().code(), CKPT_INCOMPLETE);
    EXPECT_NE(set.status().message().find(kIndexFile), std::string::npos) << set.status().message();
  }
  write_file(path(kDefaultFile), "");
  EXPECT_EQ(find_files(directory_)->names, std::vector<std::string>{kDefaultFile});
}

TEST_F(FileSets, AFileOfAnyNameIsTakenUnderASafeOne) {
  write_file(path("0a1b2c"), "");
  EXPECT_EQ(find_files(path("0a1b2c"))->names, std::vector<std::string>{"model.safetensors"});
  EXPECT_EQ(find_files(path("none")).status().code(), CKPT_NOT_FOUND);
  std::filesystem::create_directory(path("empty"));
  EXPECT_EQ(find_files(path("empty")).status().code(), CKPT_NOT_FOUND);
  EXPECT_EQ(find_files("").status().code(), CKPT_INVALID);
}

class Files : public TemporaryDirectory {
 protected:
  static void fill(Result<OutputFile> file, const std::string& text) {
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE(file->write(as_bytes(text)).ok());
    ASSERT_TRUE(file->sync().ok());
  }
  // What a process leaves that is killed while it exports to "d".
  void kill_an_export() const {
    const pid_t child = ::fork();
    if (child == 0) {
      auto output = Output::begin_directory(path("d"));
      fill(output->file("x"), "half");
      fill(output->file("inner/x"), "half");
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  std::string left_directory() const {
    for (const auto& entry : std::filesystem::directory_iterator(directory_))
      if (entry.path().string().ends_with(".d")) return entry.path();
    return {};
  }
};

TEST_F(Files, OnlyRegularFilesAreMapped) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(path("fifo")).status().code(), CKPT_FORMAT);
  EXPECT_EQ(MappedFile::open(directory_).status().code(), CKPT_FORMAT);
  EXPECT_EQ(MappedFile::open(path("none")).status().code(), CKPT_NOT_FOUND);
  write_file(path("empty"), "");
  EXPECT_TRUE(MappedFile::open(path("empty"))->bytes().empty());
}

TEST_F(Files, AFileAppearsOnPublishAndNotBefore) {
  auto output = Output::begin_file(path("f"));
  ASSERT_TRUE(output.ok());
  fill(output->file(), "abc");
  EXPECT_EQ(entry_count(), 0u);
  EXPECT_FALSE(std::filesystem::exists(path("f")));
  ASSERT_TRUE(output->publish().ok());
  EXPECT_EQ(read_file(path("f")), "abc");
  EXPECT_EQ(entry_count(), 1u);
}

TEST_F(Files, WhatIsThereIsNeverReplaced) {
  write_file(path("f"), "old");
  EXPECT_EQ(Output::begin_file(path("f")).status().code(), CKPT_EXISTS);
  EXPECT_EQ(Output::begin_directory(path("f")).status().code(), CKPT_EXISTS);
  EXPECT_EQ(Output::begin_directory(directory_).status().code(), CKPT_EXISTS);
  std::filesystem::create_symlink("nowhere", path("link"));
  EXPECT_EQ(Output::begin_file(path("link")).status().code(), CKPT_EXISTS);
}

TEST_F(Files, AFasterWriterKeepsItsPlace) {
  {
    auto file = Output::begin_file(path("f"));
    auto directory = Output::begin_directory(path("d"));
    fill(file->file(), "mine");
    fill(directory->file("x"), "mine");
    write_file(path("f"), "theirs");
    std::filesystem::create_directory(path("d"));
    write_file(path("d/x"), "theirs");
    EXPECT_EQ(file->publish().code(), CKPT_EXISTS);
    EXPECT_EQ(directory->publish().code(), CKPT_EXISTS);
  }
  EXPECT_EQ(read_file(path("f")), "theirs");
  EXPECT_EQ(read_file(path("d/x")), "theirs");
  EXPECT_EQ(entry_count(), 2u);
}

TEST_F(Files, ADirectoryTakesThePlaceOfAnEmptyOne) {
  std::filesystem::create_directory(path("d"));
  auto output = Output::begin_directory(path("d") + "//");
  ASSERT_TRUE(output.ok());
  fill(output->file("x"), "abc");
  ASSERT_TRUE(output->publish().ok());
  EXPECT_EQ(read_file(path("d/x")), "abc");
  std::filesystem::create_directory(path("e"));  // with the rights of any other
  EXPECT_EQ(std::filesystem::status(path("d")).permissions(), std::filesystem::status(path("e")).permissions());
}

TEST_F(Files, NothingIsLeftOfAnOutputThatWasGivenUp) {
  {
    auto file = Output::begin_file(path("f"));
    fill(file->file(), "abc");
    auto directory = Output::begin_directory(path("d"));
    fill(directory->file("inner/x"), "abc");
    EXPECT_EQ(entry_count(), 2u);
  }
  EXPECT_EQ(entry_count(), 0u);
}

TEST_F(Files, WhatAKilledExportLeftGoesWithTheNextOneToTheSameTarget) {
  kill_an_export();
  EXPECT_EQ(entry_count(), 2u);
  write_file(path(".f.tmp.0123456789abcdef"), "half");  // where the file system has no files without a name
  write_file(path(".g.tmp.0123456789abcdef"), "another target's");
  write_file(path(".f.tmp.mine"), "not an export's");
  (void)Output::begin_file(path("f"));
  (void)Output::begin_directory(path("d"));
  EXPECT_TRUE(std::filesystem::exists(path(".g.tmp.0123456789abcdef")));
  EXPECT_TRUE(std::filesystem::exists(path(".f.tmp.mine")));
  EXPECT_EQ(entry_count(), 2u);
}

TEST_F(Files, WhatAnExportIsAtWorkOnStays) {
  {
    auto directory = Output::begin_directory(path("d"));
    fill(directory->file("x"), "abc");
    (void)Output::begin_directory(path("d"));
    EXPECT_EQ(entry_count(), 2u);
    EXPECT_TRUE(directory->publish().ok());
  }
  EXPECT_EQ(read_file(path("d/x")), "abc");
  EXPECT_EQ(entry_count(), 1u);
}

// Who may write beside the target can put anything under a name that an export could have left.
TEST_F(Files, NothingGoesThatAnExportHasNotMade) {
  const std::string name = path(".d.tmp.0123456789abcdef");
  std::filesystem::create_directories(path("thesis/deep"));
  write_file(path("thesis/a"), "precious");
  write_file(path("thesis/deep/b"), "precious");
  kill_an_export();
  const std::string left = left_directory();
  std::filesystem::create_symlink(path("thesis"), left + "/link");
  std::filesystem::create_symlink(path("thesis"), left + "/inner/link");
  (void)Output::begin_directory(path("d"));  // takes the links, and not what they lead to
  EXPECT_EQ(entry_count(), 1u);
  std::filesystem::create_symlink(path("thesis"), name + ".d");
  std::filesystem::create_symlink(path("thesis/a"), name);
  (void)Output::begin_directory(path("d"));
  std::filesystem::remove(name);
  std::filesystem::remove(name + ".d");
  // A mark of another directory, or none.
  std::filesystem::rename(path("thesis"), name + ".d");
  (void)Output::begin_directory(path("d"));
  kill_an_export();
  (void)Output::begin_directory(path("d"));
  write_file(name, "ckpt export 1:1\n");
  (void)Output::begin_directory(path("d"));
  EXPECT_EQ(read_file(name + ".d/a"), "precious");
  EXPECT_EQ(read_file(name + ".d/deep/b"), "precious");
}

TEST_F(Files, ErrorsNameThePath) {
  const Status status = Output::begin_directory(path("no/such")).status();
  EXPECT_EQ(status.code(), CKPT_NOT_FOUND);
  EXPECT_NE(status.detail("path"), nullptr);
}

}  // namespace
}  // namespace ckpt::interop
