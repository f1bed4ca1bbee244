#include "interop/src/map/change.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/call_options.h"
#include "device/convert.h"
#include "interop/src/json.h"
#include "interop/src/map/computed.h"
#include "interop/src/map/find.h"
#include "interop/src/unpacked.h"

namespace ckpt::interop {

namespace {

constexpr uint64_t kMaxConfig = 4 << 20;
constexpr size_t kMostTensors = 1 << 20;      // that a mapping makes of fewer
constexpr uint64_t kKeptOfMapped = 64 << 20;  // bytes that were computed and may be wanted again

// A tensor that is to be made of others.
struct Target {
  std::string name;
  const Rule* rule = nullptr;   // none: as it is
  std::vector<size_t> sources;  // several: a concat
  size_t part = 0;              // of a split
  std::vector<std::string> aliases;
};

Status of_tensor(const Status& status, const std::string& name, const Rule* rule) {
  return Status(status.code(), "tensor " + shown(name) + (rule ? ", " + rule->shown : "") + ": " + status.message())
      .with("tensor", name);
}

class Changer {
 public:
  Changer(ForeignCheckpoint& content, const Changes& changes) : content_(content), changes_(changes) {}

  Status run() {
    if (content_.tree) marks_ = torch_marks(*content_.tree);
    CKPT_TRY(choose());
    CKPT_TRY(check_rules());
    CKPT_TRY(make_all());
    if (content_.tree) {
      CKPT_ASSIGN(content_.tree, changed_tree(*content_.tree, names_, changes_.selection, &found_));
    }
    CKPT_TRY(check_globs(changes_.selection.exclude, "exclude: nothing that is there, nor a place above it,"));
    content_.tensors = std::move(out_);
    if (changes_.mapping) keep_attributes();
    return Ok();
  }

 private:
  // ---- what each tensor becomes ----

  Status choose() {
    const size_t most = std::max<size_t>(kMostTensors, 4 * content_.tensors.size());
    for (size_t i = 0; i < content_.tensors.size(); i++) {
      const std::string& name = content_.tensors[i].name;
      if (name.starts_with(kAliasMemory)) {
        targets_.push_back({name, nullptr, {i}, 0, {}});
        continue;
      }
      std::vector<std::string>& now = names_[name];
      changes_.selection.note(name, &found_);
      if (!changes_.selection.keeps(name)) continue;
      if (!changes_.mapping) {
        leave(i, &now);
        continue;
      }
      CKPT_TRY(apply_rules(i, &now));
      if (targets_.size() > most)
        return Status(CKPT_UNSUPPORTED, strformat("{}: more than {} tensors of {}", changes_.mapping->name, most,
                                                  content_.tensors.size()));
    }
    return check_globs(changes_.selection.only, "only: no tensor, nor a place above one,");
  }

  Status check_globs(const std::vector<std::string>& globs, const char* what) const {
    for (const std::string& glob : globs)
      if (changes_.strict && !found_.contains(glob))
        return Status(CKPT_NOT_FOUND, strformat("option {} fits {}", what, shown(glob))).with("found", glob);
    return Ok();
  }

  void leave(size_t source, std::vector<std::string>* now) {
    const std::string& name = content_.tensors[source].name;
    targets_.push_back({name, nullptr, {source}, 0, {}});
    *now = {name};
  }

  Status apply_rules(size_t source, std::vector<std::string>* now) {
    const std::string& whole = content_.tensors[source].name;
    if (!whole.starts_with(changes_.at)) {
      leave(source, now);
      return Ok();
    }
    const std::string name = whole.substr(changes_.at.size());
    for (const Rule& rule : changes_.mapping->rules)
      for (size_t k = 0; k < rule.from.size(); k++) {
        const std::optional<Captures> captures = rule.from[k].match(name);
        if (!captures) continue;
        used_.insert(&rule);
        add(rule, source, k, *captures, now);
        return Ok();
      }
    switch (changes_.unmatched.value_or(changes_.mapping->unmatched)) {
      case Unmatched::kDrop:
        return Ok();
      case Unmatched::kKeep:
        leave(source, now);
        return Ok();
      case Unmatched::kError:
        break;
    }
    return Status(CKPT_MISMATCH, changes_.mapping->name + ": no rule is for tensor " + shown(name) +
                                     (is_wrapped(name) ? "; option prefixes=auto takes wrappers' words off names" : ""))
        .with("tensor", name);
  }

