#include <algorithm>
#include <charconv>

#include "interop/src/json.h"
#include "interop/src/numpy/format.h"
#include "interop/src/pt/format.h"
#include "interop/src/pt/numpy.h"
#include "interop/src/unpacked.h"
#include "interop/src/zip/reader.h"

namespace ckpt::interop {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY", kEnding = ".npy";
constexpr uint64_t kMostHeader = 64 << 10;  // of a plain array it has a hundred bytes

// What stands before the elements.
struct Header {
  uint64_t size = 0;
  std::string_view dtype;  // "<f4"; a list where it is of structs
  bool columns = false;
  Shape shape;
};

Status no_header() { return Status(CKPT_FORMAT, "it is no .npy: its header is not numpy's"); }

// The value of a key of the Python dict that the header is.
std::string_view value_of(std::string_view dict, std::string_view key) {
  const size_t at = dict.find("'" + std::string(key) + "':");
  if (at == dict.npos) return {};
  dict.remove_prefix(at + key.size() + 3);
  dict.remove_prefix(std::min(dict.find_first_not_of(' '), dict.size()));
  return dict;
}

Result<Shape> shape_of_text(std::string_view text) {
  Shape shape;
  const size_t end = text.find(')');
  if (!text.starts_with('(') || end == text.npos) return no_header();
  text = text.substr(1, end - 1);
  while (!text.empty()) {
    uint64_t& extent = shape.dims[static_cast<size_t>(shape.ndim)];
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent > INT64_MAX) return no_header();
    text.remove_prefix(static_cast<size_t>(stop - text.data()));
    text.remove_prefix(std::min(text.find_first_not_of(", L"), text.size()));  // Python 2 writes 3L
    if (++shape.ndim == kMaxNdim && !text.empty())
      return Status(CKPT_UNSUPPORTED, strformat("more than {} dimensions", kMaxNdim));
  }
  return shape;
}

Result<Header> parse_header(Bytes file) {
  const std::string_view head = as_text(file.first(std::min<uint64_t>(file.size(), kMostHeader)));
  if (head.size() < 12 || !head.starts_with(kMagic)) return no_header();
  const auto byte = [&](size_t at) { return uint64_t{static_cast<unsigned char>(head[at])}; };
  const bool is_short = byte(6) == 1;
  const uint64_t before = is_short ? 10 : 12;
  uint64_t length = byte(8) | byte(9) << 8;
  if (!is_short) length |= byte(10) << 16 | byte(11) << 24;
  if (length > head.size() - before) return no_header();
  const std::string_view dict = head.substr(before, length);
  Header header;
  header.size = before + length;
  const std::string_view dtype = value_of(dict, "descr"), order = value_of(dict, "fortran_order");
  const size_t end = dtype.find('\'', 1);
  header.dtype = dtype.starts_with('\'') && end != dtype.npos ? dtype.substr(1, end - 1) : std::string_view("struct");
  header.columns = order.starts_with("True");
  if (!header.columns && !order.starts_with("False")) return no_header();
  CKPT_ASSIGN(header.shape, shape_of_text(value_of(dict, "shape")));
  return header;
}

class NumpyReader {
 public:
  explicit NumpyReader(const std::string& path) : path_(path) {}

  Result<ForeignCheckpoint> run(const ReadOptions& options) {
    CKPT_ASSIGN(InputFile file, InputFile::open(path_, options.folder));
    const FileBytes bytes = file.bytes();
    CKPT_TRY(bytes.need(0, kMostHeader));
    const bool is_archive = !as_text(bytes.all()).starts_with(kMagic);
    unchecked_ = is_archive ? 0 : 1;
    file_ = out_.files.add(path_, std::move(file));
    Status status = is_archive ? archive(bytes, options) : array(CKPT_TREE_OBJECT, bytes.all(), {file_, 0, 0});
    if (!status.ok()) return std::move(status).in(path_).with("path", path_);
    out_.format = is_archive ? "npz" : "npy";
    out_.tree = std::move(tree_);
    out_.attributes = import_attributes(out_.format, unchecked_);
    return std::move(out_);
  }

 private:
  Status archive(const FileBytes& bytes, const ReadOptions& options) {
    CKPT_ASSIGN(const ZipReader zip, ZipReader::open(bytes));
    CKPT_TRY(zip.need_all(kMostHeader));
    if (options.verify) CKPT_TRY(zip.verify(options.threads, [&] { return options.check(); }));
    CKPT_TRY(zip.need_all(kMostHeader));
    std::vector<FileRange> places;
    CKPT_TRY(unpack(zip, bytes, options, &places));
    CKPT_TRY(tree_.begin(CKPT_NODE_DICT));
    for (size_t i = 0; i < places.size(); i++) {
      const ZipEntry& entry = zip.entries()[i];
      std::string_view key = entry.name;
      if (key.ends_with(kEnding)) key.remove_suffix(kEnding.size());
      const Status status = tree_.key(key);
      if (!status.ok()) return Status(CKPT_FORMAT, status.message());
      CKPT_ASSIGN(const Bytes content, out_.files.place(places[i]));
      CKPT_TRY(array(tree::path_segment(key), content, places[i]));
    }
    return tree_.end();
  }

