// The `.metadata` becomes a catalogue: tensors in pieces, and the tree. Entries are opened for values at once, for
// chunks when their elements are wanted.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <optional>

#include "base/parallel.h"
#include "interop/src/dcp/entry.h"
#include "interop/src/dcp/format.h"
#include "interop/src/dcp/metadata.h"
#include "interop/src/dcp/state.h"
#include "interop/src/dcp/zstd.h"
#include "interop/src/json.h"
#include "interop/src/pt/format.h"
#include "interop/src/pt/sharing.h"
#include "interop/src/pt/tree.h"
#include "interop/src/unpacked.h"
#include "plan/box.h"
#include "plan/coverage.h"
#include "tree/merge.h"

namespace ckpt::interop {

namespace {

constexpr const char* kMetadataFile = ".metadata";
constexpr uint64_t kMaxUnpackedValues = 256 << 20;  // in memory; torch writes what is no tensor so
constexpr size_t kMaxRanks = 1 << 20;

struct MetadataFile {
  std::string name;
  uint32_t rank = 0;
};

// "__3.metadata", of rank 3.
std::optional<uint32_t> rank_of(std::string_view name) {
  if (!name.starts_with("__") || !name.ends_with(kMetadataFile)) return std::nullopt;
  name = name.substr(2, name.size() - 2 - std::string_view(kMetadataFile).size());
  uint32_t rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  const bool plain = error == std::errc() && end == name.data() + name.size() && (name.size() == 1 || name[0] != '0');
  return plain && rank < kMaxRanks ? std::optional(rank) : std::nullopt;
}

// The one of all ranks, or else those of each.
std::vector<MetadataFile> metadata_files(const std::string& directory, const Folder& folder) {
  if (is_file(directory + '/' + kMetadataFile, folder)) return {{kMetadataFile, 0}};
  std::vector<MetadataFile> of_ranks;
  for (const std::string& name : names_in_directory(directory, folder))
    if (const auto rank = rank_of(name)) of_ranks.push_back({name, *rank});
  std::ranges::sort(of_ranks, {}, &MetadataFile::rank);
  return of_ranks;
}

bool names_metadata(const std::string& path) { return path == kMetadataFile || path.ends_with("/.metadata"); }

// Where the elements of one piece are to be found.
struct Wanted {
  size_t tensor = 0, piece = 0;  // of ForeignCheckpoint::tensors
  const DcpItem* item = nullptr;
  const DcpChunk* chunk = nullptr;
  uint64_t first = 0, count = UINT64_MAX;  // of the chunk's elements
};

// What is kept until the elements are wanted.
struct DcpCatalogue {
  std::string directory;  // with its slash; empty for the one that the process is in
  DcpMetadata metadata;
  std::vector<size_t> files;  // of ForeignCheckpoint::files
  std::vector<Wanted> wanted;

  std::string path_of(const DcpPlace& place) const { return directory + metadata.files[place.file]; }
};

// ---- elements ----

// Opens what the pieces of a checkpoint lie in, on several threads.
class Locator {
 public:
  Locator(const DcpCatalogue& catalogue, ForeignCheckpoint& state, ForeignCheckpoint::First first,
          const ReadOptions& options)
      : catalogue_(catalogue), state_(state), first_(first), options_(options), alone_(options) {
    alone_.threads = 1;  // each entry by one thread
    for (const Wanted& wanted : catalogue.wanted)
      if (!options.wants || options.wants(state.tensors[first.tensor + wanted.tensor].name)) wanted_.push_back(wanted);
  }

