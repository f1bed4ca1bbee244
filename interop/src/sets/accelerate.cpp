// What accelerate writes (1.15.0: save_accelerator_state, save_fsdp_model, save_fsdp_optimizer), and Trainer, which
// runs on it: models and optimizers as one file each, as DCP, or as a file of each rank.
#include <algorithm>
#include <charconv>
#include <optional>

#include "interop/src/dcp/format.h"
#include "interop/src/deepspeed/format.h"
#include "interop/src/pt/format.h"
#include "interop/src/safetensors/file_set.h"
#include "interop/src/sets/format.h"
#include "interop/src/shards/merge.h"

namespace ckpt::interop {

namespace {

constexpr std::string_view kRandom = "random_states_", kPickle = ".pkl";

// The first of a kind has no number in its name: "optimizer.bin", "optimizer_1.bin".
std::string numbered(const std::string& stem, size_t i) { return i == 0 ? stem : strformat("{}_{}", stem, i); }

// Of "optimizer_1.bin", "optimizer_1" or "optimizer_1_rank0.bin": 1. None for another name than a numbered stem's.
std::optional<size_t> number_of(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem) || !name.substr(stem.size()).starts_with('_')) return std::nullopt;
  name.remove_prefix(stem.size() + 1);
  size_t number = 0;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  name.remove_prefix(static_cast<size_t>(stop - name.data()));
  const bool ends = name.empty() || name.starts_with('.') || name.starts_with("_rank");
  return error == std::errc() && ends ? std::optional(number) : std::nullopt;
}

class Directory {
 public:
  Directory(const std::string& path, const ReadOptions& options)
      : path_(path), options_(options), names_(names_in_directory(path, options.folder)) {}

  bool has(const std::string& name) const { return std::binary_search(names_.begin(), names_.end(), name); }
  std::vector<StatePart> take() { return std::move(parts_); }

  // `take` of 0, 1, … until one is not there: how many were. INCOMPLETE where one of these stems has a later number.
  template <class Take>
  Result<size_t> take_all(std::initializer_list<const char*> stems, const Take& take) {
    size_t count = 0;
    for (bool found = true; found; count += found) {
      CKPT_ASSIGN(found, take(count));
    }
    for (const std::string& name : names_)
      for (const char* stem : stems)
        if (const auto number = number_of(name, stem); number && *number >= count)
          return Status(CKPT_INCOMPLETE, strformat("{}/{} is missing: {} is there", path_, numbered(stem, count), name))
              .with("path", path_ + '/' + numbered(stem, count));
    return count;
  }
  // Those that are there: accelerate numbers them by the loaders that they are of, and not each loader has one.
  Status take_any(const std::string& stem) {
    std::vector<size_t> numbers;
    for (const std::string& name : names_) {
      const auto number = number_of(name, stem);
      if (name == stem + ".bin" || (number && name == numbered(stem, *number) + ".bin"))
        numbers.push_back(number.value_or(0));
    }
    std::ranges::sort(numbers);
    for (const size_t i : numbers) CKPT_TRY(file(numbered(stem, i), numbered(stem, i) + ".bin").status());
    return Ok();
  }
  // A model that save_state's hooks wrote has a folder of its own (of diffusers, "unet").
  bool has_folder_of_weights() const {
    return std::ranges::any_of(names_, [&](const std::string& name) {
      const std::string folder = path_ + '/' + name;
      return !name.starts_with("optimizer_") && is_directory(folder, options_.folder) &&
             std::ranges::any_of(names_in_directory(folder, options_.folder), [](const std::string& file) {
               return file.ends_with(kSuffix) || file.ends_with(".bin");
             });
    });
  }

  // Each returns whether it was there.
  Result<bool> file(const std::string& key, const std::string& name) {
    if (!has(name)) return false;
    CKPT_ASSIGN(StatePart part, read_part(key, path_ + '/' + name, options_));
    CKPT_TRY(check_archive(name, part.content[0].archive));
    parts_.push_back(std::move(part));
    return true;
  }
  Result<bool> model(size_t i) {
    const std::string key = numbered("model", i), fsdp = "pytorch_model_fsdp";
    if (i == 0 && holds_model_weights(names_)) {
      StatePart& part = parts_.emplace_back();
      part.key = key;
      CKPT_ASSIGN(part.content, read_weights(path_, options_));
      return true;
    }
    for (const std::string& name : {key + kSuffix, numbered("pytorch_model", i) + ".bin", numbered(fsdp, i) + ".bin"}) {
      CKPT_ASSIGN(const bool found, file(key, name));
      if (found) return true;
    }
    CKPT_ASSIGN(const bool found, sharded(key, strformat("{}_{}", fsdp, i), "model"));
    if (found || i != 0) return found;
    for (const char* ending : {kSuffix, ".bin"}) {  // of PEFT
      CKPT_ASSIGN(const bool adapter, file("adapter", std::string("adapter_model") + ending));
      if (adapter) return true;
    }
    return rank_files(key, fsdp + "_rank");
  }
  Result<bool> optimizer(size_t i) {
    const std::string key = numbered("optimizer", i);
    CKPT_ASSIGN(const bool found, file(key, key + ".bin"));
    return found ? found : sharded(key, strformat("optimizer_{}", i), "optimizer");
  }
  Status random_states();

