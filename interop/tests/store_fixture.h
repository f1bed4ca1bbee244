// A store in memory with checkpoints that are saved as a trainer would, exported, imported and compared, all through
// the public API.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "calls_fixture.h"
#include "ckpt_file.h"
#include "paths.h"
#include "safetensors_fixture.h"

namespace ckpt::interop {

// A handle of ckpt.hpp around one that somebody else keeps.
template <typename Handle>
class Borrowed {
 public:
  template <typename T>
  explicit Borrowed(const T* handle) : handle_(const_cast<T*>(handle)) {}
  Borrowed(const Borrowed&) = delete;
  ~Borrowed() { (void)handle_.release(); }
  const Handle& operator*() const { return handle_; }
  const Handle* operator->() const { return &handle_; }

 private:
  Handle handle_;
};

struct SavedTensor {
  std::string name;
  int32_t dtype;
  std::vector<int64_t> shape;
  std::string data;
};

// A view of another tensor; without strides the whole of it.
struct SavedAlias {
  std::string name, target;
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;
};

struct Saved {
  std::vector<SavedTensor> tensors;
  std::vector<SavedAlias> aliases;
  std::string tree;  // JSON; empty for none
};

inline SavedTensor floats(const std::string& name, const std::vector<int64_t>& shape, unsigned seed = 1) {
  size_t count = 1;
  for (int64_t extent : shape) count *= static_cast<size_t>(extent);
  return {name, CKPT_DTYPE_F32, shape, pattern(4 * count, seed)};
}

// {"$":"tensor","name":"w"}
inline std::string leaf(const std::string& name) { return R"({"$":"tensor","name":")" + name + "\"}"; }
inline std::string record(const std::string& class_name, const std::string& items) {
  return R"({"$":"record","class":")" + class_name + R"(","items":{)" + items + "}}";
}

class StoreTest : public TemporaryDirectory {
 protected:
  void SetUp() override {
    TemporaryDirectory::SetUp();
    must([&](auto** err) { return ckpt_store_open(&store_, ("mem:" + directory_).c_str(), nullptr, err); });
  }
  void TearDown() override {
    ckpt_store_free(store_);
    TemporaryDirectory::TearDown();
  }

  void save(const std::string& label, const Saved& state, const std::map<std::string, std::string>& attributes = {}) {
    ckpt_session* session = nullptr;
    ckpt_save* save = nullptr;
    must([&](auto** err) { return ckpt_session_open(&session, store_, 0, 1, nullptr, nullptr, err); });
    must([&](auto** err) { return ckpt_save_new(&save, session, label.c_str(), 3, nullptr, err); });
    for (const SavedTensor& tensor : state.tensors) {
      const ckpt_tensor_desc desc = describe(tensor.dtype, tensor.shape);
      must([&](auto** err) {
        return ckpt_save_add_tensor(save, tensor.name.c_str(), &desc, tensor.data.data(), tensor.data.size(),
                                    CKPT_DEVICE_CPU, 0, err);
      });
    }
    for (const SavedAlias& alias : state.aliases) {
      ckpt_tensor_desc view = describe(0, alias.shape);
      view.flags = CKPT_TENSOR_STRIDED;
      view.flat_offset = alias.offset;
      std::copy(alias.strides.begin(), alias.strides.end(), view.strides);
      must([&](auto** err) {
        return ckpt_save_add_alias(save, alias.name.c_str(), alias.target.c_str(),
                                   alias.strides.empty() ? nullptr : &view, err);
      });
    }
    if (!state.tree.empty())
      must([&](auto** err) {
        return ckpt_save_add_object(save, CKPT_TREE_OBJECT, CKPT_TREE_MEDIA_TYPE, CKPT_OBJECT_SHARED, state.tree.data(),
                                    state.tree.size(), err);
      });
    for (const auto& [key, value] : attributes)
      must([&](auto** err) { return ckpt_save_set_attr(save, nullptr, key.c_str(), value.c_str(), err); });
    must([&](auto** err) { return ckpt_save_run(save, err); });
    ckpt_save_free(save);
    ckpt_session_free(session);
  }

  // `run`: "main" of what was saved, "import" of what was imported.
  ckpt_reader* open(const std::string& label, const char* run) {
    ckpt_reader* reader = nullptr;
    ckpt_options* options = nullptr;
    must([&](auto** err) { return ckpt_options_new(&options, err); });
    must([&](auto** err) { return ckpt_options_set_str(options, "run", run, err); });
    must([&](auto** err) { return ckpt_reader_open(&reader, store_, ("label:" + label).c_str(), options, err); });
    ckpt_options_free(options);
    return reader;
  }

