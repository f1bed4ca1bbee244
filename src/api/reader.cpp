// ckpt_reader: an immutable view of one checkpoint.
#include "api/handles.h"
#include "base/parallel.h"
#include "checkpoint/line.h"
#include "format/names.h"
#include "maintain/copy.h"
#include "maintain/diff.h"

using namespace ckpt;
using namespace ckpt::api;
using checkpoint::Checkpoint;

static Status no_such(const char* what, const char* name) {
  return error_about(CKPT_NOT_FOUND, name, strformat("{} \"{}\": not in the checkpoint", what, name));
}

ckpt_status ckpt_reader_open(ckpt_reader** out, const ckpt_store* store, const char* selector,
                             const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out || !store || !selector) return null_status("out, store or selector");
    if (store->forked()) return forked_status();
    CKPT_TRY(refuse_job(options));
    const ReaderOptions given = reader_options(options_of(options));
    const auto open = [kept = ckpt_store(*store), asked = std::string(selector), given](Job&) {
      return Checkpoint::open(kept.store, {asked, given.run, given.on_damaged == "error"},
                              resolve_threads(given.threads), kept.mirror);
    };
    CKPT_ASSIGN(auto checkpoint,
                make_apart<std::shared_ptr<Checkpoint>>(std::make_shared<Job>(), given.timeout_ms, open));
    *out = new ckpt_reader{{}, std::move(checkpoint), store->cache_trouble};
    return Ok();
  });
}

void ckpt_reader_free(ckpt_reader* reader) { release_apart(reader); }

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
    const Status trouble = reader->cache_trouble ? reader->cache_trouble->first() : Ok();
    if (!trouble.ok()) report.add(CKPT_FINDING_NO_CACHE, trouble.code(), "", trouble.message());
    *out = new_report(std::move(report));
    return Ok();
  });
}

// ---- tensors ----

// Sets every field. The numbers of a page were checked when it was read, so nothing can overflow here.
static void describe(const Checkpoint::Named& named, ckpt_tensor_info* info) {
  const checkpoint::TensorRef& tensor = named.tensor;
  const auto extents = named.extents();
  info->struct_size = sizeof *info;
  info->dtype = tensor.dtype();
  info->ndim = static_cast<int32_t>(extents.size());
  // In pieces of four, which become plain stores: one memset of all would cost as much as everything else here.
  for (size_t i = 0; i < CKPT_MAX_NDIM; i += 4) std::memset(info->shape + i, 0, 4 * sizeof info->shape[0]);
  for (size_t i = 0; i < extents.size(); i++) info->shape[i] = static_cast<int64_t>(extents[i]);
  uint64_t elements;
  count_elements(extents, &elements);
  count_bytes(elements, tensor.dtype(), &info->bytes);
  const fb::Holding& holding = tensor.page->holding_of(*tensor.tensor);
  const bool alias = named.alias != nullptr;
  info->name = alias ? named.alias_page->c_text(named.alias->name()) : tensor.page->c_text(tensor.tensor->name());
  info->alias_of = alias ? named.alias_page->c_text(named.alias->target()) : nullptr;
  info->segment_count = alias ? 0 : holding.segment_count();
  info->stored_bytes = alias ? 0 : holding.stored_bytes();
}

// A caller that lists a million tensors passes a record of our size: it is filled in place.
static Status put_tensor(const Checkpoint::Named& named, ckpt_tensor_info* out) {
  ckpt_tensor_info info;
  bool in_place = out && out->struct_size == sizeof info;
  describe(named, in_place ? out : &info);
  return in_place ? Ok() : put_info(info, out);
}

uint64_t ckpt_reader_tensor_count(const ckpt_reader* reader) { return reader ? reader->checkpoint->name_count() : 0; }

ckpt_status ckpt_reader_tensor_at(const ckpt_reader* reader, uint64_t index, ckpt_tensor_info* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    uint64_t count = reader->checkpoint->name_count();
    if (index >= count) return Status(CKPT_NOT_FOUND, strformat("tensor {} of {}", index, count));
    CKPT_ASSIGN(Checkpoint::Named named, reader->checkpoint->named_at(index));
    return put_tensor(named, out);
  });
}

ckpt_status ckpt_reader_tensor_find(const ckpt_reader* reader, const char* name, ckpt_tensor_info* out,
                                    ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!name) return null_status("name");
    CKPT_ASSIGN(Checkpoint::Named named, reader->checkpoint->find(name));
    if (!named.tensor) return no_such("tensor", name);
    return put_tensor(named, out);
  });
}

