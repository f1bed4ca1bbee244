// Files on a web server, opened and imported by their addresses: what is fetched, what is held, and what fails.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "paths.h"
#include "pt_fixture.h"
#include "s3/fault_proxy.h"
#include "s3/file_server.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

using store::FileServer;
using store::header_of;

// One file of several tensors with other bytes each, the names in another order than the data.
std::string safetensors(const std::vector<std::pair<std::string, size_t>>& tensors, unsigned seed = 1) {
  std::string json = "{", data;
  for (const auto& [name, size] : tensors) {
    json += (json.size() > 1 ? "," : "") +
            entry(name, "U8", "[" + std::to_string(size) + "]", data.size(), data.size() + size);
    data += pattern(size, seed++);
  }
  return file_of(padded(json + "}"), data);
}

class WebFile : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    unsetenv("CKPT_HTTP_TOKEN");
    must([&](auto** err) { return ckpt_options_new(&options_, err); });
  }
  void TearDown() override {
    ckpt_file_free(file_);
    ckpt_options_free(options_);
    StoreTest::TearDown();
  }

  std::string address(const std::string& name) const { return server_.address() + "/m/" + name; }
  Failure open(const std::string& url) {
    ckpt_file_free(file_);
    file_ = nullptr;
    return attempt([&](auto** err) { return ckpt_file_open(&file_, url.c_str(), options_, err); });
  }
  void set(const char* key, int64_t value) {
    must([&](auto** err) { return ckpt_options_set_int(options_, key, value, err); });
  }
  ckpt_file_tensor at(uint64_t index) {
    ckpt_file_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    must([&](auto** err) { return ckpt_file_tensor_at(file_, index, &tensor, err); });
    return tensor;
  }
  // Imported from the server, it is what an import of the file on this machine makes.
  void expect_same_import(const std::string& name, const std::string& bytes) {
    SCOPED_TRACE(name);
    server_.put("/m/" + name, bytes);
    write_file(path(name), bytes);
    const Failure here = import_from(path(name), "here-" + name);
    ASSERT_EQ(here.code, CKPT_OK) << here.message;
    const Failure there = import_from(address(name), "there-" + name);
    ASSERT_EQ(there.code, CKPT_OK) << there.message;
    EXPECT_EQ(differences("here-" + name, "import", "there-" + name, "import"), std::vector<std::string>());
    EXPECT_EQ(tree_of("here-" + name, "import"), tree_of("there-" + name, "import"));
  }

  FileServer server_;
  ckpt_options* options_ = nullptr;
  ckpt_file* file_ = nullptr;
};

// ---- opening ----

TEST_F(WebFile, WhatDescribesAFileIsFetchedAndItsTensorsAreNot) {
  server_.put("/m/a.safetensors", safetensors({{"b", 30 << 20}, {"a", 1 << 20}}));
  set("tensor_data", 0);
  const Failure opened = open(address("a.safetensors"));
  ASSERT_EQ(opened.code, CKPT_OK) << opened.message;
  EXPECT_EQ(ckpt_file_tensor_count(file_), 2u);
  EXPECT_EQ(std::string(at(0).name), "b");
  EXPECT_EQ(at(0).bytes, uint64_t{30} << 20);
  EXPECT_EQ(at(0).data, nullptr);
  EXPECT_EQ(at(0).data_bytes, 0u);
  EXPECT_LE(server_.sent(), 256u << 10);
  EXPECT_LE(server_.heads().size(), 2u);
}

TEST_F(WebFile, AHeaderLargerThanTheFirstRequestIsFetchedWhole) {
  std::vector<std::pair<std::string, size_t>> many;
  for (int i = 0; i < 5000; i++) many.emplace_back("tensor." + std::to_string(i), 400);
  server_.put("/m/a.safetensors", safetensors(many));
  const Failure opened = open(address("a.safetensors"));
  ASSERT_EQ(opened.code, CKPT_OK) << opened.message;
  ASSERT_EQ(ckpt_file_tensor_count(file_), 5000u);
  for (const uint64_t i : {0u, 1234u, 4999u})
    EXPECT_EQ(std::string(static_cast<const char*>(at(i).data), 400), pattern(400, static_cast<unsigned>(i + 1)));
}

