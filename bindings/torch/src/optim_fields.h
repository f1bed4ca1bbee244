// The fields of each LibTorch optimizer, under the names of Python's state_dict(). One description serves saving and
// loading: a visitor reads or sets each field.
#ifndef CKPT_TORCH_OPTIM_FIELDS_H
#define CKPT_TORCH_OPTIM_FIELDS_H

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>

namespace ckpt_torch {
namespace internal {

class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;
  virtual void real(const char* name, double& value) = 0;
  virtual void pair(const char* name, std::tuple<double, double>& value) = 0;
  virtual void flag(const char* name, bool& value) = 0;
  virtual void integer(const char* name, int64_t& value) = 0;
  virtual void integer_or_none(const char* name, std::optional<int64_t>& value) = 0;
  virtual void text_or_none(const char* name, std::optional<std::string>& value) = 0;
};

enum class Extent { kParam, kFlat, kScalar, kAny };  // the shape of a tensor of the state

struct TensorList {
  size_t size;
  std::function<void(size_t)> resize;
  std::function<at::Tensor&(size_t)> at;  // the reference is valid until the next resize
};

class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  virtual void count(const char* name, int64_t& value) = 0;
  virtual void real(const char* name, double& value) = 0;
  // `required`: if it is missing, the next step would fail or start anew.
  virtual void tensor(const char* name, at::Tensor& value, Extent extent, bool required) = 0;
  virtual void tensors(const char* name, const TensorList& list, Extent extent) = 0;
};

// ---- SGD ----

inline void visit_options(torch::optim::SGDOptions& o, OptionVisitor& v) {
  v.real("lr", o.lr());
  v.real("momentum", o.momentum());
  v.real("dampening", o.dampening());
  v.real("weight_decay", o.weight_decay());
  v.flag("nesterov", o.nesterov());
}
inline void visit_state(torch::optim::SGDParamState& s, const torch::optim::SGDOptions&, StateVisitor& v) {
  v.tensor("momentum_buffer", s.momentum_buffer(), Extent::kParam, true);
}

// ---- Adam and AdamW ----

template <class Options>
void visit_adam_options(Options& o, OptionVisitor& v) {
  v.real("lr", o.lr());
  v.pair("betas", o.betas());
  v.real("eps", o.eps());
  v.real("weight_decay", o.weight_decay());
  v.flag("amsgrad", o.amsgrad());
}
template <class State, class Options>
void visit_adam_state(State& s, const Options& o, StateVisitor& v) {
  v.count("step", s.step());
  v.tensor("exp_avg", s.exp_avg(), Extent::kParam, true);
  v.tensor("exp_avg_sq", s.exp_avg_sq(), Extent::kParam, true);
  v.tensor("max_exp_avg_sq", s.max_exp_avg_sq(), Extent::kParam, o.amsgrad());
}
inline void visit_options(torch::optim::AdamOptions& o, OptionVisitor& v) { visit_adam_options(o, v); }
inline void visit_options(torch::optim::AdamWOptions& o, OptionVisitor& v) { visit_adam_options(o, v); }
inline void visit_state(torch::optim::AdamParamState& s, const torch::optim::AdamOptions& o, StateVisitor& v) {
  visit_adam_state(s, o, v);
}
inline void visit_state(torch::optim::AdamWParamState& s, const torch::optim::AdamWOptions& o, StateVisitor& v) {
  visit_adam_state(s, o, v);
}

// ---- Adagrad ----

inline void visit_options(torch::optim::AdagradOptions& o, OptionVisitor& v) {
  v.real("lr", o.lr());
  v.real("lr_decay", o.lr_decay());
  v.real("eps", o.eps());
  v.real("weight_decay", o.weight_decay());
  v.real("initial_accumulator_value", o.initial_accumulator_value());
}
inline void visit_state(torch::optim::AdagradParamState& s, const torch::optim::AdagradOptions&, StateVisitor& v) {
  v.count("step", s.step());
  v.tensor("sum", s.sum(), Extent::kParam, true);
}

// ---- RMSprop ----

inline void visit_options(torch::optim::RMSpropOptions& o, OptionVisitor& v) {
  v.real("lr", o.lr());
  v.real("momentum", o.momentum());
  v.real("alpha", o.alpha());
  v.real("eps", o.eps());
  v.flag("centered", o.centered());
  v.real("weight_decay", o.weight_decay());
}
inline void visit_state(torch::optim::RMSpropParamState& s, const torch::optim::RMSpropOptions& o, StateVisitor& v) {
  v.count("step", s.step());
  v.tensor("square_avg", s.square_avg(), Extent::kParam, true);
  v.tensor("momentum_buffer", s.momentum_buffer(), Extent::kParam, o.momentum() > 0);
  v.tensor("grad_avg", s.grad_avg(), Extent::kParam, o.centered());
}

