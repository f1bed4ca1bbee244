// The functions of ckpt_file.h.
#include "ckpt_file.h"

#include "api/handles.h"
#include "base/parallel.h"
#include "interop/elements.h"
#include "interop/formats.h"
#include "interop/import.h"
#include "interop/import_run.h"
#include "interop/map/change.h"
#include "interop/read_back.h"

using namespace ckpt;
using namespace ckpt::api;
using namespace ckpt::interop;

// What is kept of files on a server after their CRC-32s were compared, so that they need not be fetched again.
static constexpr uint64_t kKept = 256 << 20;

static ReadOptions reading_options(const Options& options, const Job* job) {
  return {options.integer("verify") != 0, resolve_threads(options.integer("threads")), job};
}

static store::StoreOptions server_options(const Options& options) {
  return {.s3 = {.endpoint = options.str("endpoint"),
                 .region = options.str("region"),
                 .profile = options.str("profile"),
                 .ca_file = options.str("ca_file"),
                 .path_style = options.str("path_style"),
                 .timing = {}},
          .web = {.header = options.str("http_header"), .ca_file = options.str("ca_file"), .timing = {}}};
}

static Result<ForeignCheckpoint> read_path(std::string path, const Options& options, const Job* job, uint64_t keep) {
  ReadOptions reading = reading_options(options, job);
  const store::StoreOptions servers = server_options(options);
  if (RemoteFolder::has(path)) {
    CKPT_ASSIGN(reading.folder, RemoteFolder::make(path, servers, keep));
    path = reading.folder->path();
  }
  CKPT_ASSIGN(const Changes changes, changes_of(options, path, reading.folder));
  CKPT_ASSIGN(ForeignCheckpoint content, read_foreign(path, reading));
  if (options.str("prefixes") == "auto") CKPT_TRY(unwrap_names(content));
  if (!changes.empty()) {
    reading.wants = [&](std::string_view name) {
      return name.starts_with(kAliasMemory) || changes.selection.keeps(name);
    };
    CKPT_TRY(content.find_elements(reading));
    CKPT_TRY(change(content, changes));
  }
  if (content.tree) CKPT_TRY(check_values(*content.tree));
  return content;
}

// Where locks protect nothing, another import may take the run; and a trainer may use the run that was chosen.
static Status explain_fence(Status status, std::string_view run) {
  if (status.code() != CKPT_FENCED) return status;
  return std::move(status).in(
      strformat("another import or a trainer took run \"{}\" meanwhile, and nothing was "
                "imported: import again once it has ended, or into another run (option run)",
                run));
}

static Status import_under(Job& job, const ckpt_store& store, const char* path, ImportRequest& request,
                           ckpt_checkpoint_info* info) {
  const std::string wanted = request.options.is_set("run") ? request.options.str("run") : "";
  CKPT_ASSIGN(ForeignCheckpoint from, read_path(path, request.options, &job, kKept));
  CKPT_TRY(from.find_elements(reading_options(request.options, &job)));
  CKPT_ASSIGN(const ImportTurn turn, take_turn(store.store, wanted, request.options.integer("timeout_ms"), job));
  CKPT_TRY(request.options.set_str("run", turn.run));
  CKPT_TRY(request.options.set_str("purpose", "import"));
  const Borrowed<client::Store> into(&store);
  auto id = import_checkpoint(*into, from, request, job);
  if (!id.ok()) return explain_fence(std::move(id).status(), turn.run);
  if (request.options.integer("verify_after") != 0) {
    CKPT_ASSIGN(const client::Reader saved, result(client::Reader::open(*into, *id, client_options(request.options))));
    CKPT_TRY(compare_import(saved, from, reading_options(request.options, &job)));
  }
  if (!info) return Ok();
  CKPT_ASSIGN(const client::CheckpointInfo found, result(into->find(*id, client_options(request.options))));
  return put_info(found, info);
}

ckpt_status ckpt_import(const ckpt_store* store, const char* path, const char* label, int64_t step,
                        const ckpt_options* options, ckpt_checkpoint_info* info, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!store || !path || !label) return null_status("store, path or label");
    if (store->forked()) return forked_status();
    ImportRequest request{label, step, options_for(options, "import")};
    return run_under(options, [&](Job& job) { return import_under(job, *store, path, request, info); });
  });
}

ckpt_status ckpt_export(const ckpt_reader* reader, const char* path, const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!reader || !path) return null_status("reader or path");
    if (reader->forked()) return forked_status();
    const Borrowed<client::Reader> from(reader);
    return run_under(options, [&](Job& job) -> Status {
      const Options given = options_for(options, "export");
      CKPT_ASSIGN(const State state, State::make(*from, given));
      return export_checkpoint({state, path, given, job});
    });
  });
}

// ---- a file in place ----

struct ckpt_file : Owned {
  ForeignCheckpoint content;
  bool has_data = false;  // of the tensors
  std::unique_ptr<ckpt_tree> tree;
  ReadOptions reading;
  uint64_t last_read = UINT64_MAX;
};

static Status check(const ckpt_file* file) {
  if (!file) return null_status("file");
  return file->forked() ? forked_status() : Ok();
}