TEST_F(WebFile, AllTensorsHaveTheirBytes) {
  server_.put("/m/a%20b.safetensors", safetensors({{"a", 20 << 20}, {"b", 7}}));
  const Failure opened = open(address("a%20b.safetensors?x=1#y"));
  ASSERT_EQ(opened.code, CKPT_OK) << opened.message;
  EXPECT_TRUE(std::string(static_cast<const char*>(at(0).data), 20 << 20) == pattern(20 << 20, 1));
  EXPECT_EQ(std::string(static_cast<const char*>(at(1).data), 7), pattern(7, 2));
}

// By the address of its .metadata, which names the files beside it.
TEST_F(WebFile, ADcpDirectoryIsImportedByRanges) {
  namespace fs = std::filesystem;
  for (const char* name : {"fsdp2", "zstd", "safetensors"}) {
    SCOPED_TRACE(name);
    const fs::path fixture = fs::path(CKPT_SOURCE_DIR) / "interop/tests/fixtures/dcp" / name;
    for (const auto& file : fs::directory_iterator(fixture))
      server_.put("/m/" + std::string(name) + '/' + file.path().filename().string(), read_file(file.path()));
    const std::string there = std::string("there-") + name;
    ASSERT_EQ(import_from(fixture, name).code, CKPT_OK);
    const Failure in = import_from(address(std::string(name) + "/.metadata"), there);
    ASSERT_EQ(in.code, CKPT_OK) << in.message;
    EXPECT_EQ(differences(name, "import", there, "import"), std::vector<std::string>());
    EXPECT_EQ(tree_of(name, "import"), tree_of(there, "import"));
  }
}

// Some servers answer with a page, some with nothing.
TEST_F(WebFile, ADirectoryIsRefusedWithWhatToNameInstead) {
  const std::string page = "<!DOCTYPE html><a href=rank0.pt>rank0.pt</a>";
  server_.put("/m/page", page);
  for (const auto& [name, code] :
       {std::pair("ranks/", CKPT_INVALID), {"ranks", CKPT_NOT_FOUND}, {"page", CKPT_FORMAT}}) {
    const Failure failure = import_from(address(name), "none");
    EXPECT_EQ(failure.code, code) << failure.message;
    for (const char* word : {"does not tell what a directory holds", ".metadata", "s3://"})
      EXPECT_NE(failure.message.find(word), std::string::npos) << failure.message;
  }
}

// {"w": float[rows, 3], "t": its transpose, "i": ints}, and padding that nobody needs.
std::string model(size_t rows, size_t padding) {
  using namespace pickled;
  const auto count = static_cast<int64_t>(rows);
  const std::string w = storage("0", "FloatStorage", 3 * count), other = storage("2", "LongStorage", 2);
  std::string value = dict({text("w"), tensor(w, 0, {count, 3}, {3, 1}), text("t"), tensor(w, 0, {3, count}, {1, 3}),
                            text("i"), tensor(other, 0, {2}, {1}), text("epoch"), integer(3)});
  return pt_of(value, {{"0", pattern(12 * rows)}, {"1", pattern(padding, 5)}, {"2", elements<int64_t>({7, 8})}});
}

TEST_F(WebFile, OfAPtItsDirectoryHeadersAndPickleAreFetched) {
  server_.put("/m/a.pt", model(1 << 20, 10 << 20));
  set("tensor_data", 0);
  set("verify", 0);
  Failure opened = open(address("a.pt"));
  ASSERT_EQ(opened.code, CKPT_OK) << opened.message;
  EXPECT_EQ(ckpt_file_tensor_count(file_), 3u);
  EXPECT_LE(server_.sent(), 256u << 10);
  set("tensor_data", 1);
  server_.forget();
  opened = open(address("a.pt"));
  ASSERT_EQ(opened.code, CKPT_OK) << opened.message;
  EXPECT_TRUE(std::string(static_cast<const char*>(at(0).data), 12 << 20) == pattern(12 << 20));
  EXPECT_LE(server_.sent(), (12u << 20) + (512u << 10)) << "storages that no tensor has";
  set("verify", 1);
  opened = open(address("a.pt"));
  EXPECT_EQ(opened.code, CKPT_OK) << opened.message;
}

