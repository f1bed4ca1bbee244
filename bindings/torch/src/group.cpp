#include "group.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#if __has_include(<torch/csrc/distributed/c10d/ProcessGroup.hpp>)
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#define CKPT_TORCH_HAS_C10D 1
#endif

namespace ckpt_torch {

Ranks Ranks::single() {
  Ranks ranks;
  ranks.alone = true;
  return ranks;
}

Ranks Ranks::of(std::shared_ptr<Group> group) {
  if (!group) internal::fail(CKPT_INVALID, "Ranks::of was given no group");
  Ranks ranks;
  ranks.rank = group->rank();
  ranks.world_size = group->size();
  ranks.group = std::move(group);
  return ranks;
}

Ranks Ranks::of(const c10::intrusive_ptr<c10d::ProcessGroup>& group, at::Device device) {
  return of(c10d_group(group, device));
}

Ranks Ranks::with_session(uint32_t rank, uint32_t world_size, std::string session) {
  Ranks ranks;
  ranks.rank = rank;
  ranks.world_size = world_size;
  ranks.session = std::move(session);
  return ranks;
}

Ranks Ranks::by_rendezvous(uint32_t rank, uint32_t world_size) {
  Ranks ranks;
  ranks.rank = rank;
  ranks.world_size = world_size;
  ranks.rendezvous = true;
  return ranks;
}

std::vector<int64_t> Group::all_max(const std::vector<int64_t>& mine) {
  std::string text;
  for (const int64_t number : mine) text += std::to_string(number) + " ";
  std::vector<int64_t> most(mine);
  for (const std::string& other : all_gather(text)) {
    const char* at = other.c_str();
    char* end = nullptr;
    for (int64_t& number : most) {
      number = std::max<int64_t>(number, std::strtoll(at, &end, 10));
      at = end;
    }
  }
  return most;
}

// ---- c10d ----

#ifdef CKPT_TORCH_HAS_C10D
namespace {

// The store of a group, which tells of ranks that the group waits for; LibTorch 1.13 does not give it.
template <class G>
auto store_of(const G& group, int) -> decltype(group.getStore()) {
  return group.getStore();
}
template <class G>
c10::intrusive_ptr<c10d::Store> store_of(const G&, ...) {
  return {};
}

// Which ranks wait, as each of them notes in the store of their group. One that gives up stays noted: it did come.
class Waiting {
 public:
  Waiting(c10::intrusive_ptr<c10d::Store> store, uint32_t rank, uint32_t size)
      : store_(std::move(store)), rank_(rank), size_(size) {}

  void note(bool waits) const {
    const std::vector<uint8_t> mark{waits};
    (void)internal::caught([&] {
      if (store_) store_->set(key(rank_), mark);
    });
  }

  // "1, 2": the ranks that do not wait; "" if that cannot be told.
  std::string missing() const {
    std::string out;
    size_t count = 0;
    // Of very many ranks two ask; all would keep the store from its own work.
    if (size_ > 64 && rank_ > 1) return "";
    auto failed = internal::caught([&] {
      for (uint32_t r = 0; store_ && r < size_; r++)
        if (r != rank_ && !(store_->check({key(r)}) && store_->get(key(r)) == std::vector<uint8_t>{1}))
          out += (count++ ? ", " : "") + std::to_string(r);
    });
    return failed ? "" : out;
  }

 private:
  static std::string key(uint32_t rank) { return "ckpt/waits/" + std::to_string(rank); }
  c10::intrusive_ptr<c10d::Store> store_;
  uint32_t rank_, size_;
};

class C10dGroup : public Group {
 public:
  C10dGroup(c10::intrusive_ptr<c10d::ProcessGroup> group, at::Device device)
      : group_(std::move(group)),
        device_(device),
        waiting_(store_of(*group_, 0), static_cast<uint32_t>(group_->getRank()),
                 static_cast<uint32_t>(group_->getSize())) {}
  uint32_t rank() const override { return static_cast<uint32_t>(group_->getRank()); }
  uint32_t size() const override { return static_cast<uint32_t>(group_->getSize()); }
  void wait_at_most(std::chrono::milliseconds limit) override { limit_ = limit; }

