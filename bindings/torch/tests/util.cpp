#include "util.h"

#include <ATen/CPUGeneratorImpl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>

static std::string fresh_uri(bool directory) {
  static std::atomic<int> next{0};
  if (!directory) return "mem:torch-" + std::to_string(getpid()) + "-" + std::to_string(next++);
  std::string pattern = (std::filesystem::temp_directory_path() / "ckpt-torch-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  return pattern;
}

StorePlace::StorePlace(bool directory) : uri_(fresh_uri(directory)), directory_(directory), alive_(uri_) {}
StorePlace::~StorePlace() {
  std::error_code ignored;
  if (directory_) std::filesystem::remove_all(uri_, ignored);
}

NetImpl::NetImpl(int64_t hidden) {
  a = register_module("a", torch::nn::Linear(5, hidden));
  norm = register_module("norm", torch::nn::BatchNorm1d(hidden));
  b = register_module("b", torch::nn::Linear(hidden, 3));
}

at::Tensor NetImpl::forward(const at::Tensor& x) { return b(at::relu(norm(a(x)))); }

Net seeded_net(uint64_t seed) {
  at::NoGradGuard no_grad;
  Net net;
  auto generator = at::detail::createCPUGenerator(seed);
  for (auto& param : net->parameters()) param.copy_(at::randn(param.sizes(), generator));
  return net;
}

double train(Net& net, torch::optim::Optimizer& optimizer, int step) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step + 1));
  at::Tensor x = at::randn({16, 5}, generator), y = at::randn({16, 3}, generator);
  auto closure = [&] {
    optimizer.zero_grad();
    at::Tensor loss = (net->forward(x) - y).pow(2).mean();
    loss.backward();
    return loss;
  };
  return optimizer.step(closure).item<double>();
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  at::Tensor x = a.detach().resolve_conj().resolve_neg().contiguous(),
             y = b.detach().resolve_conj().resolve_neg().contiguous();
  return x.numel() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

void expect_same(const torch::nn::Module& a, const torch::nn::Module& b) {
  auto compare = [](const auto& x, const auto& y) {
    ASSERT_EQ(x.size(), y.size());
    for (const auto& item : x) EXPECT_TRUE(same_bits(item.value(), y[item.key()])) << item.key();
  };
  compare(a.named_parameters(), b.named_parameters());
  compare(a.named_buffers(), b.named_buffers());
}

ct::Error expect_error(const std::function<void()>& call, ckpt_status status, const std::string& text) {
  try {
    call();
  } catch (const ct::Error& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    return error;
  }
  ADD_FAILURE() << "nothing was thrown; expected: " << text;
  return ct::Error(CKPT_OK, "");
}

void run_processes(const std::string& mode, const std::string& folder, int size,
                   const std::vector<std::string>& words) {
  std::filesystem::create_directories(folder);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; rank++) {
    std::vector<std::string> all{"/proc/self/exe", mode, folder, std::to_string(rank), std::to_string(size)};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (auto& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t child = fork();
    if (child == 0) {
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "a rank ended with " << status;
  }
}

// ---- threads as ranks ----

namespace {

class ThreadRank : public ct::Group {
 public:
  ThreadRank(ThreadGroup& group, uint32_t rank, uint32_t size) : group_(group), rank_(rank), size_(size) {}
  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return size_; }
  std::vector<std::string> all_gather(const std::string& mine) override { return group_.gather(rank_, mine); }

 private:
  ThreadGroup& group_;
  uint32_t rank_, size_;
};

}  // namespace

std::vector<std::string> ThreadGroup::gather(uint32_t rank, const std::string& word) {
  std::unique_lock<std::mutex> lock(mutex_);
  words_[rank] = word;
  uint32_t round = round_;
  if (++arrived_ == size_) {
    gathered_ = words_;
    arrived_ = 0;
    round_++;
    changed_.notify_all();
  } else {
    changed_.wait(lock, [&] { return round_ != round; });
  }
  return gathered_;
}

void ThreadGroup::run(const std::function<void(ct::Ranks ranks)>& body) {
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size_; rank++)
    threads.emplace_back([&, rank] {
      try {
        body(ct::Ranks::of(std::make_shared<ThreadRank>(*this, rank, size_)));
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  for (auto& thread : threads) thread.join();
}
