// Every kind of store for tests: a directory, memory, an object store at its weakest (weak_store.h), and an S3 server
// where tests/s3/run.sh has started one. And a run on one of them, with all its ranks.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/engine.h"
#include "maintain/copy.h"
#include "s3/server.h"
#include "store/remote_store.h"
#include "store/shell_store.h"
#include "store/weak_store.h"

namespace ckpt::commit {

// Makes handles of one store.
using Handles = std::function<std::shared_ptr<store::Store>()>;
struct Kind {
  std::string name;
  std::function<Handles()> make;
};
inline std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "ckpt-any.XXXXXX").string();
  Folder() { EXPECT_NE(mkdtemp(path.data()), nullptr); }
  Folder(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
};

inline Handles directory_store() {
  return [folder = std::make_shared<Folder>()] { return *store::open_posix(folder->path, {}); };
}

inline Handles memory_store() {
  return [store = fresh_memory_store()] { return store; };
}

// A store on a server, through a cache.
inline Handles cached_store() {
  struct Place {
    Folder folder;
    store::Requests requests;
  };
  return [place = std::make_shared<Place>()] {
    auto source =
        std::make_shared<store::RemoteStore>(*store::open_posix(place->folder.path + "/store", {}), place->requests);
    return *store::open_cache(std::move(source),
                              {.cache = {.directory = place->folder.path + "/cache", .bytes = store::kCacheRoom}});
  };
}

// The example of a store from outside, in a folder.
extern "C" ckpt_status ckpt_backend_init(ckpt_error** err);
inline Handles folder_backend() {
  static const ckpt_status registered = ckpt_backend_init(nullptr);
  EXPECT_EQ(registered, CKPT_OK);
  return [folder = std::make_shared<Folder>()] { return *store::open_store("folder://" + folder->path, {}); };
}

inline Handles weak_store(const store::Weakness& weakness) {
  return [bucket = std::make_shared<store::Bucket>(weakness)] { return std::make_shared<store::WeakStore>(bucket); };
}

inline std::vector<Kind> s3_kinds() {
  if (!store::s3_endpoint()) return {};
  return {Kind{"S3",
               [] { return [uri = store::fresh_s3_uri()] { return *store::open_bucket(uri, store::s3_options()); }; }}};
}

constexpr uint64_t kStateRows = 12, kStateColumns = 5;

inline ckpt_tensor_desc rows_of(uint32_t rank, uint32_t world) {
  return f32_rows(kStateRows, kStateColumns, kStateRows / world * rank, kStateRows / world);
}

inline std::vector<float> values_of(int64_t step, uint32_t rank, uint32_t world) {
  std::vector<float> values(kStateRows / world * kStateColumns);
  for (size_t i = 0; i < values.size(); i++)
    values[i] = static_cast<float>(step * 1000) + static_cast<float>(rank * values.size() + i);
  return values;
}

// One start of a run with all its ranks, each with its own handle of the store.
class Start {
 public:
  Start(const Handles& handles, uint32_t world) : world_(world) {
    ranks_.push_back(open_session(handles(), 0, world));
    for (uint32_t rank = 1; rank < world; rank++)
      ranks_.push_back(open_session(handles(), rank, world, ranks_[0]->string().c_str()));
  }
  const std::shared_ptr<session::Session>& rank(uint32_t rank) const { return ranks_[rank]; }
  // Saves on all ranks at once; what each of them is told.
  std::vector<Status> save(int64_t step, const SaveOptions& options = {}) {
    std::vector<Status> told(world_);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < world_; rank++)
      threads.emplace_back([&, rank] { told[rank] = save_on(rank, step, options); });
    for (auto& thread : threads) thread.join();
    return told;
  }
  Status save_on(uint32_t rank, int64_t step, const SaveOptions& options = {}) {
    CKPT_ASSIGN(auto save, save::Save::make(ranks_[rank], "s" + std::to_string(step), step, options));
    const std::vector<float> values = values_of(step, rank, world_);
    CKPT_TRY(save->add_tensor("w", rows_of(rank, world_), values.data(), values.size() * sizeof(float)));
    return run_whole(*save);
  }

 private:
  const uint32_t world_;
  std::vector<std::shared_ptr<session::Session>> ranks_;
};

inline Status all_ok(const std::vector<Status>& told) {
  for (const Status& status : told)
    if (!status.ok()) return status;
  return Ok();
}

// Loads what a selector picks on `world` ranks, and checks each value. The step that was loaded.
inline Result<int64_t> load(const Handles& handles, const std::string& selector, uint32_t world = 1) {
  int64_t step = -1;
  for (uint32_t rank = 0; rank < world; rank++) {
    CKPT_ASSIGN(auto checkpoint, checkpoint::Checkpoint::open(handles(), {selector, "main"}));
    CKPT_ASSIGN(auto load, load::Load::make(checkpoint, {}));
    std::vector<float> values(kStateRows / world * kStateColumns);
    CKPT_TRY(load->add_tensor("w", rows_of(rank, world), values.data(), values.size() * sizeof(float)));
    CKPT_TRY(run_whole(*load));
    step = checkpoint->summary().step;
    EXPECT_EQ(values, values_of(step, rank, world));
  }
  return step;
}

// The files of a checkpoint.
inline std::map<std::string, std::vector<std::byte>> files_of(const store::Store& store, const std::string& id) {
  std::map<std::string, std::vector<std::byte>> files;
  EXPECT_TRUE(checkpoint::await_listings(store).ok());
  auto entries = store.list(id);
  for (size_t i = 0; entries.ok() && i < entries->size(); i++) {
    const std::string& name = (*entries)[i].name;
    auto bytes = store.get(id + "/" + name, 1 << 30);
    EXPECT_TRUE(bytes.ok()) << name << ": " << bytes.status().message();
    if (bytes.ok()) files[name] = *bytes;
  }
  return files;
}

inline bool is_committed(const store::Store& store, const std::string& id) {
  auto slot = checkpoint::peek_slot(store, id);
  return slot.ok() && slot->committed;
}

// A store with one checkpoint.
inline std::shared_ptr<store::Store> small_source(uint32_t world = 2) {
  const Handles handles = memory_store();
  Start start(handles, world);
  const Status saved = all_ok(start.save(1));
  EXPECT_TRUE(saved.ok()) << saved.message();
  return handles();
}

// Leaves a copy that ends before the file `last`.
inline void copy_in_part(const std::shared_ptr<store::Store>& source, const std::shared_ptr<store::Store>& to,
                         const std::string& last) {
  auto target = std::make_shared<store::ShellStore>(to);
  target->before([&](std::string_view operation, std::string_view key) {
    return operation == "create" && key == last ? Status(CKPT_IO, "the cable") : Ok();
  });
  auto from = checkpoint::Checkpoint::open(source, {"latest", "main"});
  ASSERT_TRUE(from.ok()) << from.status().message();
  Report report;
  Job job;
  ASSERT_EQ(maintain::copy_checkpoint(**from, *target, {.threads = 1}, &report, job).code(), CKPT_IO);
}

// Changes one byte of a file in place, as a disk does it: whoever has the file open sees it.
inline void flip_file(const std::string& path, uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  char byte = 0;
  file.seekg(static_cast<std::streamoff>(at)).get(byte);
  file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte ^ 1));
  ASSERT_TRUE(file.good());
}

}  // namespace ckpt::commit