  void add(const Rule& rule, size_t source, size_t position, const Captures& captures, std::vector<std::string>* now) {
    if (rule.to.empty()) return;
    if (rule.from.size() > 1) {
      // The target stands where the first of its sources stood.
      const std::string name = changes_.at + rule.to[0].expand(captures);
      const auto [group, is_new] = groups_.try_emplace({&rule, name}, targets_.size());
      if (is_new) {
        targets_.push_back({name, &rule, std::vector<size_t>(rule.from.size(), SIZE_MAX), 0, {}});
        *now = {name};
      }
      targets_[group->second].sources[position] = source;
      return;
    }
    for (size_t k = 0; k < rule.to.size(); k++) {
      Target target{changes_.at + rule.to[k].expand(captures), &rule, {source}, k, {}};
      now->push_back(target.name);
      for (const Pattern& alias : rule.aliases) {
        target.aliases.push_back(changes_.at + alias.expand(captures));
        now->push_back(target.aliases.back());
      }
      targets_.push_back(std::move(target));
    }
  }

  Status check_rules() const {
    if (!changes_.mapping) return Ok();
    for (const Rule& rule : changes_.mapping->rules)
      if (changes_.strict && !rule.optional && !rule.to.empty() && !used_.contains(&rule))
        return Status(CKPT_NOT_FOUND, changes_.mapping->name + ": " + rule.shown +
                                          " finds no tensor; is the mapping for this model? (\"optional\" lets it)")
            .with("found", rule.from[0].text());
    for (const Target& target : targets_)
      for (size_t k = 0; k < target.sources.size(); k++)
        if (target.sources[k] == SIZE_MAX)
          return Status(CKPT_INCOMPLETE, target.rule->shown + ": tensor " + shown(target.name) +
                                             " needs one that is not there, as " + shown(target.rule->from[k].text()))
              .with("tensor", target.name);
    return Ok();
  }

  // ---- making them ----

  Status make_all() {
    place_.assign(content_.tensors.size(), ForeignTensor::kNoTarget);
    computed_ = std::make_unique<ComputedFile>();
    for (const ForeignTensor& tensor : content_.tensors)
      for (const ForeignPiece& piece : tensor.pieces)
        if (!tensor.is_alias() && add_overflows(in_files_, piece.bytes.size, &in_files_)) in_files_ = UINT64_MAX;
    for (const Target& target : targets_) {
      const size_t place = out_.size();
      const Status status = make(target);
      if (!status.ok()) return of_tensor(status, content_.tensors[target.sources[0]].name, target.rule);
      for (const std::string& alias : target.aliases) add_alias(alias, place);
    }
    drop_unused_memory();
    std::unordered_set<std::string_view> names;
    for (const ForeignTensor& tensor : out_) {
      if (tensor.name.empty() || tensor.name.size() > kMaxName)
        return Status(CKPT_FORMAT, "a name of " + std::to_string(tensor.name.size()) + " bytes");
      if (!names.insert(tensor.name).second)
        return Status(CKPT_FORMAT, "two tensors would be called " + shown(tensor.name)).with("tensor", tensor.name);
    }
    return place_computed();
  }

  // Only now its size is known.
  Status place_computed() {
    if (computed_->size() == 0) return Ok();
    CKPT_ASSIGN(auto file, RemoteFile::make(std::move(computed_), "mapped tensors", kKeptOfMapped));
    const size_t number = content_.files.add("", InputFile(std::move(file)));
    for (ForeignTensor& tensor : out_)
      for (ForeignPiece& piece : tensor.pieces)
        if (piece.bytes.size != 0 && piece.bytes.file == SIZE_MAX) piece.bytes.file = number;
    return Ok();
  }

