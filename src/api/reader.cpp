// ckpt_reader: an immutable view of one checkpoint.
#include "api/handles.h"
#include "base/parallel.h"
#include "format/names.h"
#include "maintain/diff.h"

using namespace ckpt;
using namespace ckpt::api;
using checkpoint::Checkpoint;

static Status no_such(const char* what, const char* name) {
  return Status(CKPT_NOT_FOUND, strformat("{} \"{}\": not in the checkpoint", what, name)).with("tensor", name);
}

ckpt_status ckpt_reader_open(ckpt_reader** out, const ckpt_store* store, const char* selector,
                             const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out || !store || !selector) return null_status("out, store or selector");
    if (store->forked()) return forked_status();
    const Options& bag = options_of(options);
    const std::string run = bag.str("run");
    CKPT_ASSIGN(auto checkpoint, Checkpoint::open(store->store, {selector, run, bag.str("on_damaged") == "error"},
                                                  resolve_threads(bag.integer("threads"))));
    *out = new ckpt_reader{{}, std::move(checkpoint)};
    return Ok();
  });
}

void ckpt_reader_free(ckpt_reader* reader) { release(reader); }

ckpt_status ckpt_reader_info(const ckpt_reader* reader, ckpt_checkpoint_info* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    ckpt_checkpoint_info info{};
    checkpoint::fill_info(reader->checkpoint->selection(), &info);
    return put_info(info, out);
  });
}

ckpt_status ckpt_reader_report(const ckpt_reader* reader, ckpt_report** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!out) return null_status("out");
    Report report;
    for (const auto& entry : reader->checkpoint->selection().passed_over)
      report.add(CKPT_FINDING_PASSED_OVER, entry.problem.code(), entry.id,
                 "passed over " + entry.id + ": " + entry.problem.message(), entry.bytes);
    *out = new_report(std::move(report));
    return Ok();
  });
}

// ---- tensors ----

// The numbers of a checkpoint were checked when it was opened, so nothing can overflow here.
static uint64_t stored_bytes(const format::Index& index, const fb::Tensor& tensor, uint64_t bytes) {
  auto segments = index.segments_of(tensor);
  if (segments.size() == 1 && segments[0].codec() == static_cast<uint8_t>(Codec::kRaw)) return bytes;
  uint64_t stored = 0;
  for (const auto& segment : segments)
    for (const auto& chunk : index.chunks_of(segment)) stored += chunk.stored_size();
  return stored;
}

// Sets every field.
static void describe(const Checkpoint& checkpoint, const Checkpoint::Named& named, ckpt_tensor_info* info) {
  const format::Index& index = checkpoint.index();
  const fb::Tensor& tensor = *named.tensor;
  auto extents = index.extents_of(tensor);
  if (named.alias && named.alias->is_view())
    extents = index.numbers.subspan(named.alias->view() + 1, named.alias->ndim());
  info->struct_size = sizeof *info;
  info->dtype = tensor.dtype();
  info->ndim = static_cast<int32_t>(extents.size());
  // In pieces of four, which become plain stores: one memset of all would cost as much as everything else here.
  for (size_t i = 0; i < CKPT_MAX_NDIM; i += 4) std::memset(info->shape + i, 0, 4 * sizeof info->shape[0]);
  for (size_t i = 0; i < extents.size(); i++) info->shape[i] = static_cast<int64_t>(extents[i]);
  uint64_t elements;
  count_elements(extents, &elements);
  count_bytes(elements, tensor.dtype(), &info->bytes);
  info->name = checkpoint.c_text(named.alias ? named.alias->name() : tensor.name());
  info->alias_of = named.alias ? checkpoint.c_text(named.alias->target()) : nullptr;
  info->segment_count = named.alias ? 0 : static_cast<uint32_t>(tensor.segment_count());
  info->stored_bytes = named.alias ? 0 : stored_bytes(index, tensor, info->bytes);
}

// A caller that lists a million tensors passes a record of our size: it is filled in place.
static Status put_tensor(const Checkpoint& checkpoint, const Checkpoint::Named& named, ckpt_tensor_info* out) {
  ckpt_tensor_info info;
  bool in_place = out && out->struct_size == sizeof info;
  describe(checkpoint, named, in_place ? out : &info);
  return in_place ? Ok() : put_info(info, out);
}

uint64_t ckpt_reader_tensor_count(const ckpt_reader* reader) { return reader ? reader->checkpoint->name_count() : 0; }