TEST_F(WebFile, APtOfManyStoragesTakesFewRequests) {
  using namespace pickled;
  Items items;
  std::vector<StorageBytes> storages;
  for (int i = 0; i < 600; i++) {
    const std::string key = std::to_string(i);
    items.push_back(text("w" + key));
    items.push_back(tensor(storage(key, "FloatStorage", 100), 0, {100}, {1}));
    storages.push_back({key, pattern(400, static_cast<unsigned>(i))});
  }
  server_.put("/m/a.pt", pt_of(dict(items), storages));
  set("tensor_data", 0);
  const Failure opened = open(address("a.pt"));
  ASSERT_EQ(opened.code, CKPT_OK) << opened.message;
  EXPECT_EQ(ckpt_file_tensor_count(file_), 600u);
  EXPECT_LE(server_.heads().size(), 10u);
}

TEST_F(WebFile, ThePtFormOfBeforeIsFetchedWhole) {
  using namespace pickled;
  const std::string value = dict({text("w"), tensor(storage("0", "FloatStorage", 6), 0, {2, 3}, {3, 1})});
  const std::string data = elements<float>({0, 1, 2, 3, 4, 5});
  server_.put("/m/a.bin", legacy_of(value, {{"0", data}}));
  const Failure opened = open(address("a.bin"));
  ASSERT_EQ(opened.code, CKPT_OK) << opened.message;
  EXPECT_EQ(std::string(ckpt_file_format(file_)), "pt-legacy");
  EXPECT_EQ(std::string(static_cast<const char*>(at(0).data), data.size()), data);
}

TEST_F(WebFile, TheShardsOfAnIndexAreBesideItAndGetItsQueryAndHeader) {
  server_.put("/m/x-1.safetensors", safetensors({{"a", 100}}, 1));
  server_.put("/m/x-2.safetensors", safetensors({{"b", 200}}, 2));
  server_.put("/m/model.safetensors.index.json",
              R"({"metadata":{},"weight_map":{"a":"x-1.safetensors","b":"x-2.safetensors"}})");
  must([&](auto** err) { return ckpt_options_set_str(options_, "http_header", "X-Key: secret", err); });
  const Failure opened = open(address("model.safetensors.index.json?sig=1"));
  ASSERT_EQ(opened.code, CKPT_OK) << opened.message;
  ASSERT_EQ(ckpt_file_tensor_count(file_), 2u);
  EXPECT_EQ(std::string(static_cast<const char*>(at(1).data), 200), pattern(200, 2));
  for (const std::string& head : server_.heads()) {
    EXPECT_NE(head.find("?sig=1 "), head.npos) << head;
    EXPECT_EQ(header_of(head, "x-key"), "secret");
  }
  const std::string hostile = R"({"weight_map":{"a":"../x-1.safetensors"}})";
  server_.put("/m/model.safetensors.index.json", hostile);
  EXPECT_EQ(open(address("model.safetensors.index.json")).code, CKPT_FORMAT);
}

// ---- importing ----

TEST_F(WebFile, AnImportIsThatOfTheFileOnThisMachine) {
  expect_same_import("a.safetensors",
                     safetensors({{"z", 9 << 20}, {"y", 100}, {"x", 3}, {"b", 17 << 20}, {"a", 5000}}));
  expect_same_import("b.pt", model(1 << 20, 100));
  expect_same_import("empty.safetensors", safetensors({{"a", 0}}));
}

// Every view and dtype of one memory, and strides: what is not given back, or is fetched before.
TEST_F(WebFile, AnImportOfViewsThatOverlapHasTheirBytes) {
  using namespace pickled;
  const int64_t count = 3 << 20;
  auto floats = [&] { return storage("0", "FloatStorage", count); };
  const std::string value =
      dict({text("all"), tensor(floats(), 0, {count}, {1}), text("half"), tensor(floats(), 0, {count / 2}, {2}),
            text("ints"), tensor(storage("0", "IntStorage", count), 5, {count - 5}, {1}), text("columns"),
            tensor(storage("1", "ShortStorage", count), 0, {1024, count / 1024}, {1, 1024})});
  expect_same_import("a.pt", pt_of(value, {{"0", pattern(4 * count)}, {"1", pattern(2 * count, 9)}}));
}

