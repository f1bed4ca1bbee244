#include "interop/src/import.h"

#include <algorithm>

#include "base/parallel.h"
#include "interop/src/feed.h"
#include "interop/src/outer_call.h"

namespace ckpt::interop {

namespace {

constexpr int64_t kLongest = 604'800'000;  // the largest value of option timeout_ms: rank 0 waits while we write
constexpr int64_t kLookMs = 20;            // how soon an import hears that it was cancelled

// Of memory that holds a piece's elements.
ckpt_tensor_desc describe_piece(const ForeignTensor& tensor, const ForeignPiece& piece) {
  const Region& region = piece.region;
  ckpt_tensor_desc desc = region.kind == RegionKind::kFlat
                              ? describe(tensor.dtype, tensor.shape, region.flat_offset, region.flat_size)
                              : describe(tensor.dtype, tensor.shape);
  if (region.kind == RegionKind::kBox) {
    desc.region_kind = CKPT_REGION_BOX;
    for (int i = 0; i < tensor.shape.ndim; i++) {
      desc.offset[i] = static_cast<int64_t>(region.box.offset[i]);
      desc.extent[i] = static_cast<int64_t>(region.box.extent[i]);
    }
  }
  // Packed elements lie one after another, and take no strides; nor does an empty tensor need any.
  if (piece.strides && dtype_bits(tensor.dtype) >= 8 && piece.bytes.size != 0) {
    desc.flags = CKPT_TENSOR_STRIDED;
    for (int i = 0; i < tensor.shape.ndim; i++) desc.strides[i] = (*piece.strides)[static_cast<size_t>(i)];
  }
  // Nobody else has it.
  desc.replica_count = 1;
  desc.replica_group = piece.rank;
  return desc;
}

class Importer {
 public:
  Importer(const client::Store& store, ForeignCheckpoint& from, const ImportRequest& request, Job& job)
      : store_(store), from_(from), request_(request), job_(job) {}

  Result<std::string> run() {
    CKPT_ASSIGN(tables_, from_.tables());
    CKPT_TRY(check_views());
    for (const ForeignTensor& tensor : from_.tensors)
      if (!tensor.is_alias()) job_.counters.bytes_total += tensor.bytes();
    CKPT_TRY(open(0));
    CKPT_TRY(add_share(0));
    CKPT_TRY(add_tree());
    for (const auto& [key, value] : from_.attributes) CKPT_TRY(set_text(save(), key, value));
    attempt_ = save().id();
    CKPT_TRY(from_.ranks == 1 ? run_save() : save_all());
    return attempt_;
  }

  // Of packed elements a load gives no view, so none is saved.
  Status check_views() const {
    for (const ForeignTensor& tensor : from_.tensors)
      if (tensor.is_alias() && dtype_bits(tensor.dtype) < 8 && !is_whole_target(tensor))
        return Status(CKPT_UNSUPPORTED, strformat("tensor {}: a view of packed elements, of which no load could give "
                                                  "anything; option exclude={} leaves it out",
                                                  ckpt::in_quotes(tensor.name), tensor.name))
            .with("tensor", tensor.name);
    return Ok();
  }

  // Removes what a failed run() gave up, which would be listed until the next session of its run.
  void clean() {
    ranks_.clear();
    if (attempt_.empty()) return;
    if (const auto list = store_.list())
      for (const client::CheckpointInfo& one : *list)
        if (one.id == attempt_ && one.state == CKPT_CHECKPOINT_ABORTED) (void)store_.remove(attempt_);
  }

 private:
  struct Rank {
    client::Session session;
    client::Save save;
  };
  client::Save& save() { return ranks_.back().save; }

  // Of files on a server bytes come when the save wants them.
  Status feed() {
    auto remote = from_.files.remote();
    return remote.empty() ? Ok() : Feed::feed(std::move(remote), save());
  }

  // The share of the rank that is being played, in the background so that it can be cancelled.
  Status run_save() {
    CKPT_TRY(feed());
    const Status unknown = unknown_end();
    CKPT_ASSIGN(const client::Job job, result(save().start_in_place()));
    return follow_to_end(job, &job_, unknown);
  }

  // Made beforehand: where memory runs out while a save ends, nobody can read what became of it.
  static Status unknown_end() {
    return Status(CKPT_COMMIT_UNKNOWN, "memory ran out while the save ended: ckpt ls tells whether it was committed");
  }
  Status follow_to_end(const client::Job& save, Job* counted, const Status& unknown) const {
    return call_guarded([&] { return follow(save, CKPT_JOB_COMMITTED, counted); },
                        [&](const Status&) { return unknown; });
  }