  Status make(const Target& target) {
    const ForeignTensor& first = content_.tensors[target.sources[0]];
    CKPT_ASSIGN(const std::vector<ComputedPart> parts, parts_of(target));
    uint16_t dtype = first.dtype;
    if (target.rule && target.rule->cast) dtype = *target.rule->cast;
    const bool may_cast = changes_.cast && device::convertible(dtype, *changes_.cast);
    if (may_cast && !target.name.starts_with(kAliasMemory)) dtype = *changes_.cast;
    // What was a view of memory that is no more is written out where strides tell how it lay.
    const bool lost = first.is_alias() && place_[first.target] == ForeignTensor::kNoTarget && first.pieces[0].strides;
    if (parts.size() == 1 && dtype == first.dtype && parts[0].view.is_identity() && !lost) {
      keep(target, first);
      return Ok();
    }
    CKPT_TRY(check_marks(target, parts));
    ForeignTensor tensor;
    tensor.name = target.name;
    tensor.dtype = dtype;
    CKPT_ASSIGN(tensor.shape, shape_of(parts));
    tensor.attributes = first.attributes;
    tensor.buckets = first.buckets;
    ForeignPiece& piece = tensor.pieces.emplace_back();
    piece.rank = first.pieces[0].rank;
    const bool same_bits = parts.size() == 1 && dtype == first.dtype && !lost;
    if (!(same_bits && changes_.views && point(parts[0], tensor.shape, &piece))) {
      CKPT_ASSIGN(piece.bytes, computed_->add(first.dtype, dtype, tensor.shape, parts, content_.files));
      // A view may repeat elements (a stride of 0): changed, each would be written.
      if (computed_->size() > most_unpacked(in_files_))
        return Status(CKPT_UNSUPPORTED, strformat("it repeats elements, and changed it would take {} bytes of the {} "
                                                  "that the files have",
                                                  computed_->size(), in_files_))
            .with("found", computed_->size());
    }
    out_.push_back(std::move(tensor));
    return Ok();
  }

  TorchMarks marks_of(size_t source) const {
    const auto found = marks_.find(content_.tensors[source].name);
    return found == marks_.end() ? TorchMarks() : found->second;
  }

  // The record that says what torch makes of the elements goes with the first source, unchanged.
  Status check_marks(const Target& target, const std::vector<ComputedPart>& parts) const {
    const TorchMarks first = marks_of(target.sources[0]);
    if (first.quantized && !(parts.size() == 1 && parts[0].view.is_identity()))
      return Status(CKPT_UNSUPPORTED, "it is quantized: its scales would not follow its elements");
    for (const size_t source : target.sources) {
      const TorchMarks marks = marks_of(source);
      if (marks == first) continue;
      const size_t turned = first.any() ? target.sources[0] : source;
      return Status(CKPT_UNSUPPORTED, "torch " + marks_of(turned).verb() + ' ' +
                                          ckpt::in_quotes(content_.tensors[turned].name) +
                                          " alone when it uses it; one tensor is all turned or not at all");
    }
    return Ok();
  }

  // As it is, but for its name. What shared memory shares it, as long as its target is as it was, too.
  void keep(const Target& target, const ForeignTensor& from) {
    ForeignTensor tensor = from;
    tensor.name = target.name;
    if (tensor.is_alias()) {
      tensor.target = place_[tensor.target];
      if (tensor.target == ForeignTensor::kNoTarget) tensor.target_offset = 0;
    } else {
      place_[target.sources[0]] = out_.size();
    }
    out_.push_back(std::move(tensor));
  }

  void add_alias(const std::string& name, size_t place) {
    ForeignTensor tensor = out_[place];
    tensor.name = name;
    if (!tensor.is_alias()) {
      tensor.target = place;
      tensor.target_offset = 0;
      tensor.target_strides = row_major(tensor.shape);
    }
    out_.push_back(std::move(tensor));
  }

  // Shared memory of which nobody is a view any more.
  void drop_unused_memory() {
    std::set<size_t> used;
    for (const ForeignTensor& tensor : out_)
      if (tensor.is_alias()) used.insert(tensor.target);
    std::vector<size_t> moved(out_.size());
    std::vector<ForeignTensor> kept;
    for (size_t i = 0; i < out_.size(); i++) {
      moved[i] = kept.size();
      if (!out_[i].name.starts_with(kAliasMemory) || used.contains(i)) kept.push_back(std::move(out_[i]));
    }
    for (ForeignTensor& tensor : kept)
      if (tensor.is_alias()) tensor.target = moved[tensor.target];
    out_ = std::move(kept);
  }

  // ---- views ----

  Result<uint64_t> size(const std::string& expression) const { return changes_.variables.evaluate(expression); }

