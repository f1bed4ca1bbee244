// What small files of an enemy may cost: bytes that unpack to many more, long names around many values, elements that
// repeat.
#include <ctime>
#include <filesystem>

#include "pt_fixture.h"
#include "sets_fixture.h"

namespace ckpt::interop {
namespace {

using namespace pickled;

class Bounds : public Sets {
 protected:
  // Of looking at it, as `ckpt info` does.
  Failure look(const std::string& file) {
    ckpt_options* options = nullptr;
    ckpt_file* opened = nullptr;
    must([&](auto** err) { return ckpt_options_new(&options, err); });
    must([&](auto** err) { return ckpt_options_set_int(options, "tensor_data", 0, err); });
    Failure failure = attempt([&](auto** err) { return ckpt_file_open(&opened, path(file).c_str(), options, err); });
    ckpt_file_free(opened);
    ckpt_options_free(options);
    return failure;
  }
};

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

// bzip2 -9 of the first KiB of a zip archive, and of 46 MB of zeros.
const std::string kBegin = from_hex(
    "425a6839314159265359d4d8cddb00000c4680cc0000084000004001082000310c0823d4d1a68ae1c806fa695e2ee48a70a121a9b19bb6");
const std::string kZeros = from_hex(
    "425a68393141592653590e09e2df015f8e4000c0000008200030804d4642a025a90a8097314159265359b9d087d00000c5d000c0000400"
    "0008200020a534198d485b050bc5dc914e14242970d09b80");

TEST_F(Bounds, TwoKilobytesOfBzip2ThatUnpackToAGigabyteAreRefused) {
  std::string bomb = kBegin;
  for (int i = 0; i < 23; i++) bomb += kZeros;
  ASSERT_LT(bomb.size(), 2048u);
  write_file(path("bomb.pt.bz2"), bomb);
  for (const Failure& failure : {look("bomb.pt.bz2"), import_from(path("bomb.pt.bz2"), "l")}) {
    EXPECT_EQ(failure.code, CKPT_UNSUPPORTED) << failure.message;
    EXPECT_NE(failure.message.find("unpack to more than 67108864"), std::string::npos) << failure.message;
  }
}

TEST_F(Bounds, AKeyOfAMegabyteAroundManyValuesCostsItsBytesOnce) {
  std::string values = call(global("torch", "device"), {text("cpu")}) + "q\x01";
  for (int i = 1; i < 20000; i++) values += "h\x01";
  const std::string file = pt_of(dict({text(std::string(1 << 20, 'k')), list({values})}));
  std::filesystem::create_directory(path("ranks"));
  for (const char* name : {"ranks/rank0.pt", "ranks/rank1.pt", "one.pt"}) write_file(path(name), file);
  const std::clock_t before = std::clock();
  EXPECT_EQ(look("ranks").code, CKPT_OK);
  EXPECT_EQ(look("one.pt").code, CKPT_OK);
  EXPECT_LT((std::clock() - before) / CLOCKS_PER_SEC, 10);  // by the product it would be minutes
}

TEST_F(Bounds, AnErrorAboutALongNameIsOneShortPlainLine) {
  const std::string name = "\x1b[31m" + std::string(1 << 20, 'k') + "\n\u202e";
  const std::string w = tensor(storage("0", "FloatStorage", 4), 0, {4}, {1});
  write_file(path("x.pt"), pt_of(dict({text(name), w}), {{"0", "0123456789abcdef"}}));
  write_file(path("y.pt"), pt_of(dict({text(name), call(global("os", "system"), {text(name)})})));
  write_file(
      path("z.safetensors"),
      file_of(padded("{" + entry("\\u001b[31m" + std::string(1 << 20, 'k') + "\\u202e", "F32", "[2]", 0, 4) + "}"),
              "abcd"));
  for (const char* file : {"x.pt", "y.pt", "z.safetensors"}) {
    const Failure failure = import_from(path(file), "l");
    EXPECT_NE(failure.code, CKPT_OK) << file;
    EXPECT_LE(failure.message.size(), 1024u) << file;
    EXPECT_EQ(failure.message.find_first_of("\x1b\n"), std::string::npos) << file;
    EXPECT_EQ(failure.message.find("\u202e"), std::string::npos) << file;
  }
}

TEST_F(Bounds, ElementsRepeatedATrillionTimesAreWrittenByNoFormatThatWritesEach) {
  write_file(path("x.pt"), pt_of(dict({text("w"), tensor(storage("0", "FloatStorage", 1), 0, {int64_t{1} << 40}, {0})}),
                                 {{"0", "abcd"}}));
  const std::string label = imported("x.pt");
  for (const char* format : {"safetensors", "dcp"}) {
    const Failure failure = export_to(path("out"), label, {{"format", format}}, "import");
    EXPECT_EQ(failure.code, CKPT_UNSUPPORTED) << format << failure.message;
    EXPECT_EQ(detail(failure, "tensor"), "w") << format;
    EXPECT_FALSE(std::filesystem::exists(path("out"))) << format;
  }
  const Failure cast = import_from(path("x.pt"), "cast", {}, {{"cast", "bf16"}});
  EXPECT_EQ(cast.code, CKPT_UNSUPPORTED);
  EXPECT_NE(cast.message.find("it repeats elements"), std::string::npos) << cast.message;
  EXPECT_EQ(detail(cast, "tensor"), "w");
  ASSERT_EQ(export_to(path("y.pt"), label, {}, "import").code, CKPT_OK);
  EXPECT_LT(std::filesystem::file_size(path("y.pt")), 4096u);
}

}  // namespace
}  // namespace ckpt::interop