// A program has tensors by their addresses: what is in one piece is mapped, or fetched.
static Status map_tensors(ForeignCheckpoint& content, const ReadOptions& options) {
  CKPT_TRY(content.find_elements(options));
  std::vector<FileRange> all;
  for (const ForeignTensor& tensor : content.tensors)
    for (const ForeignPiece& piece : tensor.pieces) {
      CKPT_TRY(content.files.place(piece.bytes).status());
      all.push_back(piece.bytes);
    }
  return content.files.fetch(all);
}

ckpt_status ckpt_file_open(ckpt_file** out, const char* path, const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out || !path) return null_status("out or path");
    CKPT_TRY(refuse_job(options));
    const Options& bag = options_of(options);
    const bool wants_data = bag.integer("tensor_data") != 0;
    CKPT_ASSIGN(ForeignCheckpoint content, read_path(path, bag, nullptr, wants_data ? UINT64_MAX : kKept));
    if (wants_data) CKPT_TRY(map_tensors(content, reading_options(bag, nullptr)));
    auto tree = std::make_unique<ckpt_tree>();
    CKPT_ASSIGN(tree->tree, content.take_tree());
    *out = new ckpt_file{{}, std::move(content), wants_data, std::move(tree), reading_options(bag, nullptr)};
    return Ok();
  });
}

void ckpt_file_free(ckpt_file* file) { release(file); }

const char* ckpt_file_format(const ckpt_file* file) { return file ? file->content.format : ""; }

const char* ckpt_file_left_out(const ckpt_file* file, uint64_t index) {
  return file && index < file->content.left_out.size() ? file->content.left_out[index].c_str() : nullptr;
}

uint64_t ckpt_file_tensor_count(const ckpt_file* file) { return file ? file->content.tensors.size() : 0; }

static ckpt_file_tensor describe(const ckpt_file& file, const ForeignTensor& tensor) {
  const ForeignCheckpoint& content = file.content;
  const ForeignPiece* piece = tensor.whole();
  const Strides strides = piece && piece->strides ? *piece->strides : row_major(tensor.shape);
  const bool has_data = piece && piece->bytes.size != 0 && file.has_data;
  const Bytes data = has_data ? content.files.mapped(piece->bytes) : Bytes();
  ckpt_file_tensor out{};
  out.struct_size = sizeof out;
  out.dtype = tensor.dtype;
  out.ndim = tensor.shape.ndim;
  for (int i = 0; i < tensor.shape.ndim; i++) {
    out.shape[i] = static_cast<int64_t>(tensor.shape[i]);
    out.strides[i] = strides[static_cast<size_t>(i)];
  }
  out.data = data.empty() ? nullptr : data.data();
  out.data_bytes = data.size();
  out.bytes = tensor.bytes();
  out.name = tensor.name.c_str();
  if (!tensor.is_alias()) return out;
  out.alias_of = content.tensors[tensor.target].name.c_str();
  out.alias_offset = static_cast<int64_t>(tensor.target_offset);
  return out;
}

ckpt_status ckpt_file_tensor_at(const ckpt_file* file, uint64_t index, ckpt_file_tensor* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(check(file));
    const std::vector<ForeignTensor>& tensors = file->content.tensors;
    if (index >= tensors.size()) return Status(CKPT_NOT_FOUND, strformat("tensor {} of {}", index, tensors.size()));
    return put_info(describe(*file, tensors[index]), out);
  });
}

ckpt_status ckpt_file_read(ckpt_file* file, uint64_t index, const ckpt_tensor_desc* desc, void* data,
                           uint64_t data_bytes, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(check(file));
    ForeignCheckpoint& content = file->content;
    if (index >= content.tensors.size())
      return Status(CKPT_NOT_FOUND, strformat("tensor {} of {}", index, content.tensors.size()));
    const ForeignTensor& tensor = content.tensors[index];
    auto read = [&]() -> Status {
      CKPT_ASSIGN(const ckpt_tensor_desc full, get_desc(desc));
      device::RegionRequest wanted;
      CKPT_TRY(device::read_desc(full, data, data_bytes, &wanted));
      if (full.region_kind == CKPT_REGION_ROWS) return Status(CKPT_INVALID, "rows are for saves");
      if (wanted.dtype != tensor.dtype || !(wanted.shape == tensor.shape))
        return Status(CKPT_MISMATCH, strformat("expected {} {}, found {} {}", dtype_name(wanted.dtype),
                                               to_text(wanted.shape), dtype_name(tensor.dtype), to_text(tensor.shape)));
      CKPT_TRY(content.find_elements(file->reading));
      // What was spilled for another tensor. With tensor_data=1 the program has addresses into it.
      if (std::exchange(file->last_read, index) != index && !file->has_data) CKPT_TRY(content.files.end_spill());
      return copy_elements(content.files, tensor, wanted, file->has_data);
    };
    Status status = read();
    return status.ok() ? Ok() : std::move(status).in("tensor " + ckpt::quoted(tensor.name)).with("tensor", tensor.name);
  });
}

ckpt_status ckpt_file_tree(const ckpt_file* file, const ckpt_tree** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(check(file));
    if (!out) return null_status("out");
    *out = file->tree.get();
    return Ok();
  });
}