  Status run() {
    const std::vector<Wanted>& wanted = wanted_;
    std::vector<FileBytes> entries;
    CKPT_TRY(open_entries(&entries));
    std::vector<DcpElements> found(wanted.size());
    auto locate = [&](size_t i) -> Status {
      CKPT_TRY(options_.check());
      const DcpChunk& chunk = *wanted[i].chunk;
      const std::string path = catalogue_.path_of(chunk.place) + strformat(" at {}", chunk.place.offset);
      const auto blob = blobs_.find({chunk.place.file, chunk.place.offset});
      CKPT_ASSIGN(found[i], blob == blobs_.end()
                                ? dcp_elements(path, entries[i], *wanted[i].item, chunk.box.extent, alone_)
                                : dcp_elements(path, entries[i], *blob->second, *wanted[i].item, chunk.box.extent));
      return Ok();
    };
    CKPT_TRY(for_each_parallel(options_.threads, wanted.size(), locate));
    size_t unchecked = 0;
    for (size_t i = 0; i < wanted.size(); i++) {
      ForeignPiece& piece = state_.tensors[first_.tensor + wanted[i].tensor].pieces[wanted[i].piece];
      Bytes bytes = found[i].bytes;
      if (wanted[i].item->boxed) {
        const auto width = static_cast<uint64_t>(dtype_bits(wanted[i].item->dtype)) / 8;
        if (found[i].strides)
          return Status(CKPT_UNSUPPORTED, "the elements of " + shown(wanted[i].item->name) + " lie apart")
              .with("tensor", wanted[i].item->name);
        bytes = bytes.subspan(wanted[i].first * width, wanted[i].count * width);
      }
      piece.bytes = state_.files.range_of(bytes);
      piece.strides = found[i].strides;
      unchecked += found[i].unchecked;
    }
    state_.add_unchecked(unchecked);
    return Ok();
  }

 private:
  // Packed ones from a temporary file.
  Status open_entries(std::vector<FileBytes>* entries) {
    std::optional<OutputFile> unpacked;
    uint64_t packed_bytes = 0;
    for (const Wanted& wanted : wanted_) packed_bytes += wanted.chunk->place.zstd ? wanted.chunk->place.length : 0;
    unpacked_left_ = most_unpacked(packed_bytes);
    std::vector<std::pair<size_t, ByteRange>> packed;
    const DcpChunk* last = nullptr;  // they come in the order of their places
    for (const Wanted& wanted : wanted_) {
      const DcpPlace& place = wanted.chunk->place;
      CKPT_ASSIGN(const FileBytes file, state_.files.open(first_.file + catalogue_.files[place.file]));
      if (place.offset > file.size() || place.length > file.size() - place.offset)
        return Status(CKPT_INCOMPLETE, strformat("{}: expected {} bytes at {}, found {} bytes in all",
                                                 catalogue_.path_of(place), place.length, place.offset, file.size()))
            .with("path", catalogue_.path_of(place));
      entries->push_back(file.part(place.offset, place.length));
      if (!place.zstd) {
        CKPT_TRY(look_for_blob(place, file, entries->back()));
        if (blobs_.contains({place.file, place.offset})) continue;
      }
      // Each is opened for itself, so nobody may make many of one.
      if (last && last != wanted.chunk && last->place.overlaps(place))
        return Status(CKPT_FORMAT, strformat("{}: two entries lie at {}", catalogue_.path_of(place), place.offset))
            .with("path", catalogue_.path_of(place));
      last = wanted.chunk;
      if (!place.zstd) continue;
      if (!unpacked) {
        CKPT_ASSIGN(OutputFile made, OutputFile::temporary());
        unpacked.emplace(std::move(made));
      }
      const uint64_t begin = unpacked->size();
      CKPT_TRY(unpack(entries->back(), place, [&](Bytes bytes) { return unpacked->write(bytes); }));
      packed.push_back({entries->size() - 1, {begin, unpacked->size()}});
    }
    if (!unpacked) return Ok();
    CKPT_ASSIGN(MappedFile mapped, unpacked->map());
    const FileBytes all(mapped.bytes());
    for (const auto& [entry, range] : packed) (*entries)[entry] = all.part(range.begin, range.end - range.begin);
    state_.files.add("a temporary file", InputFile(std::move(mapped)));
    return Ok();
  }

  // A blob has no length of its own: it ends with the file.
  Status look_for_blob(const DcpPlace& place, const FileBytes& file, FileBytes& entry) {
    constexpr uint64_t kHead = 16;
    const FileBytes rest = file.part(place.offset, file.size() - place.offset);
    CKPT_TRY(rest.need(0, kHead));
    if (!is_dcp_blob(rest)) return Ok();
    entry = rest;
    if (blobs_.contains({place.file, place.offset})) return Ok();
    CKPT_ASSIGN(auto blob, parse_dcp_blob(rest, catalogue_.path_of(place)));
    blobs_.emplace(std::pair(place.file, place.offset), std::move(blob));
    return Ok();
  }

