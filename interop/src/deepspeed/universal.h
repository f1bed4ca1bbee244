// Universal checkpoints of DeepSpeed, which are independent of how many ranks there were: zero/NAME/fp32.pt, exp_avg.pt
// and so on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "interop/src/deepspeed/builder.h"
#include "interop/src/deepspeed/zero.h"

namespace ckpt::interop {

class UniversalState {
 public:
  // Opens all of its files. INCOMPLETE for a parameter without weights.
  static Result<UniversalState> open(const std::string& directory, const ReadOptions& options, ForeignCheckpoint& to);
  // Whether it has the parameters of param_shapes, which tell the shapes of what was ZeRO-3: its values are flat.
  // INCOMPLETE, MISMATCH.
  Status check(const std::string& where, const std::vector<ZeroGroup>& groups);

  const std::vector<std::string>& names() const { return names_; }
  bool has(const std::string& name) const { return parameters_.contains(name); }
  Status put_weight(StateBuilder& to, const std::string& name, const std::string& path) const;
  Status put_optimizer(StateBuilder& to, const std::vector<ZeroGroup>& groups) const;

 private:
  struct Value {
    std::string key;  // "exp_avg"
    DeepSpeedFile file;
    uint32_t node;  // what it is in the file
  };
  static constexpr const char* kWeight = "fp32";
  const Value& weight(const std::string& name) const;
  Status put(StateBuilder& to, const Value& value, const std::string& name, const std::string& path) const;

  std::string directory_;  // zero/
  std::vector<std::string> names_;
  std::map<std::string, std::vector<Value>> parameters_;  // the weight first
  std::map<std::string, Shape> shapes_;                   // of those whose weight is flat and should not be
  std::vector<DeepSpeedFile> optimizer_;                  // optimizer_state.pt, where it is there
};

}  // namespace ckpt::interop