ckpt_status ckpt_reader_alias_find(const ckpt_reader* reader, const char* name, ckpt_tensor_desc* view,
                                   ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!name) return null_status("name");
    CKPT_ASSIGN(const Checkpoint::Named named, reader->checkpoint->find(name));
    if (!named.alias) return no_such("alias", name);
    ckpt_tensor_desc desc{};
    desc.dtype = named.tensor.dtype();
    desc.flags = CKPT_TENSOR_STRIDED;
    const bool is_view = named.is_view();
    const auto extents = named.extents();
    desc.ndim = static_cast<int32_t>(extents.size());
    if (is_view) desc.flat_offset = static_cast<int64_t>(named.view()[0]);
    uint64_t stride = 1;
    for (size_t i = extents.size(); i-- > 0; stride *= std::max<uint64_t>(extents[i], 1)) {
      desc.shape[i] = static_cast<int64_t>(extents[i]);
      desc.strides[i] = static_cast<int64_t>(is_view ? named.view()[1 + extents.size() + i] : stride);
    }
    return put_info(desc, view);
  });
}

ckpt_status ckpt_reader_segment_at(const ckpt_reader* reader, const char* tensor, uint32_t number,
                                   ckpt_segment_info* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!tensor) return null_status("tensor");
    CKPT_ASSIGN(const Checkpoint::Named named, reader->checkpoint->find(tensor));
    if (!named.tensor || named.alias) return no_such("tensor", tensor);
    CKPT_ASSIGN(auto pieces, reader->checkpoint->pieces(named.tensor));
    if (number >= pieces.size()) return Status(CKPT_NOT_FOUND, strformat("segment {} of {}", number, pieces.size()));
    const checkpoint::Piece& piece = pieces[number];
    const Region held = piece.held();
    const Box box = held.kind == RegionKind::kBox ? held.box : Box::whole(named.tensor.shape());
    // A piece of a whole tensor is a flat range of it.
    const bool flat =
        held.kind == RegionKind::kFlat || (held.kind == RegionKind::kWhole && piece.segment->count() != box.volume());
    ckpt_segment_info info{};
    info.part = piece.part;
    info.ndim = flat ? -1 : box.ndim();
    info.codec = piece.segment->codec();
    info.filter = piece.segment->filter();
    info.chunk_count = piece.segment->chunk_count();
    for (int i = 0; i < info.ndim; i++) {
      info.offset[i] = static_cast<int64_t>(box.offset[i]);
      info.extent[i] = static_cast<int64_t>(box.extent[i]);
    }
    info.flat_offset = static_cast<int64_t>(piece.segment->start() + (flat ? held.flat_offset : 0));
    info.flat_size = static_cast<int64_t>(piece.segment->count());
    info.part_offset = piece.chunks()[0].offset();
    for (const auto& chunk : piece.chunks()) info.stored_bytes += chunk.stored_size();
    return put_info(info, out);
  });
}

// ---- objects, parts, attributes ----

static ckpt_object_info describe(const checkpoint::ObjectRef& at) {
  const fb::Object& object = *at.object;
  ckpt_object_info info{};
  info.scope = object.scope();
  info.rank = at.rank();
  info.size = object.size();
  info.name = at.page->c_text(object.name());
  info.media_type = at.page->c_text(object.media_type());
  return info;
}

uint64_t ckpt_reader_object_count(const ckpt_reader* reader) { return reader ? reader->checkpoint->object_count() : 0; }

ckpt_status ckpt_reader_object_at(const ckpt_reader* reader, uint64_t index, ckpt_object_info* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    const uint64_t count = reader->checkpoint->object_count();
    if (index >= count) return Status(CKPT_NOT_FOUND, strformat("object {} of {}", index, count));
    CKPT_ASSIGN(checkpoint::ObjectRef object, reader->checkpoint->object_at(index));
    return put_info(describe(object), out);
  });
}

ckpt_status ckpt_reader_object_find(const ckpt_reader* reader, const char* name, uint32_t rank, ckpt_object_info* out,
                                    ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!name) return null_status("name");
    CKPT_ASSIGN(checkpoint::ObjectRef object, reader->checkpoint->find_object(name, rank));
    if (!object.object) return no_such("object", name).with("rank", uint64_t{rank});
    return put_info(describe(object), out);
  });
}

ckpt_status ckpt_reader_part_at(const ckpt_reader* reader, uint32_t number, ckpt_part_info* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    const uint32_t count = reader->checkpoint->summary().part_count;
    if (number >= count) return Status(CKPT_NOT_FOUND, strformat("part {} of {}", number, count));
    CKPT_ASSIGN(fb::Part part, reader->checkpoint->part_record(number));
    ckpt_part_info info{};
    info.rank = part.rank();
    info.bytes = part.size();
    std::snprintf(info.name, sizeof info.name, "%s", format::part_name(number).c_str());
    std::snprintf(info.save_id, sizeof info.save_id, "%s", to_hex(format::id_of(part.save_id())).c_str());
    return put_info(info, out);
  });
}

