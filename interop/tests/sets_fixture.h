// Directories of several files for tests, and what an import makes of them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "store_fixture.h"

namespace ckpt::interop {

class Sets : public StoreTest {
 protected:
  // A .pt of a dict of tensors, flat.
  void pt(const std::string& file, const std::vector<SavedTensor>& tensors, std::string tree = "") {
    std::filesystem::create_directories(std::filesystem::path(path(file)).parent_path());
    if (tree.empty()) {
      for (const SavedTensor& tensor : tensors)
        tree += (tree.empty() ? "{\"" : ",\"") + tensor.name + "\":" + leaf(tensor.name);
      tree += "}";
    }
    const std::string label = "s" + std::to_string(saves_++);
    save(label, {tensors, {}, tree});
    const Failure out = export_to(path(file), label, {{"format", "pt"}});
    ASSERT_EQ(out.code, CKPT_OK) << out.message;
  }
  std::string imported(const std::string& from) {
    const std::string label = "i" + std::to_string(saves_++);
    const Failure in = import_from(path(from), label);
    EXPECT_EQ(in.code, CKPT_OK) << in.message;
    return label;
  }
  std::string values(const std::string& label, const std::string& name, size_t bytes) {
    ckpt_reader* reader = open(label, "import");
    std::string data(bytes, '\0');
    const ckpt_tensor_info info = tensor_info(reader, name);
    load_whole(reader, name, describe(info.dtype, {info.shape, info.shape + info.ndim}), data);
    ckpt_reader_free(reader);
    return data;
  }
  void index(const std::string& file, const std::string& map) {
    write_file(path(file), R"({"metadata": {"total_size": 1}, "weight_map": {)" + map + "}}");
  }
  int saves_ = 0;
};

}  // namespace ckpt::interop