  Status operate(View& view, const std::vector<Operation>& ops) const {
    for (const Operation& operation : ops) {
      if (const auto* rearrange = std::get_if<Rearrange>(&operation)) {
        CKPT_TRY(view.rearrange(*rearrange, [&](const std::string& word) { return changes_.variables.size_of(word); }));
        continue;
      }
      const Narrow& narrow = std::get<Narrow>(operation);
      CKPT_ASSIGN(const uint64_t begin, size(narrow.begin));
      CKPT_ASSIGN(const uint64_t count, size(narrow.size));
      CKPT_TRY(view.narrow(narrow.axis, begin, count));
    }
    return Ok();
  }

  // Sizes along a dimension of `extent` elements.
  Result<std::vector<uint64_t>> sizes_of(const Cut& cut, uint64_t extent) const {
    std::vector<uint64_t> sizes;
    uint64_t known = 0, shares = 0;
    for (const std::string& expression : cut.sizes) {
      uint64_t one = 0;
      if (expression == "*") {
        shares++;
      } else {
        CKPT_ASSIGN(one, size(expression));
      }
      if (add_overflows(known, one, &known) || known > extent)
        return Status(CKPT_MISMATCH, strformat("dimension {} has {} elements, less than the sizes", cut.axis, extent));
      sizes.push_back(one);
    }
    const uint64_t rest = extent - known;
    if (shares == 0 ? rest != 0 : rest % shares != 0)
      return Status(CKPT_MISMATCH,
                    strformat("dimension {} has {} elements, which the sizes do not make up", cut.axis, extent));
    for (size_t i = 0; i < sizes.size(); i++)
      if (cut.sizes[i] == "*") sizes[i] = rest / shares;
    return sizes;
  }

  Result<std::vector<ComputedPart>> parts_of(const Target& target) {
    std::vector<ComputedPart> parts;
    uint64_t at = 0;
    const int axis = target.rule && target.rule->cut ? target.rule->cut->axis : 0;
    for (const size_t source : target.sources) {
      const ForeignTensor& from = content_.tensors[source];
      ComputedPart part{&from, View::of(from.shape), axis, at};
      if (target.rule && target.rule->to.size() > 1) CKPT_TRY(split(*target.rule->cut, target.part, &part.view));
      if (target.rule) CKPT_TRY(operate(part.view, target.rule->ops));
      if (target.sources.size() > 1) {
        if (axis >= part.view.ndim()) return Status(CKPT_MISMATCH, strformat("no dimension {}", axis));
        at += part.view.extent(axis);
      }
      parts.push_back(std::move(part));
    }
    if (target.sources.size() > 1) CKPT_TRY(check_concat(*target.rule->cut, parts, at));
    return parts;
  }

  Status split(const Cut& cut, size_t part, View* view) {
    if (cut.axis >= view->ndim()) return Status(CKPT_MISMATCH, strformat("no dimension {}", cut.axis));
    const uint64_t extent = view->extent(cut.axis);
    // The parts of a tensor come one after another.
    if (split_.cut != &cut || split_.extent != extent) {
      split_.cut = nullptr;
      CKPT_ASSIGN(split_.sizes, sizes_of(cut, extent));
      split_.begins.clear();
      for (uint64_t begin = 0; const uint64_t size : split_.sizes)
        split_.begins.push_back(std::exchange(begin, begin + size));
      split_.cut = &cut;
      split_.extent = extent;
    }
    return view->narrow(cut.axis, split_.begins[part], split_.sizes[part]);
  }

  Status check_concat(const Cut& cut, const std::vector<ComputedPart>& parts, uint64_t extent) const {
    Shape first = parts[0].view.shape();
    for (const ComputedPart& part : parts) {
      Shape shape = part.view.shape();
      if (shape.ndim == first.ndim) shape[cut.axis] = first[cut.axis];
      if (shape != first || part.source->dtype != parts[0].source->dtype)
        return Status(CKPT_MISMATCH,
                      strformat("{} of {} and {} of {} are not put together", part.source->name,
                                to_text(part.source->shape), parts[0].source->name, to_text(parts[0].source->shape)));
    }
    if (cut.sizes.empty()) return Ok();
    CKPT_ASSIGN(const std::vector<uint64_t> sizes, sizes_of(cut, extent));
    for (size_t i = 0; i < parts.size(); i++)
      if (sizes[i] != parts[i].view.extent(cut.axis))
        return Status(CKPT_MISMATCH, strformat("{} has {} elements in dimension {}, expected {}", parts[i].source->name,
                                               parts[i].view.extent(cut.axis), cut.axis, sizes[i]));
    return Ok();
  }