  client::Options for_session() const {
    const ImportOptions& options = request_.options;
    client::Options made{{"purpose", "import"}, {"timeout_ms", options.timeout_ms}};
    return options.is_set.run ? made.set("run", options.run) : made;
  }

  client::Options for_save(uint32_t rank) const {
    const ImportOptions& options = request_.options;
    client::Options made = request_.of_saves;
    made.set("threads", options.threads).set("timeout_ms", from_.ranks > 1 ? kLongest : options.timeout_ms);
    made.set("on_existing", options.on_existing).set("compression", options.compression);
    made.set("incremental", options.incremental);
    return rank == 0 ? made : made.set("wait", 0);
  }

  Status open(uint32_t rank) {
    CKPT_TRY(job_.check());
    const std::string session_string = ranks_.empty() ? "" : ranks_[0].session.string();
    CKPT_ASSIGN(client::Session session,
                result(client::Session::open(store_, rank, from_.ranks, session_string, for_session())));
    CKPT_ASSIGN(client::Save save,
                result(client::Save::create(session, request_.label, request_.step, for_save(rank))));
    if (ranks_.size() > 1) ranks_.pop_back();  // of the other ranks only one is open
    ranks_.push_back({std::move(session), std::move(save)});
    return Ok();
  }

  // The other ranks' shares, while rank 0 waits for them in the background.
  Status save_all() {
    CKPT_TRY(feed());
    const Status unknown = unknown_end();
    CKPT_ASSIGN(const client::Job job, result(save().start()));  // given up where another rank fails
    // Rank 0 decides about the label before the others begin.
    CKPT_TRY(follow(job, CKPT_JOB_WRITTEN, &job_));
    for (uint32_t rank = 1; rank < from_.ranks; rank++) {
      Status status = play(rank);
      if (status.ok()) continue;
      (void)job.cancel();  // which makes it known that rank 0 failed, too
      return status;
    }
    return follow_to_end(job, nullptr, unknown);
  }

  Status play(uint32_t rank) {
    CKPT_TRY(from_.files.end_spill());  // the ranks before are written
    CKPT_TRY(open(rank));
    CKPT_TRY(add_share(rank));
    return run_save();
  }

  // What lies in a row comes when the save wants it. Of a tensor with strides, and of a table, which is sorted, it
  // reads elements in any order.
  Status spill(uint32_t rank) {
    std::vector<FileRange> ranges;
    for (const ForeignTensor& tensor : from_.tensors)
      for (const ForeignPiece& piece : tensor.pieces) {
        const bool wanted =
            piece.rank == rank && !tensor.is_alias() && (piece.lies_apart(tensor.shape) || tensor.buckets != 0);
        // What has no place is told where it is added.
        if (wanted && from_.files.place(piece.bytes).ok()) ranges.push_back(piece.bytes);
      }
    return from_.files.spill(ranges);
  }

  Status add_share(uint32_t rank) {
    CKPT_TRY(spill(rank));
    for (const ForeignTensor& tensor : from_.tensors)
      for (const ForeignPiece& piece : tensor.pieces) {
        if (piece.rank != rank || tensor.buckets != 0 || (tensor.is_alias() && &piece != tensor.pieces.data()))
          continue;
        Status status = tensor.is_alias() ? add_alias(tensor) : add(tensor, piece);
        if (status.ok()) continue;
        const std::string path = from_.files.path(piece.bytes.file);
        if (!path.empty()) status = std::move(status).with("path", path);
        return std::move(status).with("tensor", tensor.name);
      }
    for (const ForeignTable& table : tables_) {
      Status status = add_table(table, rank);
      if (!status.ok()) return std::move(status).with("tensor", table.name);
    }
    for (const ForeignObject& object : from_.objects)
      if (object.rank.value_or(0) == rank) CKPT_TRY(add_object(object));
    return Ok();
  }

  Status add(const ForeignTensor& tensor, const ForeignPiece& piece) {
    CKPT_ASSIGN(const Bytes bytes, from_.files.place(piece.bytes));
    CKPT_TRY(done(save().add_tensor(tensor.name, client::Tensor(describe_piece(tensor, piece)),
                                    client::Memory(bytes.data(), bytes.size()))));
    if (&piece != tensor.pieces.data()) return Ok();
    for (const auto& [key, value] : tensor.attributes)
      // NOLINTNEXTLINE(readability-redundant-string-cstr): a device's name in a pickle may hold a NUL; it ends there
      CKPT_TRY(done(save().set_tensor_attr(tensor.name, key, value.c_str())));
    return Ok();
  }

