// Saves and loads a workload's shares through ckpt.hpp. A failure throws ckpt::Error, which ends the measurement.
#pragma once

#include <ckpt.hpp>

#include "workload.h"

namespace ckpt_bench {

using OptionValues = std::map<std::string, std::string>;

// One store with one rank's session. Ranks of a world above 1 meet through the store.
class Client {
 public:
  Client(const std::string& directory, const OptionValues& options);
  void open_session(uint32_t rank, uint32_t world);

  ckpt::Save new_save(const std::string& name, int64_t step, const Share& share, const std::byte* data) const;
  ckpt::Reader open_reader() const { return ckpt::Reader::open(store_, "latest", options_); }
  ckpt::Load new_load(const ckpt::Reader& reader, const Share& share, std::byte* data) const;
  const ckpt::Session& session() const { return session_; }
  const ckpt::Options& options() const { return options_; }

 private:
  ckpt::Options options_;
  ckpt::Store store_;
  ckpt::Session session_{nullptr};
};

nlohmann::json stats_of(const ckpt::Job& job);

}  // namespace ckpt_bench