  static Result<Shape> shape_of(const std::vector<ComputedPart>& parts) {
    Shape shape = parts[0].view.shape();
    if (shape.ndim > kMaxNdim) return Status(CKPT_UNSUPPORTED, "more than 16 dimensions");
    if (parts.size() > 1) shape[parts[0].axis] = parts.back().at + parts.back().view.extent(parts.back().axis);
    return shape;
  }

  // Where a part of one source, or its dimensions in another order, lies in its file; false where strides cannot tell.
  static bool point(const ComputedPart& part, const Shape& shape, ForeignPiece* piece) {
    const ForeignPiece* whole = part.source->whole();
    const int bits = dtype_bits(part.source->dtype);
    uint64_t elements;
    count_elements(shape.span(), &elements);
    if (!whole || bits % 8 != 0 || elements == 0) return false;
    const Strides from = whole->strides.value_or(row_major(part.source->shape));
    Strides strides = row_major(shape);
    uint64_t first = 0, last = 0;
    for (int i = 0; i < shape.ndim; i++) {
      const View::Axis& axis = part.view.axes()[static_cast<size_t>(i)];
      if (axis.size() > 1) return false;
      if (axis.empty()) continue;
      strides[static_cast<size_t>(i)] = static_cast<int64_t>(axis[0].step) * from[static_cast<size_t>(axis[0].dim)];
      last += (axis[0].extent - 1) * static_cast<uint64_t>(strides[static_cast<size_t>(i)]);
    }
    for (int i = 0; i < part.view.start().ndim; i++)
      first += part.view.start()[i] * static_cast<uint64_t>(from[static_cast<size_t>(i)]);
    const uint64_t width = static_cast<uint64_t>(bits) / 8;
    piece->bytes = {whole->bytes.file, whole->bytes.offset + first * width, (last + 1) * width};
    if (!is_row_major(shape, strides)) piece->strides = strides;
    return true;
  }

  void keep_attributes() {
    content_.attributes.emplace_back(kMapAttr, changes_.mapping->name);
    StringMap sizes;
    for (const auto& [name, value] : changes_.variables.values()) sizes.emplace_back(name, std::to_string(value));
    content_.attributes.emplace_back(kMapSizesAttr, json_of(sizes));
  }

  ForeignCheckpoint& content_;
  const Changes& changes_;
  std::vector<Target> targets_;
  std::map<std::pair<const Rule*, std::string>, size_t> groups_;
  std::set<const Rule*> used_;
  std::set<std::string> found_;  // globs that mean something
  NewNames names_;
  std::vector<size_t> place_;  // in out_, of tensors that are as they were
  std::vector<ForeignTensor> out_;
  std::map<std::string, TorchMarks> marks_;
  std::unique_ptr<ComputedFile> computed_;
  uint64_t in_files_ = 0;  // bytes of all tensors
  struct {
    const Cut* cut = nullptr;
    uint64_t extent = 0;
    std::vector<uint64_t> sizes, begins;
  } split_;  // the last one
};

std::vector<std::string> comma_list(const std::string& text) {
  std::vector<std::string> items;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end != at) items.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return items;
}

bool fits_any(const std::vector<std::string>& globs, std::string_view name) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return fits_place(glob, name); });
}

struct Config {
  std::string path, text;
};
Result<Config> read_config(const std::string& path, const Folder& folder) {
  CKPT_ASSIGN(const InputFile file, InputFile::open_whole(path, kMaxConfig, folder));
  return Config{path, std::string(as_text(file.addresses()))};
}

// config.json of Hugging Face, or Meta's params.json, beside the tensors; empty where there is none. A web server may
// answer anything to who asks for a file that is not there.
Result<Config> config_beside(const std::string& path, const Folder& folder) {
  if (store::is_web_url(path)) return Config{};
  bool inside = false;
  if (folder) {
    CKPT_ASSIGN(inside, folder->find_kind());
  } else {
    inside = is_directory(path, folder);
  }
  const size_t slash = path.rfind('/');
  const std::string directory = inside ? path + '/' : slash == path.npos ? "" : path.substr(0, slash + 1);
  for (const char* name : {"config.json", "params.json"}) {
    if (!folder && !is_file(directory + name, folder)) continue;
    Result<Config> config = read_config(directory + name, folder);
    if (config.status().code() != CKPT_NOT_FOUND) return config;
  }
  return Config{};
}

}  // namespace

