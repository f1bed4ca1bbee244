// Sparse tensors whose fields do not fit each other, as a foreign file may hold them: LibTorch would write out of
// bounds with such a tensor.
#include "util.h"

namespace {

constexpr int64_t kFar = int64_t{1} << 40;

at::Tensor longs(std::initializer_list<int64_t> values) { return at::tensor(values, at::kLong); }

// Unchecked here: the load must check.
at::Tensor coo(const at::Tensor& indices, at::IntArrayRef size) {
  return at::_sparse_coo_tensor_unsafe(indices, at::ones({indices.size(1)}), size);
}
at::Tensor compressed(at::Layout layout, const at::Tensor& bounds, const at::Tensor& places, at::IntArrayRef block) {
  std::vector<int64_t> shape{places.size(0)};
  shape.insert(shape.end(), block.begin(), block.end());
  at::Tensor values = at::ones(shape);
  return at::_sparse_compressed_tensor_unsafe(bounds, places, values, {4, 4}, values.options().layout(layout));
}

void expect_refused(const at::Tensor& broken) {
  StorePlace place;
  Net net = seeded_net(1), loaded = seeded_net(2), before = seeded_net(2);
  ct::save(place.uri(), net, {}, {{"t", broken}});
  auto error = expect_error([&] { ct::load(place.uri(), loaded); }, CKPT_FORMAT, "tensor 't'");
  EXPECT_EQ(error.detail("tensor"), "t");
  expect_same(*before, *loaded);
}

TEST(BrokenSparse, CooWithAnIndexOutsideIsRefusedBeforeTheModuleChanges) {
  expect_refused(coo(longs({kFar}).view({1, 1}), {4}));
  expect_refused(coo(longs({-1}).view({1, 1}), {4}));
  expect_refused(coo(longs({0, 1, 2, 4}).view({2, 2}), {4, 4}));
}

TEST(BrokenSparse, CooThatAModuleIsToTakeIsRefusedBeforeItChanges) {
  StorePlace place;
  auto saved = std::make_shared<torch::nn::LinearImpl>(2, 2), loaded = std::make_shared<torch::nn::LinearImpl>(2, 2);
  saved->register_buffer("s", coo(longs({kFar}).view({1, 1}), {4}));
  at::Tensor s = loaded->register_buffer("s", coo(longs({3}).view({1, 1}), {4}));
  at::Tensor weight = loaded->weight.detach().clone();
  ct::save(place.uri(), saved);
  expect_error([&] { ct::load(place.uri(), loaded); }, CKPT_FORMAT, "tensor 'model/s'");
  EXPECT_TRUE(same_bits(loaded->weight, weight));
  EXPECT_EQ(s._indices().item<int64_t>(), 3);
}

TEST(BrokenSparse, CsrWithAColumnOutsideIsRefused) {
  expect_refused(compressed(at::kSparseCsr, longs({0, 1, 1, 1, 1}), longs({kFar}), {}));
}
TEST(BrokenSparse, CsrWhoseRowsEndBeyondItsValuesIsRefused) {
  expect_refused(compressed(at::kSparseCsr, longs({0, kFar, kFar, kFar, kFar}), longs({0}), {}));
}
TEST(BrokenSparse, CscWithARowOutsideIsRefused) {
  expect_refused(compressed(at::kSparseCsc, longs({0, 1, 1, 1, 1}), longs({kFar}), {}));
}
TEST(BrokenSparse, BsrWithAColumnOutsideIsRefused) {
  expect_refused(compressed(at::kSparseBsr, longs({0, 1, 1}), longs({kFar}), {2, 2}));
}
TEST(BrokenSparse, BscWithARowOutsideIsRefused) {
  expect_refused(compressed(at::kSparseBsc, longs({0, 1, 1}), longs({kFar}), {2, 2}));
}

TEST(BrokenSparse, CooThatOnlyClaimsToBeCoalescedIsLoadedAsOneThatIsNot) {
  const at::Tensor one = coo(longs({2, 0, 2}).view({1, 3}), {4});
  const at::Tensor two = coo(longs({1, 1, 0, 3, 2, 3}).view({2, 3}), {4, 4});
  for (at::Tensor claims : {one, two}) {
    StorePlace place;
    at::Tensor expected = claims.to_dense();
    claims._coalesced_(true);
    ct::save(place.uri(), {}, {}, {{"t", claims}});
    at::Tensor t = ct::load(place.uri(), {}).others.at("t").toTensor();
    EXPECT_FALSE(t.is_coalesced());
    EXPECT_TRUE(same_bits(t.to_dense(), expected));
  }
}

}  // namespace