  // This rank's rows, from where they lie.
  Status add_table(const ForeignTable& table, uint32_t rank) {
    const ForeignTensor& ids = from_.tensors[table.ids];
    const auto piece = std::ranges::find(ids.pieces, rank, &ForeignPiece::rank);
    if (piece == ids.pieces.end()) return Ok();
    const auto place = static_cast<size_t>(piece - ids.pieces.begin());
    CKPT_ASSIGN(const Bytes id_bytes, from_.files.place(piece->bytes));
    client::Rows rows;
    rows.ids = id_bytes.data();
    rows.count = id_bytes.size() / sizeof(uint64_t);
    rows.bucket_count = ids.buckets;
    for (const size_t number : table.columns) {
      const ForeignTensor& tensor = from_.tensors[number];
      CKPT_ASSIGN(const Bytes bytes, from_.files.place(tensor.pieces[place].bytes));
      client::Column& column =
          rows.columns.emplace_back(client::Column{table.column_name(tensor), tensor.dtype, {}, {}});
      for (int i = 1; i < tensor.shape.ndim; i++) column.row.push_back(static_cast<int64_t>(tensor.shape[i]));
      column.blocks.emplace_back(bytes.data(), bytes.size());
    }
    return done(save().add_table(table.name, rows));
  }

  bool is_whole_target(const ForeignTensor& alias) const {
    const ForeignTensor& target = from_.tensors[alias.target];
    const ForeignPiece &piece = alias.pieces[0], &whole = target.pieces[0];
    return alias.shape == target.shape && piece.bytes == whole.bytes && piece.strides == whole.strides;
  }

  Status add_alias(const ForeignTensor& tensor) {
    const ForeignTensor& target = from_.tensors[tensor.target];
    if (is_whole_target(tensor)) return done(save().add_alias(tensor.name, target.name));
    ckpt_tensor_desc view = describe(tensor.dtype, tensor.shape);
    view.flags = CKPT_TENSOR_STRIDED;
    view.flat_offset = static_cast<int64_t>(tensor.target_offset);
    std::copy(tensor.target_strides.begin(), tensor.target_strides.end(), view.strides);
    return done(save().add_alias(tensor.name, target.name, client::Tensor(view)));
  }

  Status add_object(const ForeignObject& object) {
    CKPT_ASSIGN(const Bytes bytes, from_.files.bytes(object.bytes));
    return done(save().add_object(object.name, object.media_type,
                                  object.rank ? CKPT_OBJECT_PER_RANK : CKPT_OBJECT_SHARED,
                                  client::Memory(bytes.data(), bytes.size())));
  }

  Status add_tree() {
    if (!from_.tree) return Ok();
    const std::string json = tree::tree_json(*from_.tree);
    return done(save().add_object(CKPT_TREE_OBJECT, CKPT_TREE_MEDIA_TYPE, CKPT_OBJECT_SHARED, json));
  }

  // Waits for a save, and cancels it if the import is. `counted` (may be null) gets what it does.
  Status follow(const client::Job& save, int32_t state, Job* counted) const {
    const uint64_t before = job_.counters.bytes_done;
    for (;;) {
      if (job_.cancelled()) save.cancel();
      const bool ended = save.state() >= CKPT_JOB_COMMITTED;  // then a TIMEOUT is the save's own
      const auto reached = save.wait(state, kLookMs);
      const auto stats = save.stats();
      if (counted && stats) counted->counters.bytes_done = before + stats->bytes_done;
      if (reached) return Ok();
      if (ended || reached.error().status() != CKPT_TIMEOUT) return done(reached);
    }
  }

  const client::Store& store_;
  ForeignCheckpoint& from_;
  ImportRequest request_;
  Job& job_;
  std::vector<ForeignTable> tables_;
  std::string attempt_;      // its id; "" before the save begins
  std::vector<Rank> ranks_;  // 0, and the one that is being played
};

}  // namespace

Result<std::string> import_checkpoint(const client::Store& store, ForeignCheckpoint& from, const ImportRequest& request,
                                      Job& job, const std::function<Status(const std::string& id)>& then) {
  Importer importer(store, from, request, job);
  Result<std::string> id = importer.run();
  if (id.ok() && then) CKPT_TRY(then(*id));
  if (id.ok()) return id;
  (void)call_guarded([&] {  // what is left for lack of memory, the next session of the run removes
    const Closing tidying(id.status());
    with_parts([&] { return importer.clean(), true; }, CKPT_CALL_TIDY);
    return Ok();
  });
  return id;
}

}  // namespace ckpt::interop
