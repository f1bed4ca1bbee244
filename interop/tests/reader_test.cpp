// What the next formats will stand on: a checkpoint of boxes and flat ranges in several files, by several ranks, is
// imported from its files piece by piece; a path is told by its content, and one that is not, with what is accepted.
#include "interop/src/reader.h"

#include <filesystem>

#include "interop/src/formats.h"
#include "interop/src/import.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

class ForeignReader : public StoreTest {
 protected:
  ForeignTensor& tensor(const char* name, uint16_t dtype, std::vector<uint64_t> shape) {
    ForeignTensor& made = from_.tensors.emplace_back();
    made.name = name;
    made.dtype = dtype;
    made.shape = Shape::of(shape);
    return made;
  }
  static Region box(std::vector<uint64_t> offset, std::vector<uint64_t> extent) {
    return {RegionKind::kBox, {Shape::of(offset), Shape::of(extent)}, 0, 0};
  }
  static Region flat(uint64_t offset, uint64_t size) { return {RegionKind::kFlat, {}, offset, size}; }

  Status import() {
    const Borrowed<client::Store> store(store_);
    const ImportRequest request{"l", 3, {.run = "import", .is_set = {.run = true}}};
    Job job;
    return import_checkpoint(*store, from_, request, job).status();
  }
  std::string load(const client::Reader& reader, const char* name) {
    const auto info = result(reader.tensor(name));
    EXPECT_TRUE(info.ok()) << info.status().message();
    std::string bytes(info->bytes, '\0');
    auto load = result(client::Load::create(reader));
    const auto desc = interop::describe(static_cast<uint16_t>(info->dtype), shape_of(*info));
    EXPECT_TRUE(
        done(load->add_tensor(name, client::Tensor(desc), client::MutableMemory(bytes.data(), bytes.size()))).ok());
    const Status status = done(load->run());
    EXPECT_TRUE(status.ok()) << status.message();
    return bytes;
  }

  ForeignCheckpoint from_;
};

TEST_F(ForeignReader, BoxesAndRangesOfSeveralFilesBecomeOneCheckpoint) {
  write_file(path("0"), "..ABCDab");
  write_file(path("1"), "EFGH.cd?1-2-3");
  const size_t first = from_.files.add(path("0")), second = from_.files.add(path("1"));
  from_.ranks = 2;
  tensor("box", CKPT_DTYPE_U8, {2, 4}).pieces = {{box({0, 0}, {2, 2}), {first, 2, 4}, std::nullopt, 0},
                                                 {box({0, 2}, {2, 2}), {second, 0, 4}, Strides{1, 2}, 1}};
  tensor("flat", CKPT_DTYPE_U8, {4}).pieces = {{flat(0, 2), {first, 6, 2}, std::nullopt, 0},
                                               {flat(2, 2), {second, 5, 2}, std::nullopt, 1}};
  ForeignTensor& gaps = tensor("gaps", CKPT_DTYPE_U8, {3});
  gaps.pieces = {{{}, {second, 8, 5}, Strides{2}, 1}};
  gaps.attributes = {{"k", "v"}};
  ForeignTensor& part = tensor("part", CKPT_DTYPE_U8, {2});
  part.pieces = {{{}, {second, 10, 3}, Strides{2}, 1}};
  part.target = 2;
  part.target_offset = 1;
  part.target_strides = {1};
  from_.objects = {{"shared", "text/plain", std::nullopt, {first, 0, 2}},
                   {"own", "text/plain", 0, {first, 2, 1}},
                   {"own", "text/plain", 1, {second, 0, 2}}};
  const Status status = import();
  ASSERT_TRUE(status.ok()) << status.message();

  const client::Reader reader(open("l", "import"));
  EXPECT_EQ(load(reader, "box"), "ABEGCDFH");
  EXPECT_EQ(load(reader, "flat"), "abcd");
  EXPECT_EQ(load(reader, "gaps"), "123");
  EXPECT_EQ(load(reader, "part"), "23");
  EXPECT_STREQ(result(reader.tensor("part"))->alias_of, "gaps");
  EXPECT_EQ(reader.tensor_attr("gaps", "k"), "v");
  EXPECT_EQ(result(reader.info())->part_count, 2u);
  EXPECT_EQ(result(reader.object("own", 0))->size, 1u);
  EXPECT_EQ(result(reader.object("own", 1))->size, 2u);
  EXPECT_EQ(result(reader.object("shared"))->scope, CKPT_OBJECT_SHARED);
}

