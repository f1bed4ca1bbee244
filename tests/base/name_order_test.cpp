#include "base/name_order.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace ckpt {
namespace {

using Lists = std::vector<std::vector<std::string>>;

std::vector<NameRef> refs_of(const Lists& lists) {
  std::vector<NameRef> refs;
  for (uint32_t list = 0; list < lists.size(); list++)
    for (uint32_t at = 0; at < lists[list].size(); at++) refs.push_back({0, list, at});
  return refs;
}

void expect_sorted_as_strings(const Lists& lists) {
  std::vector<NameRef> sorted = refs_of(lists);
  std::vector<std::tuple<std::string, uint32_t, uint32_t>> expected;
  for (const NameRef& ref : sorted) expected.emplace_back(lists[ref.list][ref.at], ref.list, ref.at);
  std::sort(expected.begin(), expected.end());
  sort_by_name(std::span(sorted), [&](const NameRef& ref) { return std::string_view(lists[ref.list][ref.at]); });
  ASSERT_EQ(sorted.size(), expected.size());
  for (size_t i = 0; i < sorted.size(); i++)
    ASSERT_EQ(std::tuple(lists[sorted[i].list][sorted[i].at], sorted[i].list, sorted[i].at), expected[i]) << i;
}

TEST(NameOrder, IsThatOfBytesThenOfListAndPlace) {
  std::mt19937 random(3);
  const std::string pieces[] = {"model.", "layers.", "a", "b", "\xc3\xa9", "00000000", "1", ""};
  for (int round = 0; round < 500; round++) {
    Lists lists(1 + random() % 4);
    for (auto& list : lists)
      for (size_t i = random() % 30; i > 0; i--) {
        std::string& name = list.emplace_back();
        for (size_t n = random() % 6; n > 0; n--) name += pieces[random() % std::size(pieces)];
      }
    expect_sorted_as_strings(lists);
  }
}

TEST(NameOrder, NamesThatEndInZerosAreNotTakenForOthers) {
  auto zeros = [](size_t count) { return std::string(count, '\0'); };
  expect_sorted_as_strings({{"a" + zeros(9), "a", "a" + zeros(1), "", zeros(8), zeros(20), "a" + zeros(8) + "b"},
                            {zeros(3), "a", "b", "a" + zeros(7), "a" + zeros(6)}});
}

TEST(NameOrder, AThousandListsOfTheSameNamesStayInTheirOrder) {
  Lists lists(1000, {"model.layers.0.weight", "model.layers.1.weight", "model.layers.10.weight"});
  expect_sorted_as_strings(lists);
}

TEST(NameOrder, TheLongestNamesDifferInTheirLastByte) {
  std::string longest(kMaxName, 'x'), other = longest;
  other.back() = 'w';
  expect_sorted_as_strings({{longest, other, longest.substr(1)}, {other, longest}});
}

}  // namespace
}  // namespace ckpt