 private:
  // torch calls the archive as the file was called that it wrote.
  Status check_archive(const std::string& name, const std::string& archive) const {
    const std::string written = archive + name.substr(std::min(name.rfind('.'), name.size()));
    const bool is_other = !archive.empty() && written != name && has(written);
    return is_other ? written_as_another(path_ + '/' + name, written) : Ok();
  }
  // A DCP directory, in which the state has a key of its own, or a file of each rank.
  Result<bool> sharded(const std::string& key, const std::string& name, const char* around) {
    if (!has(name)) return rank_files(key, name + "_rank");
    CKPT_ASSIGN(ForeignCheckpoint content, read_dcp(path_ + '/' + name, options_));
    StatePart& part = parts_.emplace_back();
    part.key = key;
    part.around = around;
    part.content.push_back(std::move(content));
    return true;
  }
  Result<bool> rank_files(const std::string& key, const std::string& before) {
    std::vector<std::pair<uint32_t, std::string>> found;
    for (const std::string& name : names_)
      if (const auto rank = rank_name(name); rank && rank->before == before) found.emplace_back(rank->rank, name);
    if (found.empty()) return false;
    std::ranges::sort(found);
    std::vector<std::string> names;
    for (auto& [rank, name] : found) names.push_back(std::move(name));
    CKPT_ASSIGN(const std::vector<RankFile> ranks, open_rank_files(path_, names, options_));
    CKPT_ASSIGN(ForeignCheckpoint content, merge_rank_files(path_, ranks, {}, options_));
    StatePart& part = parts_.emplace_back();
    part.key = key;
    part.content.push_back(std::move(content));
    return true;
  }

  const std::string& path_;
  const ReadOptions& options_;
  std::vector<std::string> names_;
  std::vector<StatePart> parts_;
};

// random_states_0.pkl, random_states_1.pkl …: what each rank has.
Status Directory::random_states() {
  std::vector<uint32_t> ranks;
  for (const std::string& name : names_) {
    if (!name.starts_with(kRandom) || !name.ends_with(kPickle)) continue;
    uint32_t rank = 0;
    const char* end = name.data() + name.size() - kPickle.size();
    if (std::from_chars(name.data() + kRandom.size(), end, rank).ptr == end) ranks.push_back(rank);
  }
  std::ranges::sort(ranks);
  StatePart part{"random_states", {}, true};
  for (size_t i = 0; i < ranks.size(); i++) {
    const std::string file = path_ + '/' + strformat("{}{}{}", kRandom, i, kPickle);
    if (ranks[i] != i)
      return Status(CKPT_INCOMPLETE, strformat("{} is missing: that of rank {} is there", file, ranks[i]))
          .with("path", file);
    CKPT_ASSIGN(StatePart one, read_part(part.key, file, options_));
    CKPT_TRY(check_archive(file.substr(path_.size() + 1), one.content[0].archive));
    part.content.push_back(std::move(one.content[0]));
  }
  if (!part.content.empty()) parts_.push_back(std::move(part));
  return Ok();
}

}  // namespace

bool holds_prepared(const std::vector<std::string>& names) {
  return holds_model_weights(names) || std::ranges::any_of(names, [](const std::string& name) {
           return name == "latest" || name.starts_with("pytorch_model_fsdp") || name.starts_with("adapter_model.");
         });
}

Result<std::vector<StatePart>> read_prepared(const std::string& path, const ReadOptions& options) {
  Directory directory(path, options);
  if (directory.has("latest")) {
    std::vector<StatePart> parts(1);
    CKPT_ASSIGN(ForeignCheckpoint content, read_deepspeed(path, options));
    parts[0].content.push_back(std::move(content));
    return parts;
  }
  CKPT_ASSIGN(const size_t models, directory.take_all({"model", "pytorch_model", "pytorch_model_fsdp"},
                                                      [&](size_t i) { return directory.model(i); }));
  CKPT_ASSIGN(const size_t optimizers,
              directory.take_all({"optimizer"}, [&](size_t i) { return directory.optimizer(i); }));
  if (models == 0 && !directory.has_folder_of_weights())
    return Status(CKPT_INCOMPLETE,
                  strformat("{} has {}, but no model: none of model.safetensors, pytorch_model.bin, "
                            "pytorch_model_fsdp.bin, pytorch_model_fsdp_0 and adapter_model.safetensors is there",
                            path, optimizers != 0 ? "an optimizer" : "random states"))
        .with("path", path);
  return directory.take();
}

bool is_accelerate(const Candidate& candidate) {
  if (!candidate.is_directory) return false;
  return std::ranges::any_of(names_in_directory(candidate.path, candidate.folder), [](const std::string& name) {
    const bool is_random = name.starts_with(kRandom) && name.ends_with(kPickle);
    return is_random || name == "optimizer.bin" || name == "optimizer_0_rank0.bin" || name == "pytorch_model_fsdp_0";
  });
}

Result<ForeignCheckpoint> read_accelerate(const std::string& path, const ReadOptions& options) {
  CKPT_ASSIGN(std::vector<StatePart> parts, read_prepared(path, options));
  Directory directory(path, options);
  CKPT_TRY(directory
               .take_all({"scheduler"},
                         [&](size_t i) {
                           return directory.file(numbered("scheduler", i), numbered("scheduler", i) + ".bin");
                         })
               .status());
  for (const char* stem : {"sampler", "dl_state_dict"}) CKPT_TRY(directory.take_any(stem));
  CKPT_TRY(directory.file("scaler", "scaler.pt").status());
  CKPT_TRY(directory
               .take_all({"custom_checkpoint"},
                         [&](size_t i) {
                           const std::string key = strformat("custom_checkpoint_{}", i);
                           return directory.file(key, key + std::string(kPickle));
                         })
               .status());
  CKPT_TRY(directory.random_states());
  std::ranges::move(directory.take(), std::back_inserter(parts));
  CKPT_ASSIGN(ForeignCheckpoint all, combine("accelerate", std::move(parts)));
  keep_file_names(all, path);
  return all;
}

}  // namespace ckpt::interop