  Status unpack(const FileBytes& entry, const DcpPlace& place, const std::function<Status(Bytes)>& take) {
    CKPT_TRY(entry.need(0, entry.size()));
    const std::string path = catalogue_.path_of(place);
    Status status = unpack_zstd(entry.all(), &unpacked_left_, [&](Bytes bytes) -> Status {
      CKPT_TRY(options_.check());
      return take(bytes);
    });
    return status.ok() ? Ok() : std::move(status).in(path).with("path", path);
  }

  const DcpCatalogue& catalogue_;
  ForeignCheckpoint& state_;
  const ForeignCheckpoint::First first_;
  const ReadOptions& options_;
  ReadOptions alone_;
  std::vector<Wanted> wanted_;
  std::map<std::pair<size_t, uint64_t>, std::unique_ptr<DcpBlob>> blobs_;  // by file and place
  uint64_t unpacked_left_ = 0;                                             // bytes
};

// ---- the catalogue ----

class CatalogueMaker {
 public:
  CatalogueMaker(DcpCatalogue& catalogue, ForeignCheckpoint& state, const ReadOptions& options)
      : catalogue_(catalogue), state_(state), options_(options) {}

  Status run(const std::vector<MetadataFile>& files) {
    CKPT_TRY(read_metadata(files));
    CKPT_TRY(open_files());
    CKPT_ASSIGN(state_.tree,
                dcp_tree(catalogue_.metadata, [&](const DcpItem& item, const std::string& at, tree::Tree& tree) {
                  const Status status = check_item(item);
                  if (may_be_left_out(status.code())) return put_cannot(tree, status, status.message());
                  CKPT_TRY(status);
                  return item.is_tensor ? put_tensor(item, at, tree) : put_value(item, at, tree);
                }));
    std::ranges::sort(catalogue_.wanted, [](const Wanted& a, const Wanted& b) {
      const DcpPlace &left = a.chunk->place, &right = b.chunk->place;
      return left.file != right.file ? left.file < right.file : left.offset < right.offset;
    });
    return Ok();
  }

 private:
  std::string where(const DcpItem& item) const { return catalogue_.directory + ": " + shown(item.name); }

  Status read_metadata(const std::vector<MetadataFile>& files) {
    for (size_t i = 0; i < files.size(); i++) {
      CKPT_TRY(options_.check());
      const std::string path = catalogue_.directory + files[i].name;
      if (files[i].rank != i)
        return Status(CKPT_INCOMPLETE, strformat("{}__{}.metadata is missing: there are {} files __*.metadata, which "
                                                 "torch numbers from 0",
                                                 catalogue_.directory, i, files.size()))
            .with("path", catalogue_.directory);
      CKPT_ASSIGN(const InputFile file, InputFile::open(path, options_.folder));
      CKPT_TRY(file.bytes().need(0, file.bytes().size()));
      Status status = add_dcp_metadata(file.addresses(), path, files[i].rank, &catalogue_.metadata);
      if (!status.ok()) return std::move(status).with("path", path);
    }
    return Ok();
  }