  // Lengths first, then all texts padded to the longest.
  std::vector<std::string> all_gather(const std::string& mine) override {
    std::vector<int64_t> lengths;
    int64_t longest = 1;
    for (const at::Tensor& length : gather(at::full({1}, static_cast<int64_t>(mine.size()), at::kLong))) {
      lengths.push_back(length.item<int64_t>());
      longest = std::max(longest, lengths.back());
    }
    at::Tensor padded = at::zeros({longest}, at::kByte);
    if (!mine.empty()) std::memcpy(padded.data_ptr(), mine.data(), mine.size());
    std::vector<std::string> texts;
    for (const at::Tensor& text : gather(padded))
      texts.emplace_back(static_cast<const char*>(text.data_ptr()), static_cast<size_t>(lengths[texts.size()]));
    return texts;
  }

  std::vector<int64_t> all_max(const std::vector<int64_t>& mine) override {
    std::vector<at::Tensor> tensors{at::tensor(mine, at::kLong).to(device_)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    finish(group_->allreduce(tensors, options));
    const at::Tensor most = tensors[0].to(at::kCPU);
    return {most.data_ptr<int64_t>(), most.data_ptr<int64_t>() + most.numel()};
  }

 private:
  std::vector<at::Tensor> gather(const at::Tensor& mine) {
    std::vector<at::Tensor> in{mine.to(device_)};
    std::vector<std::vector<at::Tensor>> out(1);
    for (uint32_t r = 0; r < size(); r++) out[0].push_back(at::empty_like(in[0]));
    finish(group_->allgather(out, in));
    for (at::Tensor& tensor : out[0]) tensor = tensor.to(at::kCPU);
    return out[0];
  }

  // Asks instead of waiting, since a wait for a rank that never comes would not end.
  template <class Work>
  void finish(const Work& work) {
    using Clock = std::chrono::steady_clock;
    const auto begun = Clock::now();
    auto seconds = [&] { return std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begun).count(); };
    bool noted = false, told = false;
    for (std::chrono::microseconds pause(1); !work->isCompleted();
         pause = std::min<std::chrono::microseconds>(2 * pause, std::chrono::milliseconds(5))) {
      const auto waited = Clock::now() - begun;
      if (!noted && (waited > std::chrono::seconds(1) || waited > limit_ / 2)) waiting_.note(noted = true);
      if (waited > limit_) fail_waiting(CKPT_TIMEOUT, seconds());
      if (!told && waited > std::chrono::seconds(10)) {
        told = true;
        (void)std::fprintf(stderr, "ckpt: %s (one that saves by itself gives no group)\n",
                           about(waiting_.missing(), 10).c_str());
      }
      std::this_thread::sleep_for(pause);
    }
    try {
      work->wait();  // throws what went wrong
    } catch (...) {
      if (!told) throw;
      const Error error = internal::current_error();  // the group's own time may be up before the limit
      fail_waiting(error.status(), seconds(), std::string(": ") + error.what());
    }
    if (noted) waiting_.note(false);
  }

  std::string about(const std::string& missing, int64_t seconds) const {
    return "rank " + std::to_string(rank()) + " of " + std::to_string(size()) + " has waited " +
           std::to_string(seconds) + " s for " +
           (missing.empty() ? "other ranks" : (missing.find(',') == missing.npos ? "rank " : "ranks ") + missing) +
           "; all ranks make the calls marked COLLECTIVE";
  }

  [[noreturn]] void fail_waiting(ckpt_status status, int64_t seconds, const std::string& why = {}) const {
    const std::string missing = waiting_.missing();
    internal::fail(status, about(missing, seconds) + why,
                   missing.empty() ? Error::Details() : Error::Details{{"ranks", missing}});
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  at::Device device_;
  Waiting waiting_;
  std::chrono::milliseconds limit_ = std::chrono::minutes(30);
};

}  // namespace

std::shared_ptr<Group> c10d_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group, at::Device device) {
  if (!group) internal::fail(CKPT_INVALID, "c10d_group was given no group");
  return std::make_shared<C10dGroup>(group, device);
}
#else
std::shared_ptr<Group> c10d_group(const c10::intrusive_ptr<c10d::ProcessGroup>&, at::Device) {
  internal::fail(CKPT_UNSUPPORTED, "this LibTorch was built without torch.distributed");
}
#endif

// ---- one outcome ----

namespace internal {

namespace {

void pack(std::string& out, const std::string& text) {
  uint64_t size = text.size();
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out += text;
}

std::string unpack(const std::string& in, size_t& at) {
  uint64_t size = 0;
  if (in.size() - at < sizeof size) fail(CKPT_INTERNAL, "a rank sent a message that ends early");
  std::memcpy(&size, in.data() + at, sizeof size);
  at += sizeof size;
  if (in.size() - at < size) fail(CKPT_INTERNAL, "a rank sent a message that ends early");
  at += size;
  return in.substr(at - size, size);
}

}  // namespace

std::string packed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) pack(text, word);
  return text;
}

