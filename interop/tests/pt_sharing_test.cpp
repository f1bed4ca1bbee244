// Tensors that share memory: who is the target, and that every alias finds its elements again.
#include "interop/src/pt/sharing.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace ckpt::interop {
namespace {

constexpr uint64_t kRoom = 1 << 20;

std::vector<std::byte> counted(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; i++) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

NamedPtTensor view(const char* name, Bytes storage, uint16_t dtype, uint64_t offset, std::vector<uint64_t> shape,
                   std::vector<int64_t> strides) {
  NamedPtTensor named{name, {}};
  named.tensor.dtype = dtype;
  named.tensor.shape = Shape::of(shape);
  std::copy(strides.begin(), strides.end(), named.tensor.strides.begin());
  named.tensor.storage_key = "7";
  named.tensor.location = "cpu";
  named.tensor.storage = storage;
  named.tensor.offset = offset;
  EXPECT_TRUE(check_bounds(named.tensor).ok());
  return named;
}

std::vector<ForeignTensor> planned(std::vector<NamedPtTensor> tensors, uint64_t room = kRoom) {
  FileTable files;
  return plan_sharing(std::move(tensors), room, files);
}

std::string summary(const std::vector<ForeignTensor>& tensors) {
  std::string text;
  for (const ForeignTensor& tensor : tensors) {
    text += (text.empty() ? "" : " ") + tensor.name;
    if (tensor.is_alias()) text += ">" + tensors[tensor.target].name + "+" + std::to_string(tensor.target_offset);
  }
  return text;
}

// Elements of a view in row-major order, each as its bytes.
std::vector<std::string> elements_of(const std::byte* data, const Shape& shape, std::span<const int64_t> strides,
                                     size_t width) {
  std::vector<std::string> out;
  std::vector<uint64_t> at(static_cast<size_t>(shape.ndim), 0);
  for (uint64_t left = *element_count(shape); left > 0; left--) {
    size_t offset = 0;
    for (size_t d = 0; d < at.size(); d++) offset += at[d] * static_cast<size_t>(strides[d]);
    out.emplace_back(reinterpret_cast<const char*>(data) + offset * width, width);
    for (size_t d = at.size(); d-- > 0 && ++at[d] == shape.dims[d];) at[d] = 0;
  }
  return out;
}

// What a checkpoint would give for each name: the target's elements in a row, and the alias's view of them.
void expect_same_elements(const std::vector<NamedPtTensor>& given) {
  FileTable files;
  const std::vector<ForeignTensor> planned = plan_sharing(given, kRoom, files);
  const auto elements = [&](const ForeignTensor& tensor, size_t width) {
    const ForeignPiece& piece = tensor.pieces[0];
    return elements_of(files.mapped(piece.bytes).data(), tensor.shape, piece.strides.value_or(row_major(tensor.shape)),
                       width);
  };
  for (const NamedPtTensor& named : given) {
    const PtTensor& tensor = named.tensor;
    const size_t width = static_cast<size_t>(dtype_bits(tensor.dtype)) / 8;
    const auto found = std::find_if(planned.begin(), planned.end(),
                                    [&](const ForeignTensor& other) { return other.name == named.name; });
    ASSERT_NE(found, planned.end()) << named.name;
    const auto wanted = elements_of(tensor.bytes().data(), tensor.shape, tensor.strides, width);
    if (wanted.empty()) continue;
    EXPECT_EQ(elements(*found, width), wanted) << named.name;
    if (!found->is_alias()) continue;
    ASSERT_LT(found->target, static_cast<size_t>(found - planned.begin()));
    std::string row;
    for (const std::string& element : elements(planned[found->target], width)) row += element;
    const auto* first = reinterpret_cast<const std::byte*>(row.data()) + found->target_offset * width;
    EXPECT_EQ(elements_of(first, found->shape, found->target_strides, width), wanted) << named.name;
  }
}

class PtSharing : public testing::Test {
 protected:
  std::vector<std::byte> memory_ = counted(1 << 10);
  Bytes storage_ = memory_;