  // Each that a tensor or a value lies in: on this machine only looked at.
  Status open_files() {
    std::vector<uint64_t> ends(catalogue_.metadata.files.size());
    std::vector<const DcpItem*> users(ends.size());
    std::vector<std::string> wanted;
    auto note = [&](const DcpItem& item, const DcpPlace& place) {
      if (place.file == SIZE_MAX) return;
      users[place.file] = &item;
      ends[place.file] = std::max(ends[place.file], place.offset + place.length);
    };
    for (const DcpItem& item : catalogue_.metadata.items) {
      for (const DcpChunk& chunk : item.chunks) note(item, chunk.place);
      for (const DcpValue& value : item.values) note(item, value.place);
    }
    CKPT_TRY(check_values_lie_apart());
    for (size_t i = 0; i < ends.size(); i++)
      if (users[i]) wanted.push_back(catalogue_.metadata.files[i]);
    expect_files(catalogue_.directory, wanted, options_.folder);
    lost_.resize(ends.size());
    for (size_t i = 0; i < ends.size(); i++) {
      const std::string path = catalogue_.directory + catalogue_.metadata.files[i];
      uint64_t size = 0;
      if (!users[i]) {
        catalogue_.files.push_back(SIZE_MAX);
        continue;
      }
      lost_[i] = add_file(path, *users[i], &size);
      if (!lost_[i].ok()) {
        if (!may_be_left_out(lost_[i].code())) return lost_[i];
        catalogue_.files.push_back(SIZE_MAX);
      } else if (size < ends[i]) {
        lost_[i] =
            Status(CKPT_INCOMPLETE,
                   strformat("{} is cut: expected at least {} bytes, as .metadata says, found {}", path, ends[i], size))
                .with("path", path)
                .with("expected", ends[i])
                .with("found", size);
      }
    }
    return Ok();
  }

  // Whether it can be had: its own numbers, and the files that it lies in.
  Status check_item(const DcpItem& item) const {
    Status status = item.is_tensor ? check_tensor(item) : check_value(item);
    if (!status.ok()) return std::move(status).in(where(item)).with("tensor", item.name);
    for (const DcpChunk& chunk : item.chunks)
      if (chunk.place.file != SIZE_MAX) CKPT_TRY(lost_[chunk.place.file]);
    for (const DcpValue& value : item.values)
      if (value.place.file != SIZE_MAX) CKPT_TRY(lost_[value.place.file]);
    return Ok();
  }

  // Each is read for itself, so nobody may make many of one.
  Status check_values_lie_apart() const {
    std::vector<DcpPlace> places;
    for (const DcpItem& item : catalogue_.metadata.items)
      for (const DcpValue& value : item.values) places.push_back(value.place);
    std::ranges::sort(places, {}, [](const DcpPlace& place) { return std::pair(place.file, place.offset); });
    const auto twice = std::ranges::adjacent_find(places, &DcpPlace::overlaps);
    if (twice == places.end() || twice->file == SIZE_MAX) return Ok();
    return Status(CKPT_FORMAT, strformat("{}: two values lie at {}", catalogue_.path_of(*twice), twice->offset))
        .with("path", catalogue_.path_of(*twice));
  }

  Status add_file(const std::string& path, const DcpItem& user, uint64_t* size) {
    const auto missing = [&] {
      return Status(CKPT_INCOMPLETE, path + " is missing, which has some of " + shown(user.name))
          .with("path", path)
          .with("tensor", user.name);
    };
    if (options_.folder) {
      Result<InputFile> file = InputFile::open(path, options_.folder);
      if (file.status().code() == CKPT_NOT_FOUND) return missing();
      CKPT_TRY(file.status());
      *size = file->addresses().size();
      catalogue_.files.push_back(state_.files.add(path, file.take()));
      return Ok();
    }
    const Busy busy("inspection", path);
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0 && errno == ENOENT) return missing();
    *size = S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : UINT64_MAX;  // what it is, opening it tells
    catalogue_.files.push_back(state_.files.add(path));
    return Ok();
  }

  static Status check_value(const DcpItem& item) {
    return item.values.empty() ? Status(CKPT_INCOMPLETE, "no file has it") : Ok();
  }

  static Status check_tensor(const DcpItem& item) {
    const Result<uint64_t> elements = element_count(item.shape);
    Status status = elements.ok() ? element_bytes(*elements, item.dtype).status() : elements.status();
    if (status.ok()) {
      std::vector<Region> regions;
      for (const DcpChunk& chunk : item.chunks) regions.push_back(region_of(item, chunk));
      status = plan::check_coverage(item.shape, regions);
    }
    if (status.code() == CKPT_INVALID) return Status(CKPT_FORMAT, status.message());
    CKPT_TRY(status);
    for (const DcpChunk& chunk : item.chunks)
      if (chunk.place.file == SIZE_MAX)
        return Status(CKPT_INCOMPLETE, "no file has " + to_text(chunk.box)).with("found", to_text(chunk.box));
    return Ok();
  }