bool Selection::keeps(std::string_view name) const {
  return (only.empty() || fits_any(only, name)) && !fits_any(exclude, name);
}

void Selection::note(std::string_view name, std::set<std::string>* found) const {
  for (const auto* globs : {&only, &exclude})
    for (const std::string& glob : *globs)
      if (!found->contains(glob) && fits_any({glob}, name)) found->insert(glob);
}

template <typename CallOptions>
Result<Changes> changes_of(const CallOptions& options, const std::string& beside, const Folder& folder) {
  Changes changes;
  changes.selection = {comma_list(options.only), comma_list(options.exclude)};
  if (options.cast != "none") changes.cast = static_cast<uint16_t>(dtype_find(options.cast));
  changes.at = options.map_at;
  changes.strict = options.strict != "none";
  if (options.strict != "missing") changes.unmatched = changes.strict ? Unmatched::kError : Unmatched::kKeep;
  if (!changes.at.empty()) changes.at += '/';
  if (options.map.empty()) return changes;
  CKPT_ASSIGN(Mapping mapping, find_mapping(options.map));
  for (const auto& [variable, expressions] : mapping.variables) changes.variables.define(variable, expressions);
  if (options.map_back == 1) {
    CKPT_ASSIGN(mapping, mapping.backwards());
  } else if (options.map_back == 2) {
    CKPT_ASSIGN(changes.back, mapping.backwards());
  }
  changes.mapping = std::move(mapping);
  const std::string& config = options.config;
  if (config.empty() && beside.empty()) return changes;
  const bool in_directory = config.empty() || is_directory(config, nullptr);
  CKPT_ASSIGN(const Config found, config.empty() ? config_beside(beside, folder)
                                  : in_directory ? config_beside(config, nullptr)
                                                 : read_config(config, nullptr));
  if (!found.path.empty()) CKPT_TRY(changes.variables.use_config(found.text, found.path));
  return changes;
}
template Result<Changes> changes_of(const ImportOptions&, const std::string&, const Folder&);
template Result<Changes> changes_of(const ExportOptions&, const std::string&, const Folder&);
template Result<Changes> changes_of(const FileOptions&, const std::string&, const Folder&);

// The names and shapes that a mapping gave, mapped backwards, must be those before; but for what it leaves out.
static Status check_back(const ForeignCheckpoint& content, const Changes& changes,
                         const std::map<std::string, Shape>& before) {
  ForeignCheckpoint copy;
  copy.files = content.files;
  copy.tensors = content.tensors;
  Changes back = changes;
  back.mapping = std::exchange(back.back, std::nullopt);
  back.selection = {};
  CKPT_TRY(change(copy, back));
  std::map<std::string, Shape> after;
  for (const ForeignTensor& tensor : copy.tensors) after[tensor.name] = tensor.shape;
  for (const auto& [name, shape] : after) {
    const auto found = before.find(name);
    if (found != before.end() && found->second == shape) continue;
    return Status(CKPT_MISMATCH,
                  back.mapping->name + " gives tensor " + shown(name) + " of " + to_text(shape) +
                      (found == before.end() ? ", which was not there" : "; it was " + to_text(found->second)))
        .with("tensor", name);
  }
  for (const auto& [name, shape] : before)
    if (!after.contains(name) && !name.starts_with(kAliasMemory) && name.starts_with(changes.at) &&
        !changes.mapping->drops(std::string_view(name).substr(changes.at.size())))
      return Status(CKPT_MISMATCH, back.mapping->name + " does not give tensor " + shown(name)).with("tensor", name);
  return Ok();
}

Status change(ForeignCheckpoint& content, const Changes& changes) {
  if (changes.empty()) return Ok();
  std::map<std::string, Shape> before;
  if (changes.back)
    for (const ForeignTensor& tensor : content.tensors)
      if (changes.selection.keeps(tensor.name)) before[tensor.name] = tensor.shape;
  CKPT_TRY(Changer(content, changes).run());
  return changes.back ? check_back(content, changes, before) : Ok();
}

}  // namespace ckpt::interop
