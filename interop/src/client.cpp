#include "interop/src/client.h"

#include "base/text.h"
#include "ckpt_layer.h"
#include "tree/json_text.h"

namespace ckpt::interop {

static constexpr size_t kMaxAttr = 1 << 20;

Status status_of(const client::Error& error) {
  Status status(error.status(), error.what());
  for (const auto& [key, value] : error.details()) status = std::move(status).with(key, value);
  return status;
}

// What passed the setter before passes again.
Options options_from(const ckpt_options* given) {
  Options to;
  for (const OptionRow& row : option_rows()) {
    if (int64_t number; ckpt_options_get_int(given, row.key, &number) != 0) (void)to.set_int(row.key, number);
    if (const char* const text = ckpt_options_get_str(given, row.key)) (void)to.set_str(row.key, text);
  }
  return to;
}

template <typename Handle, typename Cloned>
static Result<Handle> clone_by(ckpt_status (*clone)(Cloned**, const Cloned*, ckpt_error**), const Cloned* from) {
  Cloned* own = nullptr;
  ckpt_error* error = nullptr;
  if (const ckpt_status status = clone(&own, from, &error); status != CKPT_OK)
    return status_of(client::Error(status, error));
  return Handle(own);
}

Result<client::Store> clone(const ckpt_store* store) { return clone_by<client::Store>(ckpt_store_clone, store); }
Result<client::Reader> clone(const ckpt_reader* reader) { return clone_by<client::Reader>(ckpt_reader_clone, reader); }

Result<tree::Tree> tree_of(const client::Reader& reader) {
  CKPT_ASSIGN(const client::Tree tree, result(reader.tree()));
  CKPT_ASSIGN(const std::string_view json, result(tree.json()));
  return tree::parse_tree_json(json);
}

std::string place_of(const tree::Tree& tree, uint32_t node) {
  std::string path = tree.path_of(node);
  return path.empty() ? "the root" : path;
}

Result<uint32_t> node_at(const tree::Tree& tree, std::string_view place) {
  uint32_t node = 0;
  for (std::string path; path != place;) {
    std::string there;
    bool found = false;
    for (uint32_t child = tree.first_child(node); child != tree::kNoNode && !found; child = tree[child].next) {
      path = tree.path_of(child);
      found = place.starts_with(path) && (place.size() == path.size() || place[path.size()] == '/');
      if (found) node = child;
      if (there.size() < 200) there += (there.empty() ? "" : ", ") + shown(path);
    }
    if (!found)
      return Status(CKPT_NOT_FOUND, "option at: the state has no " + shown(place) + "; there is " +
                                        (there.empty() ? "nothing below " + place_of(tree, node) : there))
          .with("found", std::string(place));
  }
  return node;
}

Shape shape_of(const ckpt_tensor_info& info) {
  Shape shape;
  shape.ndim = info.ndim;
  for (int i = 0; i < info.ndim; i++) shape[i] = static_cast<uint64_t>(info.shape[i]);
  return shape;
}

ckpt_tensor_desc describe(uint16_t dtype, const Shape& shape) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = dtype;
  desc.ndim = shape.ndim;
  desc.region_kind = CKPT_REGION_WHOLE;
  for (int i = 0; i < shape.ndim; i++) desc.shape[i] = static_cast<int64_t>(shape[i]);
  return desc;
}

ckpt_tensor_desc describe(uint16_t dtype, const Shape& shape, uint64_t begin, uint64_t size) {
  ckpt_tensor_desc desc = describe(dtype, shape);
  desc.region_kind = CKPT_REGION_FLAT;
  desc.flat_offset = static_cast<int64_t>(begin);
  desc.flat_size = static_cast<int64_t>(size);
  return desc;
}

// Cuts are between characters.
static std::string_view next_piece(std::string_view text) {
  if (text.size() <= kMaxAttr) return text;
  size_t end = kMaxAttr;
  while (end > 0 && (text[end] & 0xc0) == 0x80) end--;
  return text.substr(0, end);
}

std::string text_key(const std::string& key, size_t number) {
  return number == 0 ? key : key + '+' + std::to_string(number);
}

Status set_text(client::Save& save, const std::string& key, std::string_view text) {
  for (size_t i = 0; i == 0 || !text.empty(); i++) {
    const std::string piece(next_piece(text));
    text.remove_prefix(piece.size());
    CKPT_TRY(done(save.set_attr(text_key(key, i), piece)));
  }
  return Ok();
}

}  // namespace ckpt::interop