std::vector<std::string> unpacked(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) words.push_back(unpack(text, at));
  return words;
}

namespace {

struct Outcome {
  ckpt_status status = CKPT_OK;
  std::string message, word;
  std::map<std::string, std::string> details;
};

std::string to_text(const Outcome& outcome) {
  std::vector<std::string> words{std::to_string(outcome.status), outcome.message, outcome.word};
  for (const auto& [key, value] : outcome.details) words.insert(words.end(), {key, value});
  return packed(words);
}

Outcome from_text(const std::string& text) {
  const auto words = unpacked(text);
  if (words.size() < 3) fail(CKPT_INTERNAL, "a rank sent a message that ends early");
  Outcome outcome{std::stoi(words[0]), words[1], words[2], {}};
  for (size_t i = 3; i + 1 < words.size(); i += 2) outcome.details[words[i]] = words[i + 1];
  return outcome;
}

// Whether the error is only a consequence of another rank's.
bool is_echo(ckpt_status status) {
  return status == CKPT_ABORTED || status == CKPT_CANCELLED || status == CKPT_TIMEOUT;
}

}  // namespace

// If the group itself fails, mostly because a rank died, this rank's own error says more: the engine names that rank.
static std::vector<std::string> gather_outcomes(Group& group, const Outcome& mine, const std::optional<Error>& own) {
  std::optional<Error> failed;
  std::vector<std::string> texts;
  if (!(failed = caught([&] { texts = group.all_gather(to_text(mine)); }))) return texts;
  if (!own && failed->status() == CKPT_TIMEOUT) throw *failed;  // it names who did not come
  const std::string why = std::string("the process group failed, as it does when a rank dies: ") + failed->what();
  if (own) throw Error(own->status(), std::string(own->what()) + " (and " + why + ")", own->details());
  fail(CKPT_ABORTED, why + "; what this rank did itself succeeded");
}

std::vector<std::string> agree(Group* group, const std::optional<Error>& own, const std::string& word) {
  if (group == nullptr) {
    if (own) throw *own;
    return {word};
  }
  Outcome mine;
  mine.word = word;
  if (own) {
    mine.status = own->status();
    mine.message = own->what();
    mine.details = own->details();
  }
  std::vector<Outcome> all;
  for (const std::string& text : gather_outcomes(*group, mine, own)) all.push_back(from_text(text));
  size_t worst = all.size();
  for (size_t rank = all.size(); rank-- > 0;)
    if (all[rank].status != CKPT_OK &&
        (worst == all.size() || !is_echo(all[rank].status) || is_echo(all[worst].status)))
      worst = rank;
  if (worst < all.size()) {
    all[worst].details["rank"] = std::to_string(worst);
    throw Error(all[worst].status, "rank " + std::to_string(worst) + ": " + all[worst].message, all[worst].details);
  }
  std::vector<std::string> words;
  for (const Outcome& outcome : all) words.push_back(outcome.word);
  return words;
}

void same_on_all(Group* group, const std::vector<std::pair<std::string, std::string>>& named) {
  std::vector<std::string> words;
  for (const auto& one : named) words.push_back(one.second);
  const auto told = agree(group, std::nullopt, packed(words));
  for (size_t rank = 1; rank < told.size(); rank++) {
    const auto here = unpacked(told[0]), there = unpacked(told[rank]);
    for (size_t i = 0; i < named.size(); i++)
      if (here.at(i) != there.at(i))
        fail(CKPT_MISMATCH,
             named[i].first + ": rank 0 has " + in_quotes(here[i]) + ", rank " + std::to_string(rank) + " has " +
                 in_quotes(there[i]) + "; all ranks save one state together, so they give the same",
             {{"ranks", "0, " + std::to_string(rank)}, {"expected", here[i]}, {"found", there[i]}});
  }
}

}  // namespace internal
}  // namespace ckpt_torch