ckpt_status ckpt_reader_tensor_at(const ckpt_reader* reader, uint64_t index, ckpt_tensor_info* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    uint64_t count = reader->checkpoint->name_count();
    if (index >= count) return Status(CKPT_NOT_FOUND, strformat("tensor {} of {}", index, count));
    return put_tensor(*reader->checkpoint, reader->checkpoint->named_at(index), out);
  });
}

ckpt_status ckpt_reader_tensor_find(const ckpt_reader* reader, const char* name, ckpt_tensor_info* out,
                                    ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!name) return null_status("name");
    auto named = reader->checkpoint->find(name);
    if (!named.tensor) return no_such("tensor", name);
    return put_tensor(*reader->checkpoint, named, out);
  });
}

ckpt_status ckpt_reader_alias_find(const ckpt_reader* reader, const char* name, ckpt_tensor_desc* view,
                                   ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!name) return null_status("name");
    const auto named = reader->checkpoint->find(name);
    if (!named.alias) return no_such("alias", name);
    const format::Index& index = reader->checkpoint->index();
    ckpt_tensor_desc desc{};
    desc.dtype = named.tensor->dtype();
    desc.flags = CKPT_TENSOR_STRIDED;
    const bool is_view = named.alias->is_view();
    const auto extents =
        is_view ? index.numbers.subspan(named.alias->view() + 1, named.alias->ndim()) : index.extents_of(*named.tensor);
    desc.ndim = static_cast<int32_t>(extents.size());
    if (is_view) desc.flat_offset = static_cast<int64_t>(index.numbers[named.alias->view()]);
    uint64_t stride = 1;
    for (size_t i = extents.size(); i-- > 0; stride *= std::max<uint64_t>(extents[i], 1)) {
      desc.shape[i] = static_cast<int64_t>(extents[i]);
      desc.strides[i] =
          static_cast<int64_t>(is_view ? index.numbers[named.alias->view() + 1 + extents.size() + i] : stride);
    }
    return put_info(desc, view);
  });
}

ckpt_status ckpt_reader_segment_at(const ckpt_reader* reader, const char* tensor, uint32_t number,
                                   ckpt_segment_info* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!tensor) return null_status("tensor");
    const format::Index& index = reader->checkpoint->index();
    auto* found = index.find_tensor(tensor);
    if (!found) return no_such("tensor", tensor);
    auto segments = index.segments_of(*found);
    if (number >= segments.size())
      return Status(CKPT_NOT_FOUND, strformat("segment {} of {}", number, segments.size()));
    const auto& segment = segments[number];
    Region region = index.region_of(segment, found->ndim());
    ckpt_segment_info info{};
    info.part = segment.part();
    info.ndim = region.kind == RegionKind::kFlat ? -1 : region.box.ndim();
    info.codec = segment.codec();
    info.filter = segment.filter();
    info.chunk_count = static_cast<uint32_t>(segment.chunk_count());
    for (int i = 0; i < info.ndim; i++) {
      info.offset[i] = static_cast<int64_t>(region.box.offset[i]);
      info.extent[i] = static_cast<int64_t>(region.box.extent[i]);
    }
    info.flat_offset = static_cast<int64_t>(region.flat_offset);
    info.flat_size = static_cast<int64_t>(region.flat_size);
    info.part_offset = index.chunks_of(segment)[0].offset();
    for (const auto& chunk : index.chunks_of(segment)) info.stored_bytes += chunk.stored_size();
    return put_info(info, out);
  });
}

// ---- objects, parts, attributes ----

static ckpt_object_info describe(const Checkpoint& checkpoint, const fb::Object& object) {
  ckpt_object_info info{};
  info.scope = object.scope();
  info.rank = object.rank();
  info.size = object.size();
  info.name = checkpoint.c_text(object.name());
  info.media_type = checkpoint.c_text(object.media_type());
  return info;
}

uint64_t ckpt_reader_object_count(const ckpt_reader* reader) {
  return reader ? reader->checkpoint->index().objects.size() : 0;
}

ckpt_status ckpt_reader_object_at(const ckpt_reader* reader, uint64_t index, ckpt_object_info* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    auto objects = reader->checkpoint->index().objects;
    if (index >= objects.size()) return Status(CKPT_NOT_FOUND, strformat("object {} of {}", index, objects.size()));
    return put_info(describe(*reader->checkpoint, objects[index]), out);
  });
}

