#include <algorithm>

#include "interop/src/composer/format.h"
#include "interop/src/composer/tar.h"
#include "interop/src/composer/unpack.h"
#include "interop/src/json.h"
#include "interop/src/pt/format.h"
#include "interop/src/pt/source.h"

namespace ckpt::interop {

namespace {

Status no_pt(const std::string& path, const std::string& what) {
  return Status(CKPT_FORMAT, path + ": " + what + "; expected a .pt, or a tar with " + std::string(kComposerStates))
      .with("path", path);
}

// In a temporary file. What begins as nothing that is read is refused before more of it is unpacked.
Result<InputFile> unpack_file(const std::string& path, const char* packing, Bytes packed, const ReadOptions& options) {
  CKPT_ASSIGN(OutputFile file, OutputFile::temporary());
  const Status status = unpack(packing, packed, [&](Bytes piece) -> Status {
    CKPT_TRY(options.check());
    if (file.size() == 0 && !begins_as_tar(piece) && !PtSource::looks_like(piece))
      return no_pt(path, strformat("it looks like {} data of something else", packing));
    return file.write(piece);
  });
  if (!status.ok()) return Status(status).in(path).with("path", path);
  if (file.size() == 0) return no_pt(path, "it is empty");
  CKPT_ASSIGN(MappedFile mapped, file.map());
  return InputFile(std::move(mapped));
}

Result<Bytes> states_in(const std::string& path, Bytes tar, const std::vector<TarEntry>& entries) {
  const TarEntry* states = nullptr;
  for (const TarEntry& entry : entries) {
    if (entry.name != kComposerStates)
      return Status(CKPT_UNSUPPORTED, path + ": beside " + std::string(kComposerStates) + " the tar holds " +
                                          shown(entry.name) + "; unpack it")
          .with("path", path)
          .with("found", entry.name);
    if (states) return no_pt(path, "a tar with two " + std::string(kComposerStates));
    states = &entry;
  }
  if (!states) return no_pt(path, "a tar without files");
  return tar.subspan(states->offset, states->size);
}

const TarEntry* entry_of(const std::vector<TarEntry>& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &TarEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

bool is_nemo(const std::string& path, const std::vector<TarEntry>& entries) {
  return path.ends_with(".nemo") || entry_of(entries, kNemoWeights) || entry_of(entries, kNemoConfig);
}

Result<ForeignCheckpoint> read_nemo(const std::string& path, InputFile file, Bytes tar,
                                    const std::vector<TarEntry>& entries, const ReadOptions& options) {
  const TarEntry *weights = entry_of(entries, kNemoWeights), *config = entry_of(entries, kNemoConfig);
  if (!weights) {
    const bool is_sharded = std::ranges::any_of(entries, [](const TarEntry& entry) {
      return entry.name.ends_with(".metadata") || entry.name.ends_with(".distcp");
    });
    return Status(
               is_sharded ? CKPT_UNSUPPORTED : CKPT_FORMAT,
               strformat("{}: a .nemo {}", path,
                         is_sharded ? "with a directory of weights: unpack it (tar -xf), and import its model_weights"
                                    : "without " + std::string(kNemoWeights)))
        .with("path", path);
  }
  CKPT_ASSIGN(ForeignCheckpoint out,
              read_pt_in(path, std::move(file), tar.subspan(weights->offset, weights->size), options));
  out.format = "nemo";
  for (auto& [key, value] : out.attributes)
    if (key == "import.format") value = out.format;
  if (config) out.attributes.emplace_back(kNemoConfigAttr, as_text(tar.subspan(config->offset, config->size)));
  return out;
}

}  // namespace

bool is_composer(const Candidate& candidate) {
  if (candidate.is_directory || candidate.head.size() < Candidate::kHeadBytes) return false;
  if (packing_of(candidate.head)) return true;
  if (!begins_as_tar(as_bytes(candidate.head)) || PtSource::looks_like(as_bytes(candidate.head))) return false;
  const std::string_view name(candidate.head.c_str());
  // Python describes the entry first where its time is no whole second.
  return name.empty() || name == "/" || name == "." || name == "./" || name == "././@PaxHeader" ||
         candidate.path.ends_with(".nemo") || name.ends_with(kComposerStates) || name.ends_with(kNemoWeights) ||
         name.ends_with(kNemoConfig);
}

Result<ForeignCheckpoint> read_composer(const std::string& path, const ReadOptions& options) {
  if (options.folder)
    return Status(CKPT_UNSUPPORTED, path + ": an archive on a server is not read; download it").with("path", path);
  CKPT_ASSIGN(InputFile file, InputFile::open(path, nullptr));
  if (const char* packing = packing_of(as_text(file.addresses()))) {
    CKPT_ASSIGN(file, unpack_file(path, packing, file.addresses(), options));
  }
  const Bytes whole = file.addresses();
  if (!begins_as_tar(whole)) return read_pt_in(path, std::move(file), whole, options);
  Result<std::vector<TarEntry>> entries = read_tar(whole);
  if (!entries.ok()) return std::move(entries).status().in(path).with("path", path);
  if (is_nemo(path, *entries)) return read_nemo(path, std::move(file), whole, *entries, options);
  CKPT_ASSIGN(const Bytes states, states_in(path, whole, *entries));
  return read_pt_in(path, std::move(file), states, options);
}

}  // namespace ckpt::interop
