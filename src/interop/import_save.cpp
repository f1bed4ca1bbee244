#include "interop/import_save.h"

namespace ckpt::interop {

namespace {

constexpr const char* kLocationAttr = "torch.device";

ckpt_tensor_desc describe(const ForeignTensor& tensor) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = tensor.dtype;
  desc.ndim = tensor.shape.ndim;
  desc.region_kind = CKPT_REGION_WHOLE;
  desc.flags = CKPT_TENSOR_STRIDED;
  for (int i = 0; i < tensor.shape.ndim; i++) {
    desc.shape[i] = static_cast<int64_t>(tensor.shape[i]);
    desc.strides[i] = tensor.strides[static_cast<size_t>(i)];
  }
  // Packed elements lie one after another, and take no strides; nor does an empty tensor need any.
  if (dtype_bits(tensor.dtype) < 8 || tensor.data.empty()) desc.flags = 0;
  return desc;
}

}  // namespace

Result<ImportSave> ImportSave::open(const ImportRequest& request, const ImportRank& rank) {
  ImportSave out;
  out.rank_ = rank;
  ckpt_session* session = nullptr;
  CKPT_TRY(call([&](ckpt_error** err) {
    return ckpt_session_open(&session, request.store, rank.rank, rank.world_size, rank.session_string, &request.options,
                             err);
  }));
  out.session_.reset(session);
  ckpt_save* save = nullptr;
  CKPT_TRY(call([&](ckpt_error** err) {
    return ckpt_save_new(&save, session, request.label.c_str(), request.step, &request.options, err);
  }));
  out.save_.reset(save);
  return out;
}

Status ImportSave::add_tensors(const std::vector<ForeignTensor>& tensors) {
  for (const ForeignTensor& tensor : tensors) {
    Status status = tensor.target == ForeignTensor::kNoTarget ? add(tensor) : add_alias(tensor, tensors[tensor.target]);
    if (!status.ok()) return std::move(status).with("tensor", tensor.name);
  }
  return Ok();
}

Status ImportSave::add(const ForeignTensor& tensor) {
  ckpt_tensor_desc desc = describe(tensor);
  // Nobody else has it.
  desc.replica_count = 1;
  desc.replica_group = rank_.rank;
  CKPT_TRY(call([&](ckpt_error** err) {
    return ckpt_save_add_tensor(get(), tensor.name.c_str(), &desc, tensor.data.empty() ? nullptr : tensor.data.data(),
                                tensor.data.size(), CKPT_DEVICE_CPU, 0, err);
  }));
  if (tensor.location.empty()) return Ok();
  return call([&](ckpt_error** err) {
    return ckpt_save_set_attr(get(), tensor.name.c_str(), kLocationAttr, tensor.location.c_str(), err);
  });
}

Status ImportSave::add_alias(const ForeignTensor& tensor, const ForeignTensor& target) {
  ckpt_tensor_desc view = describe(tensor);
  view.flat_offset = static_cast<int64_t>(tensor.target_offset);
  for (int i = 0; i < tensor.shape.ndim; i++) view.strides[i] = tensor.target_strides[static_cast<size_t>(i)];
  const bool whole =
      tensor.shape == target.shape && tensor.data.data() == target.data.data() && tensor.strides == target.strides;
  return call([&](ckpt_error** err) {
    return ckpt_save_add_alias(get(), tensor.name.c_str(), target.name.c_str(), whole ? nullptr : &view, err);
  });
}

Status ImportSave::add_tree(const format::Tree& tree) {
  const std::string json = format::tree_json(tree);
  return call([&](ckpt_error** err) {
    return ckpt_save_add_object(get(), CKPT_TREE_OBJECT, CKPT_TREE_MEDIA_TYPE, CKPT_OBJECT_SHARED, json.data(),
                                json.size(), err);
  });
}

Status ImportSave::set_attr(const char* key, const std::string& value) {
  return call([&](ckpt_error** err) { return ckpt_save_set_attr(get(), nullptr, key, value.c_str(), err); });
}

Status ImportSave::commit(const ImportRequest& request, ckpt_checkpoint_info* info) {
  CKPT_TRY(call([&](ckpt_error** err) { return ckpt_save_run(get(), err); }));
  return describe_result(request, info);
}

Status ImportSave::describe_result(const ImportRequest& request, ckpt_checkpoint_info* info) const {
  if (!info) return Ok();
  return call([&](ckpt_error** err) {
    return ckpt_store_find(request.store, ckpt_save_id(get()), &request.options, info, err);
  });
}

}  // namespace ckpt::interop
