// What ckpt.hpp shows of the library, of aliases and of files: the library's lists, views, trees that a file owns.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "ckpt.hpp"

namespace {

TEST(CppReading, TheLibrarySaysItsVersionDtypesAndStatuses) {
  EXPECT_GE(ckpt::version_number(), CKPT_VERSION_MINOR * 1000);
  EXPECT_EQ(ckpt::dtype_name(CKPT_DTYPE_BF16), "bf16");
  EXPECT_EQ(ckpt::dtype_bits(CKPT_DTYPE_F6_E2M3FN), 6);
  EXPECT_EQ(ckpt::dtype_find("bf16"), CKPT_DTYPE_BF16);
  EXPECT_EQ(ckpt::dtype_find("bf17"), std::nullopt);
  EXPECT_EQ(ckpt::status_name(CKPT_CORRUPT), "CORRUPT");
  EXPECT_EQ(ckpt::status_name(999), "UNKNOWN");
}

TEST(CppReading, TheLibraryListsItsOptions) {
  const auto options = ckpt::option_list();
  const auto found = std::find_if(options.begin(), options.end(),
                                  [](const auto& option) { return std::string(option.key) == "compression"; });
  ASSERT_NE(found, options.end());
  EXPECT_EQ(found->kind, CKPT_OPTION_STR);
  EXPECT_STREQ(found->fallback, "none");
}

TEST(CppReading, AnAliasTellsTheViewThatItIsAndCanBeSavedAgain) {
  auto store = ckpt::Store::open("mem:cpp-alias");
  auto session = ckpt::Session::open(store);
  const std::vector<float> w(12, 1.0f);
  auto save = ckpt::Save::create(session, "a");
  save.add_tensor("w", ckpt::Tensor::of<float>({3, 4}), w);
  save.add_alias("column", "w", ckpt::Tensor::of<float>({3}).strides({4}).view_offset(1));
  save.run();
  const ckpt::Tensor view = ckpt::Reader::open(store).alias("column");
  EXPECT_EQ(view.desc().ndim, 1);
  EXPECT_EQ(view.desc().shape[0], 3);
  EXPECT_EQ(view.desc().strides[0], 4);
  EXPECT_EQ(view.desc().flat_offset, 1);
  auto again = ckpt::Save::create(session, "b");
  again.add_tensor("w", ckpt::Tensor::of<float>({3, 4}), w);
  again.add_alias("column", "w", view);
  again.run();
  EXPECT_THROW((void)ckpt::Reader::open(store).alias("w"), ckpt::Error);
}

TEST(CppReading, TheTreeOfAFileIsReadLikeAnyOther) {
  auto store = ckpt::Store::open("mem:cpp-file-tree");
  auto session = ckpt::Session::open(store);
  const std::vector<float> w(4, 1.0f);
  auto save = ckpt::Save::create(session, "a");
  save.add_tensor("w", ckpt::Tensor::of<float>({4}), w);
  save.add_tree(ckpt::Tree::parse(R"({"w":{"$":"tensor","name":"w"},"epoch":3})"));
  save.run();
  const auto name = "ckpt-cpp-file-tree" + std::to_string(getpid()) + ".pt";
  const std::string path = (std::filesystem::temp_directory_path() / name).string();
  ckpt::Reader::open(store).export_to(path);
  {
    const auto file = ckpt::File::open(path);
    const ckpt::TreeView tree = file.tree();
    EXPECT_EQ(tree.size(), 3u);
    EXPECT_EQ(tree.at(tree.find(0, "epoch")).int_value, 3);
    EXPECT_NE(tree.json().find("\"epoch\":3"), std::string_view::npos);
  }
  const ckpt::Tree own = ckpt::Tree::parse("[1,2]");
  const ckpt::TreeView view = own.view();
  EXPECT_EQ(view.at(view.find(0, int64_t{1})).int_value, 2);
  std::filesystem::remove(path);
}

}  // namespace
