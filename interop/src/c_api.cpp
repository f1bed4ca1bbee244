// The functions of ckpt_file.h.
#include "ckpt_file.h"

#include "base/caller.h"
#include "base/job.h"
#include "base/parallel.h"
#include "device/descriptor.h"
#include "interop/src/elements.h"
#include "interop/src/formats.h"
#include "interop/src/import.h"
#include "interop/src/map/change.h"
#include "interop/src/outer_call.h"
#include "interop/src/read_back.h"

using namespace ckpt;
using namespace ckpt::interop;

// Runs a call. Lets no exception out.
template <typename Body>
static ckpt_status guard(ckpt_error** err, Body&& body) noexcept {
  const Status status = call_guarded(body);
  if (err) *err = error_of(status);
  return status.code();
}

const char* ckpt_file_version_string(void) { return CKPT_VERSION; }

// What is kept of files on a server after their CRC-32s were compared, so that they need not be fetched again.
static constexpr uint64_t kKept = 256 << 20;

static ReadOptions checks_of(const auto& options, const Job* job) {
  return {options.verify, resolve_threads(options.threads), job};
}

static Result<ForeignCheckpoint> read_path(std::string path, const auto& options, const Job* job, uint64_t keep) {
  ReadOptions reading = checks_of(options, job);
  const store::StoreSettings servers = store::server_settings(options);
  if (RemoteFolder::has(path)) {
    CKPT_ASSIGN(reading.folder, RemoteFolder::make(path, servers, keep));
    path = reading.folder->path();
  }
  CKPT_ASSIGN(const Changes changes, changes_of(options, path, reading.folder));
  CKPT_ASSIGN(ForeignCheckpoint content, read_foreign(path, reading));
  if (options.prefixes == "auto") CKPT_TRY(unwrap_names(content));
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
static Status explain_fence(Status status) {
  const std::string* const run = status.detail("run");
  if (status.code() != CKPT_FENCED || !run) return status;
  return std::move(status).in(
      strformat("another import or a trainer took run \"{}\" meanwhile, and nothing was imported: import again once it "
                "has ended, or into another run (option run)",
                *run));
}

// Own handles of what the caller's have: a thread that is left behind may use them longer than the caller.
struct ImportWork {
  client::Store store;
  std::string path;
  ImportRequest request;
  bool wants_info;
};

static Result<client::CheckpointInfo> import_under(Job& job, ImportWork& work) {
  ImportRequest& request = work.request;
  CKPT_ASSIGN(ForeignCheckpoint read, read_path(work.path, request.options, &job, kKept));
  const Lent<ForeignCheckpoint> lent(std::move(read));  // the save reads its files
  ForeignCheckpoint& from = *lent;
  CKPT_TRY(from.find_elements(checks_of(request.options, &job)));
  client::CheckpointInfo info;
  auto look = [&](const std::string& id) -> Status {
    const client::Options options = reading_options(request.options);
    if (request.options.verify_after) {
      CKPT_ASSIGN(const client::Reader saved, result(client::Reader::open(work.store, id, options)));
      CKPT_TRY(compare_import(saved, from, checks_of(request.options, &job)));
    }
    if (!work.wants_info) return Ok();
    CKPT_ASSIGN(info, result(work.store.find(id, options)));
    return Ok();
  };
  auto id = import_checkpoint(work.store, from, request, job, look);
  if (!id.ok()) return explain_fence(std::move(id).status());
  return info;
}

ckpt_status ckpt_import(const ckpt_store* store, const char* path, const char* label, int64_t step,
                        const ckpt_options* options, ckpt_checkpoint_info* info, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!store || !path || !label) return null_status("store, path or label");
    CKPT_ASSIGN(client::Store own, clone(store));
    CKPT_ASSIGN(const auto call, OuterCall::begin(options));
    const auto work = std::make_shared<ImportWork>(
        ImportWork{std::move(own), path, {label, step, import_options(options_from(options))}, info != nullptr});
    const auto found = std::make_shared<client::CheckpointInfo>();
    const int64_t patience = work->request.options.timeout_ms;
    CKPT_TRY(OuterCall::run(call, patience, [work, found](Job& running) -> Status {
      CKPT_ASSIGN(*found, import_under(running, *work));
      return Ok();
    }));
    return info ? put_info<ckpt_checkpoint_info>(*found, info) : Ok();
  });
}

ckpt_status ckpt_export(const ckpt_reader* reader, const char* path, const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!reader || !path) return null_status("reader or path");
    CKPT_ASSIGN(client::Reader own, clone(reader));
    CKPT_ASSIGN(const auto call, OuterCall::begin(options));
    const auto from = std::make_shared<client::Reader>(std::move(own));
    const ExportOptions given = export_options(options_from(options));
    return OuterCall::run(call, given.timeout_ms, [from, to = std::string(path), given](Job& running) -> Status {
      CKPT_ASSIGN(State state, State::make(*from, given));
      const Lent<State> lent(state);
      return export_checkpoint({state, to, given, running});
    });
  });
}

// ---- a file in place ----

// What is read of a file, which a thread that was left behind may use longer than the handle lives.
struct OpenedFile {
  ForeignCheckpoint content;
  bool has_data = false;  // of the tensors
  std::optional<client::Tree> tree;
  ReadOptions reading;
  int64_t patience_ms = 0;
  std::mutex reading_now;  // a thread that was left behind may still read
  uint64_t last_read = UINT64_MAX;
};
struct ckpt_file : Owned {
  std::shared_ptr<OpenedFile> file;
};

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