TEST_F(ForeignReader, AFileIsOpenedWhenItsBytesAreAskedFor) {
  const size_t file = from_.files.add(path("gone"));
  EXPECT_EQ(from_.files.bytes({file, 0, 1}).status().code(), CKPT_NOT_FOUND);
  write_file(path("gone"), "abc");
  EXPECT_EQ(as_text(*from_.files.bytes({file, 1, 2})), "bc");
  EXPECT_EQ(as_text(from_.files.mapped({file, 0, 1})), "a");
  EXPECT_EQ(from_.files.bytes({file, 1, 3}).status().code(), CKPT_FORMAT);
  EXPECT_EQ(from_.files.bytes({file, 4, UINT64_MAX}).status().code(), CKPT_FORMAT);
  const std::string memory = "decoded";
  const FileRange range = from_.files.range_of(as_bytes(memory).subspan(2, 3));
  EXPECT_EQ(as_text(from_.files.mapped(range)), "cod");
  EXPECT_EQ(from_.files.range_of(from_.files.mapped({file, 1, 2})), (FileRange{file, 1, 2}));
}

TEST_F(ForeignReader, PiecesThatDoNotCoverATensorAreRefused) {
  write_file(path("0"), "abcd");
  const size_t file = from_.files.add(path("0"));
  tensor("w", CKPT_DTYPE_U8, {2, 4}).pieces = {{box({0, 0}, {1, 4}), {file, 0, 4}, std::nullopt, 0}};
  EXPECT_EQ(import().code(), CKPT_MISMATCH);
}

TEST_F(ForeignReader, AnUnknownPathIsToldWhatIsAccepted) {
  write_file(path("notes.txt"), "some text, and more of it");
  std::filesystem::create_directory(path("empty"));
  for (const auto& [name, code] : {std::pair("notes.txt", CKPT_FORMAT), std::pair("empty", CKPT_NOT_FOUND)}) {
    const Status status = read_foreign(path(name), {}).status();
    EXPECT_EQ(status.code(), code);
    for (const char* text : {name, "PART_*.pt", "PyTorch", "safetensors"})
      EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  }
  EXPECT_EQ(read_foreign(path("none"), {}).status().code(), CKPT_NOT_FOUND);
  EXPECT_EQ(read_foreign("", {}).status().code(), CKPT_INVALID);
}

TEST_F(ForeignReader, AnUnknownFileIsToldWhatItLooksLike) {
  const std::string tar = "notes.txt" + std::string(248, '\0') + "ustar" + std::string(300, '\0');
  const std::pair<std::string, const char*> rows[] = {
      {"\x1f\x8b\x08", "gzip"},
      {"\x28\xb5\x2f\xfd....", "zstd"},
      {std::string("\xfd"
                   "7zXZ\0",
                   6),
       "xz"},
      {"BZh91AY", "bzip2"},
      {"\x89HDF\r\n\x1a\n", "HDF5"},
      {"GGUF\x03", "GGUF"},
      {tar, "a tar archive"},
      {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
      {"<!DOCTYPE html><html>", "an HTML page"},
      {R"({"abc":{"dtype":"F32"}})", "JSON"},
      {"some text, and more of it", "text"},
      {"", "empty"},
      {std::string("\x01\x02\x00\xff", 4), "begins with 01 02 00 ff"},
  };
  for (const char* name : {"a.bin", "a.safetensors", "a.pt", "a.json"})
    for (const auto& [content, word] : rows) {
      if (std::string_view(word).starts_with("begins") && std::string_view(name) == "a.safetensors") continue;
      if (std::string_view(word) == "JSON" && std::string_view(name) == "a.json") continue;
      write_file(path(name), content);
      const Status status = read_foreign(path(name), {}).status();
      EXPECT_EQ(status.code(), CKPT_FORMAT) << word;
      for (const char* text : {name, word, "PyTorch", "safetensors"})
        EXPECT_NE(status.message().find(text), std::string::npos) << name << " " << word << ": " << status.message();
    }
}

TEST_F(ForeignReader, AnUnknownDirectoryIsToldWhatItHolds) {
  const std::pair<std::vector<const char*>, const char*> rows[] = {
      {{}, "it is empty"},
      {{"__0_0.distcp"}, "that save never ended"},
      {{".ckpt"}, "a store of ckpt"},
      {{"MANIFEST", "PART_000"}, "a checkpoint of ckpt"},
      {{"zero_pp_rank_0_mp_rank_00_optim_states.pt"}, "import a file of it"},
      {{"weights-00001-of-00002.bin"}, "import a file of it"},
      {{"a.txt", "b.txt"}, "a.txt"},
  };
  int number = 0;
  for (const auto& [names, word] : rows) {
    const std::string folder = path("d" + std::to_string(number++));
    std::filesystem::create_directory(folder);
    for (const char* name : names) write_file(folder + '/' + name, "x");
    const Status status = read_foreign(folder, {}).status();
    EXPECT_EQ(status.code(), CKPT_NOT_FOUND);
    for (const char* text : {word, "PART_*.pt", "safetensors"})
      EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace ckpt::interop