ckpt_status ckpt_reader_object_find(const ckpt_reader* reader, const char* name, uint32_t rank, ckpt_object_info* out,
                                    ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!name) return null_status("name");
    const format::Index& index = reader->checkpoint->index();
    for (const auto& object : index.objects)
      if (index.text(object.name()) == name && (object.scope() == CKPT_OBJECT_SHARED || object.rank() == rank))
        return put_info(describe(*reader->checkpoint, object), out);
    return no_such("object", name).with("rank", uint64_t{rank});
  });
}

ckpt_status ckpt_reader_part_at(const ckpt_reader* reader, uint32_t number, ckpt_part_info* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    auto parts = reader->checkpoint->index().parts;
    if (number >= parts.size()) return Status(CKPT_NOT_FOUND, strformat("part {} of {}", number, parts.size()));
    ckpt_part_info info{};
    info.rank = parts[number].rank();
    info.bytes = parts[number].size();
    std::snprintf(info.name, sizeof info.name, "%s", format::part_name(number).c_str());
    std::snprintf(info.save_id, sizeof info.save_id, "%s", to_hex(format::id_of(parts[number].save_id())).c_str());
    return put_info(info, out);
  });
}

uint64_t ckpt_reader_attr_count(const ckpt_reader* reader, const char* tensor) {
  return reader ? reader->checkpoint->index().attrs_of(tensor ? tensor : "").size() : 0;
}

ckpt_status ckpt_reader_attr_at(const ckpt_reader* reader, const char* tensor, uint64_t number, const char** key,
                                const char** value, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    auto attrs = reader->checkpoint->index().attrs_of(tensor ? tensor : "");
    if (number >= attrs.size()) return Status(CKPT_NOT_FOUND, strformat("attribute {} of {}", number, attrs.size()));
    if (key) *key = reader->checkpoint->c_text(attrs[number].key());
    if (value) *value = reader->checkpoint->c_text(attrs[number].value());
    return Ok();
  });
}

const char* ckpt_reader_attr(const ckpt_reader* reader, const char* tensor, const char* key) {
  if (!reader || !key) return nullptr;
  const format::Index& index = reader->checkpoint->index();
  for (const auto& attr : index.attrs_of(tensor ? tensor : ""))
    if (index.text(attr.key()) == key) return reader->checkpoint->c_text(attr.value());
  return nullptr;
}

// ---- the whole checkpoint ----

ckpt_status ckpt_reader_map(const ckpt_reader* reader, const char* tensor, const ckpt_options* options,
                            const void** data, uint64_t* size, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!tensor || !data || !size) return null_status("tensor, data or size");
    const Options& bag = options_of(options);
    CKPT_ASSIGN(Bytes bytes, load::map_tensor(*reader->checkpoint, tensor, bag.integer("verify") != 0,
                                              resolve_threads(bag.integer("threads"))));
    *data = bytes.data();
    *size = bytes.size();
    return Ok();
  });
}

ckpt_status ckpt_reader_verify(const ckpt_reader* reader, const ckpt_options* options, ckpt_job** out,
                               ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!out) return null_status("out");
    const Options& bag = options_of(options);
    std::string mode = bag.str("verify_mode");
    maintain::VerifyOptions settings{.mode = mode == "full"    ? maintain::VerifyMode::kFull
                                             : mode == "quick" ? maintain::VerifyMode::kQuick
                                                               : maintain::VerifyMode::kSample,
                                     .sample_k = static_cast<uint64_t>(bag.integer("sample_k")),
                                     .sample_n = static_cast<uint64_t>(bag.integer("sample_n")),
                                     .threads = resolve_threads(bag.integer("threads"))};
    if (settings.sample_k > settings.sample_n)
      return Status(CKPT_INVALID, strformat("sample {} of {}", settings.sample_k, settings.sample_n));
    auto handle = std::make_unique<ckpt_job>();
    handle->job = std::make_shared<Job>();
    CKPT_TRY(handle->job->start(CKPT_JOB_DONE, [kept = reader->checkpoint, settings](Job& job) {
      return maintain::verify_checkpoint(*kept, settings, job);
    }));
    *out = handle.release();
    return Ok();
  });
}

ckpt_status ckpt_reader_diff(const ckpt_reader* a, const ckpt_reader* b, const ckpt_options* options, ckpt_report** out,
                             ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(a, "a"));
    CKPT_TRY(usable(b, "b"));
    if (!out) return null_status("out");
    auto report = std::make_unique<ckpt_report>();
    const Options& bag = options_of(options);
    CKPT_TRY(maintain::diff_checkpoints(*a->checkpoint, *b->checkpoint, bag.integer("values") != 0,
                                        resolve_threads(bag.integer("threads")), &report->report));
    *out = report.release();
    return Ok();
  });
}