  NamedPtTensor f32(const char* name, uint64_t offset, std::vector<uint64_t> shape, std::vector<int64_t> strides) {
    return view(name, storage_, CKPT_DTYPE_F32, offset, std::move(shape), std::move(strides));
  }
  std::string plan(const std::vector<NamedPtTensor>& tensors) {
    expect_same_elements(tensors);
    return summary(planned(tensors));
  }
};

TEST_F(PtSharing, TheSameViewTwiceIsAnAlias) {
  EXPECT_EQ(plan({f32("a", 0, {4}, {1}), f32("b", 0, {4}, {1})}), "a b>a+0");
  EXPECT_EQ(plan({f32("a", 0, {2, 2}, {8, 3}), f32("b", 0, {2, 2}, {8, 3})}), "a b>a+0");
  EXPECT_EQ(plan({f32("a", 0, {2, 2}, {1, 2}), f32("b", 0, {2, 2}, {1, 2})}), "a b>a+0");
}

TEST_F(PtSharing, ViewsThatDoNotMeetAreSeparate) {
  EXPECT_EQ(plan({f32("a", 0, {4}, {1}), f32("b", 4, {4}, {1})}), "a b");
}

TEST_F(PtSharing, AViewOfAWholeIsItsAliasWhicheverComesFirst) {
  EXPECT_EQ(plan({f32("w", 8, {3, 4}, {4, 1}), f32("row", 12, {4}, {1}), f32("t", 8, {4, 3}, {1, 4})}),
            "w row>w+4 t>w+0");
  EXPECT_EQ(plan({f32("row", 12, {4}, {1}), f32("w", 8, {3, 4}, {4, 1})}), "w row>w+4");
}

TEST_F(PtSharing, ViewsWithoutAWholeShareTheirStorage) {
  EXPECT_EQ(plan({f32("a", 10, {4}, {1}), f32("b", 12, {4}, {1})}), "~storage/7 a>~storage/7+0 b>~storage/7+2");
  EXPECT_EQ(plan({f32("left", 0, {4, 2}, {4, 1}), f32("right", 2, {4, 2}, {4, 1})}),
            "~storage/7 left>~storage/7+0 right>~storage/7+2");
  EXPECT_EQ(plan({f32("a", 0, {2}, {1}), f32("b", 1, {2}, {1}), f32("c", 8, {2}, {1}), f32("d", 9, {2}, {1})}),
            "~storage/7 a>~storage/7+0 b>~storage/7+1 ~storage/7.1 c>~storage/7.1+0 d>~storage/7.1+1");
}

// No load gives a view of them.
TEST_F(PtSharing, ViewsOfPackedElementsAreTensorsOfTheirOwnAsLongAsThereIsRoom) {
  const auto f4 = [&](const char* name, uint64_t offset, uint64_t count) {
    return view(name, storage_, CKPT_DTYPE_F4_E2M1FN, offset, {count}, {1});
  };
  const std::vector<NamedPtTensor> tensors = {f4("whole", 0, 64), f4("tail", 8, 56), f4("head", 0, 8),
                                              f4("tied", 0, 64), f4("same", 0, 8)};
  EXPECT_EQ(summary(planned(tensors)), "whole tail head tied>whole+0 same>head+0");
  EXPECT_EQ(summary(planned(tensors, 32)), "whole tail head tied>whole+0 same>head+0");
  EXPECT_EQ(summary(planned(tensors, 31)), "whole tail>whole+8 head>whole+0 tied>whole+0 same>whole+0");
}

TEST_F(PtSharing, OtherDtypesOnTheSameBytesAreSeparate) {
  EXPECT_EQ(plan({f32("a", 0, {4}, {1}), view("b", storage_, CKPT_DTYPE_I32, 0, {4}, {1})}), "a b");
}

TEST_F(PtSharing, ElementsThatDoNotLieOnOneGridAreSeparate) {
  EXPECT_EQ(plan({f32("a", 0, {4}, {1}), view("b", storage_.subspan(2, 64), CKPT_DTYPE_F32, 0, {4}, {1})}), "a b");
}

TEST_F(PtSharing, EmptyTensorsShareNothing) {
  EXPECT_EQ(plan({f32("a", 0, {0}, {1}), f32("b", 0, {0}, {1}), f32("c", 0, {2}, {1})}), "a b c");
}

TEST_F(PtSharing, ASmallExpandedTensorIsWrittenOutALargeOneIsAView) {
  EXPECT_EQ(plan({f32("a", 3, {100, 4}, {0, 1})}), "a");
  EXPECT_EQ(plan({f32("a", 3, {100, 200, 4}, {0, 0, 1})}), "~storage/7 a>~storage/7+0");
  const std::vector<ForeignTensor> huge = planned({f32("a", 3, {1ull << 50}, {0})});
  EXPECT_EQ(summary(huge), "~storage/7 a>~storage/7+0");
  EXPECT_EQ(huge[0].bytes(), 4u);
}

// 400 - 4 bytes each beyond what is in the file; what repeats nothing takes none.
TEST_F(PtSharing, ExpandedTensorsAreWrittenOutAsLongAsThereIsRoom) {
  const auto with_room = [&](uint64_t room) {
    return summary(planned({f32("a", 0, {100}, {0}), f32("b", 1, {2}, {1}), f32("c", 3, {100}, {0}),
                            f32("d", 4, {10, 10}, {0, 0}), f32("e", 5, {3, 2}, {4, 2})},
                           room));
  };
  EXPECT_EQ(with_room(3 * 396), "a b c d e");
  EXPECT_EQ(with_room(3 * 396 - 1), "a b c ~storage/7 d>~storage/7+0 e");
  EXPECT_EQ(with_room(395),
            "~storage/7 a>~storage/7+0 b ~storage/7.1 c>~storage/7.1+0 ~storage/7.2 d>~storage/7.2+0 e");
}

TEST_F(PtSharing, AHundredThousandRunsOfOneStorageHaveNamesOfTheirOwn) {
  constexpr size_t kRuns = 100000;
  const std::vector<std::byte> large = counted(3 * kRuns);
  std::vector<NamedPtTensor> tensors;
  for (size_t i = 0; i < 2 * kRuns; i++)
    tensors.push_back(view("t", large, CKPT_DTYPE_U8, i / 2 * 3 + i % 2, {2}, {1}));
  std::set<std::string> names;
  for (const ForeignTensor& tensor : planned(std::move(tensors)))
    if (!tensor.is_alias()) names.insert(tensor.name);
  EXPECT_EQ(names.size(), kRuns);
  EXPECT_TRUE(names.contains("~storage/7"));
  EXPECT_TRUE(names.contains("~storage/7.1"));
  EXPECT_TRUE(names.contains("~storage/7.99999"));
}

// A key that looks like the name that another one gets.
TEST_F(PtSharing, NamesOfHostileKeysDoNotMeetThoseOfPlainOnes) {
  std::vector<NamedPtTensor> tensors = {f32("a", 0, {2}, {1}), f32("b", 1, {2}, {1}), f32("c", 8, {2}, {1}),
                                        f32("d", 9, {2}, {1})};
  for (size_t i = 0; i < tensors.size(); i++) tensors[i].tensor.storage_key = i < 2 ? "x1" : "/";
  EXPECT_EQ(plan(tensors),
            "~storage/x1 a>~storage/x1+0 b>~storage/x1+1 ~storage/x1.1 c>~storage/x1.1+0 "
            "d>~storage/x1.1+1");
}

TEST_F(PtSharing, HostileKeysMakePlainNames) {
  for (const char* key : {"../../etc", "", "a\nb", "x/y"}) {
    std::vector<NamedPtTensor> tensors = {f32("a", 0, {2}, {1}), f32("b", 1, {2}, {1})};
    for (NamedPtTensor& tensor : tensors) tensor.tensor.storage_key = key;
    EXPECT_EQ(plan(tensors), "~storage/x0 a>~storage/x0+0 b>~storage/x0+1") << key;
  }
}

TEST_F(PtSharing, RandomViewsFindTheirElementsAgain) {
  std::mt19937 random(1);
  auto pick = [&](uint64_t below) { return random() % below; };
  for (int round = 0; round < 300; round++) {
    std::vector<NamedPtTensor> tensors;
    std::vector<std::string> names(1 + pick(6));
    for (size_t i = 0; i < names.size(); i++) {
      names[i] = "t" + std::to_string(i);
      std::vector<uint64_t> shape;
      std::vector<int64_t> strides;
      for (uint64_t d = pick(4); d > 0; d--) {
        shape.push_back(pick(5));
        strides.push_back(static_cast<int64_t>(pick(6)));
      }
      const uint16_t dtype = pick(4) ? CKPT_DTYPE_I16 : CKPT_DTYPE_F32;
      tensors.push_back(view(names[i].c_str(), storage_, dtype, pick(40), shape, strides));
    }
    expect_same_elements(tensors);
  }
}

}  // namespace
}  // namespace ckpt::interop