// ---- LBFGS: the first parameter has the only state, for all parameters as one flat vector ----

inline void visit_options(torch::optim::LBFGSOptions& o, OptionVisitor& v) {
  std::optional<int64_t> max_eval;
  std::optional<std::string> line_search;
  if (o.max_eval().has_value()) max_eval = *o.max_eval();
  if (o.line_search_fn().has_value()) line_search = *o.line_search_fn();
  v.real("lr", o.lr());
  v.integer("max_iter", o.max_iter());
  v.integer_or_none("max_eval", max_eval);
  v.real("tolerance_grad", o.tolerance_grad());
  v.real("tolerance_change", o.tolerance_change());
  v.integer("history_size", o.history_size());
  v.text_or_none("line_search_fn", line_search);
  o.max_eval().reset();
  o.line_search_fn().reset();
  if (max_eval) o.max_eval() = *max_eval;
  if (line_search) o.line_search_fn() = *line_search;
}
template <class Sequence>
TensorList list_of(Sequence& all) {
  return {all.size(), [&all](size_t n) { all.resize(n); }, [&all](size_t i) -> at::Tensor& { return all[i]; }};
}
inline void visit_state(torch::optim::LBFGSParamState& s, const torch::optim::LBFGSOptions&, StateVisitor& v) {
  v.count("func_evals", s.func_evals());
  v.count("n_iter", s.n_iter());
  v.tensor("d", s.d(), Extent::kFlat, false);
  v.real("t", s.t());
  v.tensors("old_dirs", list_of(s.old_dirs()), Extent::kFlat);
  v.tensors("old_stps", list_of(s.old_stps()), Extent::kFlat);
  v.tensors("ro", list_of(s.ro()), Extent::kScalar);
  v.tensor("H_diag", s.H_diag(), Extent::kScalar, false);
  v.tensor("prev_flat_grad", s.prev_flat_grad(), Extent::kFlat, false);
  v.real("prev_loss", s.prev_loss());
  auto& al = s.al();
  auto resize = [&al](size_t n) {
    al.reset();
    if (n > 0) al = std::vector<at::Tensor>(n);
  };
  v.tensors("al", {al.has_value() ? al->size() : 0, resize, [&al](size_t i) -> at::Tensor& { return (*al)[i]; }},
            Extent::kAny);
}

// ---- which is which ----

template <class OptimizerClass, class OptionsClass, class StateClass>
struct Kind {
  using Optimizer = OptimizerClass;
  using Options = OptionsClass;
  using State = StateClass;
  const char* name;
};

// Calls use(Kind) for the class that `optimizer` is or derives from; false if it is none of them.
template <class Use>
bool with_kind(const torch::optim::Optimizer& optimizer, Use&& use) {
  using namespace torch::optim;
  auto tried = [&](auto kind) {
    using K = decltype(kind);
    if (dynamic_cast<const typename K::Optimizer*>(&optimizer) == nullptr) return false;
    use(kind);
    return true;
  };
  return tried(Kind<SGD, SGDOptions, SGDParamState>{"SGD"}) ||
         tried(Kind<AdamW, AdamWOptions, AdamWParamState>{"AdamW"}) ||
         tried(Kind<Adam, AdamOptions, AdamParamState>{"Adam"}) ||
         tried(Kind<Adagrad, AdagradOptions, AdagradParamState>{"Adagrad"}) ||
         tried(Kind<RMSprop, RMSpropOptions, RMSpropParamState>{"RMSprop"}) ||
         tried(Kind<LBFGS, LBFGSOptions, LBFGSParamState>{"LBFGS"});
}

// The key of a parameter in Optimizer::state(): before LibTorch 2.0 its address as text, since then the address.
template <class Key>
Key state_key(const at::Tensor& param) {
  if constexpr (std::is_pointer_v<Key>) {
    return param.unsafeGetTensorImpl();
  } else {
    std::ostringstream text;  // as c10::guts::to_string, which newer versions lack
    text << param.unsafeGetTensorImpl();
    return text.str();
  }
}

}  // namespace internal
}  // namespace ckpt_torch
#endif