// The attributes of a tensor or, if `tensor` is null, of the checkpoint.
struct Attrs {
  const format::Page* page = nullptr;
  std::span<const fb::Attr> list;
};
static Result<Attrs> attrs_of(const ckpt_reader* reader, const char* tensor) {
  if (!reader) return null_status("reader");
  Attrs attrs;
  CKPT_ASSIGN(attrs.list, reader->checkpoint->attrs_of(tensor ? tensor : "", &attrs.page));
  return attrs;
}

uint64_t ckpt_reader_attr_count(const ckpt_reader* reader, const char* tensor) {
  uint64_t count = 0;
  (void)guard(nullptr, [&]() -> Status {
    CKPT_ASSIGN(const Attrs attrs, attrs_of(reader, tensor));
    count = attrs.list.size();
    return Ok();
  });
  return count;
}

ckpt_status ckpt_reader_attr_at(const ckpt_reader* reader, const char* tensor, uint64_t number, const char** key,
                                const char** value, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    CKPT_ASSIGN(Attrs attrs, attrs_of(reader, tensor));
    if (number >= attrs.list.size())
      return Status(CKPT_NOT_FOUND, strformat("attribute {} of {}", number, attrs.list.size()));
    if (key) *key = attrs.page->c_text(attrs.list[number].key());
    if (value) *value = attrs.page->c_text(attrs.list[number].value());
    return Ok();
  });
}

const char* ckpt_reader_attr(const ckpt_reader* reader, const char* tensor, const char* key) {
  const char* value = nullptr;
  (void)guard(nullptr, [&]() -> Status {
    CKPT_ASSIGN(const Attrs attrs, attrs_of(reader, tensor));
    for (const auto& attr : attrs.list)
      if (key && !value && attrs.page->text(attr.key()) == key) value = attrs.page->c_text(attr.value());
    return Ok();
  });
  return value;
}

// ---- the whole checkpoint ----

ckpt_status ckpt_reader_map(const ckpt_reader* reader, const char* tensor, const ckpt_options* options,
                            const void** data, uint64_t* size, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!tensor || !data || !size) return null_status("tensor, data or size");
    CKPT_TRY(refuse_job(options));
    const MapOptions given = map_options(options_of(options));
    const auto map = [kept = reader->checkpoint, name = std::string(tensor), given](Job&) {
      return load::map_tensor(*kept, name, given);
    };
    CKPT_ASSIGN(Bytes bytes, make_apart<Bytes>(std::make_shared<Job>(), given.timeout_ms, map));
    checkpoint::note_loaded(reader->checkpoint->summary(), reader->checkpoint->summary().step);
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
    CKPT_TRY(refuse_job(options));
    const VerifyOptions given = verify_options(options_of(options));
    if (given.sample_k > given.sample_n)
      return Status(CKPT_INVALID, strformat("sample {} of {}", given.sample_k, given.sample_n));
    auto handle = new_job();
    handle->job->call->bound(given.timeout_ms);
    CKPT_TRY(handle->job->start(CKPT_JOB_DONE, [kept = reader->checkpoint, given](Job& job) {
      return maintain::verify_checkpoint(*kept, given, job);
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
    const DiffOptions given = diff_options(options_of(options));
    const auto compare = [left = a->checkpoint, right = b->checkpoint, given](Job& job) -> Result<Report> {
      Report report;
      const unsigned threads = resolve_threads(given.threads);
      CKPT_TRY(maintain::diff_checkpoints(*left, *right, given.values, threads, &report, job));
      return report;
    };
    CKPT_ASSIGN(const std::shared_ptr<Job> job, job_for(options));
    CKPT_ASSIGN(Report report, make_apart<Report>(job, given.timeout_ms, compare));
    *out = new ckpt_report{{}, std::move(report)};
    return Ok();
  });
}

ckpt_status ckpt_reader_copy(const ckpt_reader* reader, const ckpt_store* to, const ckpt_options* options,
                             ckpt_report** report, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    CKPT_TRY(usable(to, "to"));
    const CopyOptions given = copy_options(options_of(options));
    const auto copy = [from = reader->checkpoint, into = to->store, given](Job& job) -> Result<Report> {
      Report findings;
      CKPT_TRY(maintain::copy_checkpoint(*from, *into, given, &findings, job));
      Call::settle_current(Ok());  // it is there, however late what was done after that
      return findings;
    };
    CKPT_ASSIGN(const std::shared_ptr<Job> job, job_for(options));
    CKPT_ASSIGN(Report findings, make_apart<Report>(job, given.timeout_ms, copy));
    if (report) *report = new ckpt_report{{}, std::move(findings)};
    return Ok();
  });
}