  Failure export_to(const std::string& to, const std::string& label,
                    const std::vector<std::pair<const char*, const char*>>& settings = {}, const char* run = "main") {
    ckpt_options* options = nullptr;
    ckpt_options_new(&options, nullptr);
    for (const auto& [key, value] : settings) {
      const bool number = std::string_view(key).starts_with("shard") || std::string_view(key) == "verify_after";
      must([&](auto** err) {
        return number ? ckpt_options_set_int(options, key, std::stoll(value), err)
                      : ckpt_options_set_str(options, key, value, err);
      });
    }
    ckpt_reader* reader = open(label, run);
    Failure failure = attempt([&](auto** err) { return ckpt_export(reader, to.c_str(), options, err); });
    ckpt_reader_free(reader);
    ckpt_options_free(options);
    return failure;
  }
  // Into run "import", whether a trainer uses "main" or not.
  Failure import_from(const std::string& from, const std::string& label,
                      const std::vector<std::pair<const char*, int>>& numbers = {},
                      const std::vector<std::pair<const char*, const char*>>& texts = {}) {
    info_ = {};
    info_.struct_size = sizeof info_;
    ckpt_options* options = nullptr;
    must([&](auto** err) { return ckpt_options_new(&options, err); });
    must([&](auto** err) { return ckpt_options_set_str(options, "run", "import", err); });
    for (const auto& [key, value] : numbers)
      must([&](auto** err) { return ckpt_options_set_int(options, key, value, err); });
    for (const auto& [key, value] : texts)
      must([&](auto** err) { return ckpt_options_set_str(options, key, value, err); });
    Failure failure =
        attempt([&](auto** err) { return ckpt_import(store_, from.c_str(), label.c_str(), 3, options, &info_, err); });
    ckpt_options_free(options);
    return failure;
  }

  // `from`: a path, or a name in the test's directory. The message has all texts.
  Failure expect_refused(const std::string& from, ckpt_status code, const std::vector<std::string>& texts) {
    Failure failure = import_from(std::filesystem::path(directory_) / from, "refused");
    EXPECT_EQ(failure.code, code) << failure.message;
    for (const std::string& text : texts) EXPECT_NE(failure.message.find(text), std::string::npos) << failure.message;
    return failure;
  }
  // With attempts, whatever became of them.
  size_t checkpoint_count() {
    ckpt_list* list = nullptr;
    must([&](auto** err) { return ckpt_store_list(store_, &list, err); });
    const size_t count = ckpt_list_count(list);
    ckpt_list_free(list);
    return count;
  }
  static std::filesystem::path fixture(const std::string& name) {
    return std::filesystem::path(CKPT_SOURCE_DIR) / "interop/tests/fixtures" / name;
  }

  std::string tree_of(const std::string& label, const char* run) {
    ckpt_reader* reader = open(label, run);
    ckpt_tree* tree = nullptr;
    const char* json = nullptr;
    uint64_t size = 0;
    must([&](auto** err) { return ckpt_reader_tree(reader, nullptr, &tree, err); });
    must([&](auto** err) { return ckpt_tree_json(tree, &json, &size, err); });
    std::string text(json ? json : "", size);
    ckpt_tree_free(tree);
    ckpt_reader_free(reader);
    return text;
  }

  // What differs between two checkpoints, but for the attributes that say how each came here.
  std::vector<std::string> differences(const std::string& a, const char* run_a, const std::string& b,
                                       const char* run_b) {
    ckpt_reader *first = open(a, run_a), *second = open(b, run_b);
    ckpt_report* report = nullptr;
    must([&](auto** err) { return ckpt_reader_diff(first, second, nullptr, &report, err); });
    std::vector<std::string> texts;
    for (size_t i = 0; i < ckpt_report_count(report); i++) {
      ckpt_finding finding{};
      finding.struct_size = sizeof finding;
      must([&](auto** err) { return ckpt_report_at(report, i, &finding, err); });
      const std::string text = finding.text;
      if (text.find("import.format") == std::string::npos) texts.push_back(text);
    }
    ckpt_report_free(report);
    ckpt_reader_free(first);
    ckpt_reader_free(second);
    return texts;
  }

  // Saved, exported as .pt and imported: the same tree, tensors, values and aliases.
  void expect_round_trip(const Saved& state) {
    save("a", state);
    const Failure out = export_to(path("a.pt"), "a");
    ASSERT_EQ(out.code, CKPT_OK) << out.message;
    const Failure in = import_from(path("a.pt"), "b");
    ASSERT_EQ(in.code, CKPT_OK) << in.message;
    EXPECT_EQ(tree_of("b", "import"), tree_of("a", "main"));
    EXPECT_EQ(differences("a", "main", "b", "import"), std::vector<std::string>());
  }

  ckpt_store* store_ = nullptr;
  ckpt_checkpoint_info info_{};
};

}  // namespace ckpt::interop