  static Region region_of(const DcpItem& item, const DcpChunk& chunk) {
    if (chunk.box == Box::whole(item.shape)) return {};
    return {RegionKind::kBox, chunk.box, 0, 0};
  }

  Status put_tensor(const DcpItem& item, const std::string& at, tree::Tree& tree) {
    if (at.size() > kMaxName)
      return Status(CKPT_UNSUPPORTED, strformat("a tensor's path of {} bytes, at most {}", at.size(), kMaxName));
    CKPT_TRY(put_leaf(item, at, tree));
    ForeignTensor& tensor = state_.tensors.emplace_back();
    tensor.name = at;
    tensor.dtype = item.dtype;
    tensor.shape = item.shape;
    if (item.chunks.empty()) tensor.pieces.emplace_back();
    if (item.boxed) return put_boxed(item, &tensor);
    for (const DcpChunk& chunk : item.chunks) {
      catalogue_.wanted.push_back({state_.tensors.size() - 1, tensor.pieces.size(), &item, &chunk});
      tensor.pieces.push_back({region_of(item, chunk), {}, std::nullopt, 0});
    }
    return Ok();
  }

  Status put_boxed(const DcpItem& item, ForeignTensor* tensor) {
    const int ndim = item.boxed->ndim;
    tensor->shape = *item.boxed;
    for (const DcpChunk& chunk : item.chunks) {
      Box outer{{ndim, {}}, {ndim, {}}};
      for (int i = 0; i < ndim; i++) {
        if (chunk.box.extent[i] != 1)
          return Status(CKPT_UNSUPPORTED, "expected chunks of one box of Megatron, found " + to_text(chunk.box));
        outer.extent[i] = (*item.boxed)[i] / item.shape[i];
        outer.offset[i] = chunk.box.offset[i] * outer.extent[i];
      }
      uint64_t first = 0;
      for (const Box& box : plan::boxes_of_range(outer, chunk.box.offset[ndim], chunk.box.extent[ndim])) {
        catalogue_.wanted.push_back(
            {state_.tensors.size() - 1, tensor->pieces.size(), &item, &chunk, first, box.volume()});
        const Region region = box == Box::whole(tensor->shape) ? Region() : Region{RegionKind::kBox, box, 0, 0};
        tensor->pieces.push_back({region, {}, std::nullopt, 0});
        first += box.volume();
      }
    }
    return Ok();
  }

  static Status put_leaf(const DcpItem& item, const std::string& at, tree::Tree& tree) {
    if (!item.torch_dtype) return tree.add_tensor(at);
    CKPT_TRY(tree.begin(CKPT_NODE_RECORD, "torch.Tensor"));
    CKPT_TRY(tree.key("data"));
    CKPT_TRY(tree.add_tensor(at));
    CKPT_TRY(tree.key("dtype"));
    CKPT_TRY(tree.add_text(std::string("torch.") + item.torch_dtype));
    return tree.end();
  }

  // ---- values ----

  // What ranks have of their own is kept for each.
  Status put_value(const DcpItem& item, const std::string& at, tree::Tree& tree) {
    std::vector<FileBytes> entries;
    bool alike = true;
    for (const DcpValue& value : item.values) {
      CKPT_ASSIGN(const FileBytes entry, entry_of(value.place));
      CKPT_TRY(entry.need(0, entry.size()));
      alike &= entries.empty() || std::ranges::equal(entries[0].all(), entry.all());
      entries.push_back(entry);
    }
    if (alike) return put_entry(item.values[0].place, entries[0], at, tree);
    CKPT_TRY(tree.begin(CKPT_NODE_RECORD, tree::kPerRankClass));
    for (size_t i = 0; i < entries.size(); i++) {
      const std::string key = tree::per_rank_key(item.values[i].rank);
      CKPT_TRY(tree.key(key));
      CKPT_TRY(put_entry(item.values[i].place, entries[i], at + '/' + key, tree));
    }
    return tree.end();
  }

