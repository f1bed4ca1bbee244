// Which run an import goes to that names none: "main", unless a trainer uses it.
#include "calls_fixture.h"
#include "ckpt_file.h"

#include <filesystem>

#include "safetensors_fixture.h"

namespace ckpt::interop {
namespace {

class ImportRunTest : public TemporaryDirectory {
 protected:
  void SetUp() override {
    TemporaryDirectory::SetUp();
    write_file(path("w.safetensors"),
               file_of(padded("{" + entry("w", "F32", "[2]", 0, 8) + "}"), std::string("abcdefgh")));
    must([&](auto** err) { return ckpt_store_open(&store_, path("store").c_str(), nullptr, err); });
  }
  void TearDown() override {
    ckpt_store_free(store_);
    TemporaryDirectory::TearDown();
  }
  std::string run_of_import(const std::string& label) {
    ckpt_checkpoint_info info{};
    info.struct_size = sizeof info;
    must([&](auto** err) {
      return ckpt_import(store_, path("w.safetensors").c_str(), label.c_str(), -1, nullptr, &info, err);
    });
    return info.run;
  }
  ckpt_session* trainer() {
    ckpt_session* session = nullptr;
    must([&](auto** err) { return ckpt_session_open(&session, store_, 0, 1, nullptr, nullptr, err); });
    return session;
  }
  static Failure save(ckpt_session* session, const char* label) {
    ckpt_save* save = nullptr;
    must([&](auto** err) { return ckpt_save_new(&save, session, label, 1, nullptr, err); });
    Failure failure = attempt([&](auto** err) { return ckpt_save_run(save, err); });
    ckpt_save_free(save);
    return failure;
  }

  ckpt_store* store_ = nullptr;
};
using ImportRun = ImportRunTest;

TEST_F(ImportRun, IsTheOneThatALoadWithoutOptionsLooksInto) {
  EXPECT_EQ(run_of_import("a"), "main");
  EXPECT_EQ(run_of_import("b"), "main") << "after another import too";
  ckpt_checkpoint_info info{};
  info.struct_size = sizeof info;
  must([&](auto** err) { return ckpt_store_find(store_, "latest", nullptr, &info, err); });
  EXPECT_STREQ(info.label, "b");
}

TEST_F(ImportRun, IsMainAfterAnImportThatFailedToo) {
  EXPECT_EQ(run_of_import("a"), "main");
  const Failure again = attempt(
      [&](auto** err) { return ckpt_import(store_, path("w.safetensors").c_str(), "a", -1, nullptr, nullptr, err); });
  EXPECT_EQ(again.code, CKPT_EXISTS);
  EXPECT_EQ(run_of_import("b"), "main");
}

TEST_F(ImportRun, IsNotThatOfATrainerWhoseRecordsAreGone) {
  ckpt_session* session = trainer();
  EXPECT_EQ(save(session, "step-1").code, CKPT_OK);
  ckpt_session_free(session);
  std::filesystem::remove_all(path("store/.ckpt"));
  EXPECT_EQ(run_of_import("a"), "import");
}

TEST_F(ImportRun, NeverFencesATrainer) {
  EXPECT_EQ(run_of_import("a"), "main");
  ckpt_session* session = trainer();
  EXPECT_EQ(run_of_import("b"), "import") << "the trainer has saved nothing yet";
  EXPECT_EQ(save(session, "step-1").code, CKPT_OK);
  EXPECT_EQ(run_of_import("c"), "import");
  EXPECT_EQ(save(session, "step-2").code, CKPT_OK);
  ckpt_session_free(session);
  EXPECT_EQ(run_of_import("d"), "import") << "nobody can tell that it has ended";
}

}  // namespace
}  // namespace ckpt::interop