TEST_F(WebFile, ManySmallTensorsAreFetchedTogether) {
  std::vector<std::pair<std::string, size_t>> many;
  for (int i = 0; i < 3000; i++) many.emplace_back("tensor." + std::to_string(100000 + i), 700);
  server_.put("/m/a.safetensors", safetensors(many));
  const Failure imported = import_from(address("a.safetensors"), "l");
  ASSERT_EQ(imported.code, CKPT_OK) << imported.message;
  EXPECT_LE(server_.heads().size(), 20u);
}

TEST_F(WebFile, AnImportMayCompressWhatItFetches) {
  const std::string bytes =
      file_of(padded("{" + entry("w", "F32", "[2000000]", 0, 8000000) + "}"), std::string(8000000, 'x'));
  server_.put("/m/a.safetensors", bytes);
  write_file(path("a.safetensors"), bytes);
  for (const char* compression : {"auto", "lz4"}) {
    ckpt_options* options = nullptr;
    must([&](auto** err) { return ckpt_options_new(&options, err); });
    must([&](auto** err) { return ckpt_options_set_str(options, "compression", compression, err); });
    must([&](auto** err) { return ckpt_options_set_str(options, "run", "import", err); });
    must([&](auto** err) {
      return ckpt_import(store_, address("a.safetensors").c_str(), compression, 3, options, nullptr, err);
    });
    ckpt_options_free(options);
    ASSERT_EQ(import_from(path("a.safetensors"), std::string("here-") + compression).code, CKPT_OK);
    EXPECT_EQ(differences(compression, "import", std::string("here-") + compression, "import"),
              std::vector<std::string>());
  }
}

// Each is spilled when it is read, and given back when another one is.
TEST_F(WebFile, TransposedTensorsAreReadInAnyOrder) {
  const size_t rows = 2000, columns = 1700, bytes = 4 * rows * columns;  // 13 MiB: more than is read at once
  const std::string data[] = {pattern(bytes, 1), pattern(bytes, 2)};
  server_.put("/m/a.safetensors", file_of(padded("{" + entry("a", "F32", "[2000,1700]", 0, bytes) + "," +
                                                 entry("b", "F32", "[2000,1700]", bytes, 2 * bytes) + "}"),
                                          data[0] + data[1]));
  write_file(path("map.json"), R"({"rules":[{"match":"{n}","to":"{n}","ops":["r c -> c r"],"cast":"f32"}]})");
  must([&](auto** err) { return ckpt_options_set_str(options_, "map", path("map.json").c_str(), err); });
  for (const int64_t has_data : {0, 1}) {
    set("tensor_data", has_data);
    ASSERT_EQ(open(address("a.safetensors")).code, CKPT_OK);
    for (const uint64_t index : {0, 1, 1, 0}) {
      const ckpt_tensor_desc desc = describe(CKPT_DTYPE_F32, {int64_t{columns}, int64_t{rows}});
      std::string found(bytes, '\0');
      must([&](auto** err) { return ckpt_file_read(file_, index, &desc, found.data(), found.size(), err); });
      bool same = true;
      for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < columns; column++)
          same &= std::memcmp(&found[4 * (column * rows + row)], &data[index][4 * (row * columns + column)], 4) == 0;
      EXPECT_TRUE(same) << index << has_data;
    }
  }
}

// What is compared, and told as `info`, is not what the next import put in its place.
TEST_F(WebFile, WhatWasImportedIsReadBackBeforeTheNextImportHasItsTurn) {
  server_.put("/m/a.safetensors", safetensors({{"a", 20 << 20}}));
  const std::string uri = path("store");
  ckpt_store* store = nullptr;
  must([&](auto** err) { return ckpt_store_open(&store, uri.c_str(), nullptr, err); });
  must([&](auto** err) { return ckpt_options_set_str(options_, "run", "import", err); });
  std::atomic<int> held = 0, taken = 0;
  server_.script([&](const std::string&) {
    if (!std::filesystem::exists(uri + "/l.1.1/MANIFEST")) return std::string();
    const int lock = ::open((uri + "/.ckpt/runs/import/import.lock").c_str(), O_RDWR | O_CLOEXEC);
    (::flock(lock, LOCK_EX | LOCK_NB) == 0 ? taken : held)++;
    ::close(lock);
    return std::string();
  });
  set("verify_after", 1);
  must(
      [&](auto** err) { return ckpt_import(store, address("a.safetensors").c_str(), "l", 1, options_, nullptr, err); });
  EXPECT_GT(held, 0) << "nothing was read back";
  EXPECT_EQ(taken, 0);
  ckpt_store_free(store);
}