  Status put_entry(const DcpPlace& place, const FileBytes& entry, const std::string& at, tree::Tree& tree) {
    const std::string path = catalogue_.path_of(place) + strformat(" at {}", place.offset);
    Result<PtSource> parsed = PtSource::parse(path, entry, options_);
    if (!parsed.ok()) return put_cannot(tree, parsed.status(), parsed.status().message());
    const auto source = std::make_shared<const PtSource>(parsed.take());
    CKPT_ASSIGN(PtTree made, make_tree(*source, spare_, at));
    return put_tree(made, source, tree);
  }

  Status put_tree(PtTree& made, const std::shared_ptr<const PtSource>& source, tree::Tree& tree) {
    CKPT_TRY(tree::copy_node(made.tree, 0, tree));
    if (made.tensors.empty()) return Ok();
    // Storages of other entries have the same keys.
    for (NamedPtTensor& tensor : made.tensors)
      tensor.tensor.storage_key = strformat("v{}_", sources_) + tensor.tensor.storage_key;
    sources_++;
    const size_t before = state_.tensors.size();
    for (ForeignTensor& tensor : plan_sharing(std::move(made.tensors), source->file_bytes(), state_.files)) {
      if (tensor.is_alias()) tensor.target += before;
      state_.tensors.push_back(std::move(tensor));
    }
    state_.keep.push_back(source);
    return Ok();
  }

  Result<FileBytes> entry_of(const DcpPlace& place) {
    CKPT_ASSIGN(const FileBytes file, state_.files.open(catalogue_.files[place.file]));
    if (place.offset > file.size() || place.length > file.size() - place.offset)
      return Status(CKPT_INCOMPLETE, catalogue_.path_of(place) + " is cut").with("path", catalogue_.path_of(place));
    const FileBytes entry = file.part(place.offset, place.length);
    if (!place.zstd) return entry;
    CKPT_TRY(entry.need(0, entry.size()));
    auto unpacked = std::make_shared<std::string>();
    uint64_t most = std::min(unpacked_left_, most_unpacked(entry.size()));
    Status status = unpack_zstd(entry.all(), &most, [&](Bytes bytes) -> Status {
      unpacked_left_ -= bytes.size();
      unpacked->append(as_text(bytes));
      return Ok();
    });
    if (!status.ok()) return std::move(status).in(catalogue_.path_of(place)).with("path", catalogue_.path_of(place));
    state_.keep.push_back(unpacked);
    return FileBytes(as_bytes(*unpacked));
  }

  DcpCatalogue& catalogue_;
  ForeignCheckpoint& state_;
  const ReadOptions& options_;
  std::vector<Status> lost_;  // why a file that something lies in has not all of it
  SpareTree spare_;
  size_t sources_ = 0;                           // of values with tensors
  uint64_t unpacked_left_ = kMaxUnpackedValues;  // bytes
};

}  // namespace

bool is_dcp(const Candidate& candidate) {
  if (candidate.is_directory) return !metadata_files(candidate.path, candidate.folder).empty();
  return names_metadata(candidate.path) && candidate.head.starts_with('\x80');
}

Result<ForeignCheckpoint> read_dcp(const std::string& path, const ReadOptions& options) {
  auto catalogue = std::make_shared<DcpCatalogue>();
  std::vector<MetadataFile> files;
  if (names_metadata(path)) {
    files = {{kMetadataFile, 0}};
    catalogue->directory = path.substr(0, path.size() - std::string_view(kMetadataFile).size());
  } else {
    files = metadata_files(path, options.folder);
    catalogue->directory = path.ends_with('/') ? path : path + '/';
  }
  ForeignCheckpoint state;
  state.format = "dcp";
  state.attributes = import_attributes("dcp", 0);
  CKPT_TRY(CatalogueMaker(*catalogue, state, options).run(files));
  state.locate = [catalogue](ForeignCheckpoint& self, ForeignCheckpoint::First first, const ReadOptions& reading) {
    return Locator(*catalogue, self, first, reading).run();
  };
  return state;
}

}  // namespace ckpt::interop