static Result<std::shared_ptr<OpenedFile>> open_file(const std::string& path, const FileOptions& options, Job& job) {
  auto opened = std::make_shared<OpenedFile>();
  opened->has_data = options.tensor_data;
  opened->patience_ms = options.timeout_ms;
  opened->reading = checks_of(options, nullptr);
  const ReadOptions reading = checks_of(options, &job);
  CKPT_ASSIGN(opened->content, read_path(path, options, &job, opened->has_data ? UINT64_MAX : kKept));
  if (opened->has_data) CKPT_TRY(map_tensors(opened->content, reading));
  CKPT_ASSIGN(const tree::Tree tree, opened->content.take_tree());
  CKPT_ASSIGN(opened->tree, result(client::Tree::parse(tree::tree_json(tree))));
  return opened;
}

ckpt_status ckpt_file_open(ckpt_file** out, const char* path, const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(check_version());
    if (!out || !path) return null_status("out or path");
    if (ckpt_options_has_job(options) != 0)
      return Status(CKPT_INVALID,
                    "the options have a job, and this call does not work under one (ckpt_options_set_job)");
    const FileOptions given = file_options(options_from(options));
    auto open = [given, from = std::string(path)](Job& job) { return open_file(from, given, job); };
    CKPT_ASSIGN(auto opened,
                make_apart<std::shared_ptr<OpenedFile>>(std::make_shared<Job>(), given.timeout_ms, std::move(open)));
    *out = new ckpt_file{{}, std::move(opened)};
    return Ok();
  });
}

// How long an operation of it may take.
static constexpr int64_t kFreeMs = 2000;

// In a forked child, which must not touch its parent's files, it does nothing.
void ckpt_file_free(ckpt_file* file) {
  if (!file || file->forked()) return;
  (void)guard(nullptr, [&] {
    const std::shared_ptr<ckpt_file> last(file);
    return run_apart(std::make_shared<Job>(), kFreeMs, [own = std::move(last->file)](Job&) mutable {
      own.reset();
      return Ok();
    });
  });
}

const char* ckpt_file_format(const ckpt_file* file) { return file ? file->file->content.format : ""; }

const char* ckpt_file_left_out(const ckpt_file* file, uint64_t index) {
  if (!file) return nullptr;
  const auto& left_out = file->file->content.left_out;
  return index < left_out.size() ? left_out[index].c_str() : nullptr;
}

uint64_t ckpt_file_tensor_count(const ckpt_file* file) { return file ? file->file->content.tensors.size() : 0; }

static ckpt_file_tensor describe(const OpenedFile& file, const ForeignTensor& tensor) {
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

static Result<const ForeignTensor*> tensor_of(const ckpt_file& file, uint64_t index) {
  const std::vector<ForeignTensor>& tensors = file.file->content.tensors;
  if (index < tensors.size()) return &tensors[index];
  return Status(CKPT_NOT_FOUND, strformat("tensor {} of {}", index, tensors.size()));
}

ckpt_status ckpt_file_tensor_at(const ckpt_file* file, uint64_t index, ckpt_file_tensor* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(file, "file"));
    CKPT_ASSIGN(const ForeignTensor* tensor, tensor_of(*file, index));
    return put_info(describe(*file->file, *tensor), out);
  });
}

static Status read_elements(OpenedFile& file, uint64_t index, const device::RegionRequest& wanted, Job& job) {
  std::unique_lock lock(file.reading_now, std::defer_lock);
  {
    const Busy busy("end", "an earlier read of the file");
    lock.lock();
  }
  ForeignCheckpoint& content = file.content;
  ReadOptions reading = file.reading;
  reading.job = &job;
  CKPT_TRY(content.find_elements(reading));
  // What was spilled for another tensor. With tensor_data=1 the program has addresses into it.
  if (std::exchange(file.last_read, index) != index && !file.has_data) CKPT_TRY(content.files.end_spill());
  return copy_elements(content.files, content.tensors[index], wanted, file.has_data);
}

ckpt_status ckpt_file_read(ckpt_file* file, uint64_t index, const ckpt_tensor_desc* desc, void* data,
                           uint64_t data_bytes, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(file, "file"));
    CKPT_ASSIGN(const ForeignTensor* tensor, tensor_of(*file, index));
    auto read = [&]() -> Status {
      ckpt_tensor_desc full;
      CKPT_TRY(get_desc(desc, &full));
      device::RegionRequest wanted;
      CKPT_TRY(device::read_desc(full, data, data_bytes, &wanted));
      if (full.region_kind == CKPT_REGION_ROWS) return Status(CKPT_INVALID, "rows are for saves");
      if (wanted.dtype != tensor->dtype || !(wanted.shape == tensor->shape))
        return Status(CKPT_MISMATCH,
                      strformat("expected {} {}, found {} {}", dtype_name(wanted.dtype), to_text(wanted.shape),
                                dtype_name(tensor->dtype), to_text(tensor->shape)));
      return run_apart(std::make_shared<Job>(), file->file->patience_ms,
                       [own = file->file, index, wanted](Job& job) { return read_elements(*own, index, wanted, job); });
    };
    Status status = read();
    return status.ok() ? Ok()
                       : std::move(status).in("tensor " + ckpt::in_quotes(tensor->name)).with("tensor", tensor->name);
  });
}

ckpt_status ckpt_file_tree(const ckpt_file* file, const ckpt_tree** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(file, "file"));
    if (!out) return null_status("out");
    *out = file->file->tree->get();
    return Ok();
  });
}