  // What is compressed, one after another.
  Status unpack(const ZipReader& zip, const FileBytes& bytes, const ReadOptions& options,
                std::vector<FileRange>* places) {
    std::optional<OutputFile> room;
    std::vector<size_t> packed;
    for (const ZipEntry& entry : zip.entries()) {
      places->push_back({file_, entry.begin, entry.size});
      if (entry.method == 0) continue;
      if (bytes.is_remote()) return Status(CKPT_UNSUPPORTED, "a compressed archive on a server; download it");
      if (!room) {
        CKPT_ASSIGN(OutputFile made, OutputFile::temporary());
        room.emplace(std::move(made));
      }
      const uint64_t begin = room->size(), most = most_unpacked(bytes.size());
      const auto take = [&](Bytes piece) -> Status {
        CKPT_TRY(options.check());
        return room->write(piece);
      };
      CKPT_TRY(zip.content(entry, most - std::min(most, begin), take));
      packed.push_back(places->size() - 1);
      places->back() = {0, begin, entry.size};
      CKPT_TRY(room->write(as_bytes(std::string(round_up(room->size(), 64) - room->size(), '\0'))));
    }
    if (!room) return Ok();
    CKPT_ASSIGN(MappedFile mapped, room->map());
    const size_t number = out_.files.add(path_, InputFile(std::move(mapped)));
    for (const size_t place : packed) (*places)[place].file = number;
    return Ok();
  }

  // `content`: all of the .npy, at `at`.
  Status array(const std::string& name, Bytes content, FileRange at) {
    const Result<Header> header = parse_header(content);
    const Status status = header.ok() ? put(name, *header, content.size(), at) : header.status();
    return status.ok() ? status : put_cannot(tree_, status, path_ + ": " + name + ": " + status.message());
  }

  Status put(const std::string& name, const Header& header, uint64_t size, FileRange at) {
    const bool is_native =
        header.dtype.size() > 1 && std::string_view("<|=").find(header.dtype[0]) != header.dtype.npos;
    ForeignTensor tensor;
    tensor.dtype = is_native ? dtype_of_numpy(header.dtype.substr(1)) : uint16_t{0};
    if (tensor.dtype == 0)
      return Status(CKPT_UNSUPPORTED,
                    "an array of dtype " + shown(header.dtype) + "; expected little-endian numbers or booleans")
          .with("found", std::string(header.dtype));
    tensor.name = name;
    tensor.shape = header.shape;
    uint64_t count = 0, bytes = 0;
    if (!count_elements(tensor.shape.span(), &count) || !count_bytes(count, tensor.dtype, &bytes) ||
        bytes > size - header.size)
      return Status(CKPT_FORMAT,
                    strformat("an array of shape {} in {} bytes", to_text(tensor.shape), size - header.size));
    ForeignPiece& piece = tensor.pieces.emplace_back();
    if (bytes != 0) piece.bytes = {at.file, at.offset + header.size, bytes};
    if (header.columns && bytes != 0) {
      int64_t step = 1;
      Strides& strides = piece.strides.emplace();
      for (int i = 0; i < tensor.shape.ndim; i++) {
        strides[static_cast<size_t>(i)] = step;
        step *= static_cast<int64_t>(tensor.shape[i]);
      }
    }
    CKPT_TRY(tree_.begin(CKPT_NODE_RECORD, "numpy.ndarray"));
    CKPT_TRY(tree_.key("data"));
    CKPT_TRY(tree_.add_tensor(name));
    if (header.columns && tensor.shape.ndim > 1) {
      CKPT_TRY(tree_.key("order"));
      CKPT_TRY(tree_.add_text("F"));
    }
    CKPT_TRY(tree_.end());
    out_.tensors.push_back(std::move(tensor));
    return Ok();
  }

  const std::string& path_;
  ForeignCheckpoint out_;
  tree::Tree tree_;
  size_t file_ = 0, unchecked_ = 0;
};

}  // namespace

bool is_numpy(const Candidate& candidate) {
  if (candidate.is_directory) return false;
  const std::string_view head = candidate.head;
  if (head.starts_with(kMagic)) return true;
  constexpr size_t kLocalHeader = 30, kNameSize = 26;
  if (!head.starts_with("PK\x03\x04") || head.size() < kLocalHeader) return false;
  const size_t size = static_cast<unsigned char>(head[kNameSize]) | static_cast<unsigned char>(head[kNameSize + 1])
                                                                        << 8;
  return head.substr(kLocalHeader, size).ends_with(kEnding);
}

Result<ForeignCheckpoint> read_numpy(const std::string& path, const ReadOptions& options) {
  return NumpyReader(path).run(options);
}

}  // namespace ckpt::interop