// ---- what fails ----

TEST_F(WebFile, AFileThatChangesMeanwhileIsGoneAndNothingIsSaved) {
  server_.put("/m/a.safetensors", safetensors({{"a", 4 << 20}, {"b", 4 << 20}}));
  std::atomic<int> count = 0;
  server_.script([&](const std::string&) {
    if (++count == 3) server_.put("/m/a.safetensors", safetensors({{"a", 4 << 20}, {"b", 4 << 20}}, 77));
    return std::string();
  });
  const Failure failed = import_from(address("a.safetensors"), "l");
  EXPECT_EQ(failed.code, CKPT_GONE) << failed.message;
  EXPECT_NE(failed.message.find("a.safetensors was removed or replaced"), std::string::npos) << failed.message;
  ckpt_checkpoint_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(ckpt_store_find(store_, "label:l", nullptr, &info, nullptr), CKPT_NOT_FOUND);
}

TEST_F(WebFile, FailuresNameTheFileAndNoSecret) {
  server_.put("/m/text.txt", "hello there, this is text");
  const std::string with_user = "http://ann:secret@" + server_.address().substr(7) + "/m/";
  for (const auto& [url, status, words] :
       {std::tuple(with_user + "none.pt?secret", CKPT_NOT_FOUND, "none.pt is not there"),
        std::tuple(with_user + "text.txt?secret", CKPT_FORMAT, "it looks like text"),
        std::tuple(with_user + "?secret", CKPT_INVALID, "expected the address of a file")}) {
    const Failure failed = open(url);
    EXPECT_EQ(failed.code, status) << url << failed.message;
    EXPECT_NE(failed.message.find(words), std::string::npos) << failed.message;
    EXPECT_EQ(failed.message.find("secret"), std::string::npos) << failed.message;
    EXPECT_EQ(detail(failed, "path").find("secret"), std::string::npos);
  }
  save("a", {{floats("w", {3})}, {}, ""});
  const Failure failed = export_to(address("a.pt?secret"), "a");
  EXPECT_EQ(failed.code, CKPT_UNSUPPORTED);
  EXPECT_EQ(failed.message.find("secret"), std::string::npos) << failed.message;
}

TEST_F(WebFile, DamagedEntriesOfAPtAreCorrupt) {
  std::string bytes = model(1 << 16, 100);
  bytes[bytes.size() / 2] ^= 1;
  server_.put("/m/a.pt", bytes);
  const Failure failed = import_from(address("a.pt"), "l");
  EXPECT_EQ(failed.code, CKPT_CORRUPT) << failed.message;
  EXPECT_NE(failed.message.find("CRC-32"), std::string::npos) << failed.message;
}

TEST_F(WebFile, WhatPassesDelaysAnImportOnly) {
  const std::string bytes = safetensors({{"a", 4 << 20}, {"b", 20 << 20}});
  server_.put("/m/a.safetensors", bytes);
  write_file(path("a.safetensors"), bytes);
  ASSERT_EQ(import_from(path("a.safetensors"), "here").code, CKPT_OK);
  for (const store::Fault fault : {store::Fault::kReset, store::Fault::kError, store::Fault::kTruncate}) {
    store::FaultProxy proxy(server_.address());
    proxy.arm(fault, 4);
    const std::string label = std::string("l") + std::to_string(static_cast<int>(fault));
    const Failure imported = import_from(proxy.endpoint() + "/m/a.safetensors", label);
    ASSERT_EQ(imported.code, CKPT_OK) << imported.message;
    EXPECT_NE(proxy.struck(), "");
    EXPECT_EQ(differences("here", "import", label, "import"), std::vector<std::string>());
  }
}

}  // namespace
}  // namespace ckpt::interop
