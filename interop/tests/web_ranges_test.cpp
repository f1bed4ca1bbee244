// Ranges of a file on a web server: what a folder fetches, keeps, and gives back.
#include "interop/src/formats.h"
#include "interop/src/input_file.h"
#include "pt_fixture.h"
#include "s3/file_server.h"
#include "safetensors_fixture.h"

namespace ckpt::interop {
namespace {

using store::FileServer;

TEST(WebRanges, APtIsReadAlsoIfWhatWasCheckedIsGivenBack) {
  FileServer server;
  using namespace pickled;
  Items items;
  std::vector<StorageBytes> storages;
  for (int i = 0; i < 300; i++) {
    const std::string key = std::to_string(i);
    items.push_back(text("a longer name, so that the pickle takes some pages " + key));
    items.push_back(tensor(storage(key, "FloatStorage", 3000), 0, {3000}, {1}));
    storages.push_back({key, pattern(12000, static_cast<unsigned>(i))});
  }
  server.put("/m/a.pt", pt_of(dict(items), storages));
  auto folder = RemoteFolder::make(server.address() + "/m/a.pt", {}, 0);
  ASSERT_TRUE(folder.ok());
  ReadOptions options;
  options.threads = 2;
  options.folder = *folder;
  auto read = read_foreign((*folder)->path(), options);
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->tensors.size(), 300u);
  for (const size_t i : {0u, 150u, 299u}) {
    const auto bytes = read->files.bytes(read->tensors[i].pieces[0].bytes);
    ASSERT_TRUE(bytes.ok());
    EXPECT_TRUE(as_text(*bytes) == pattern(12000, static_cast<unsigned>(i)));
  }
}

TEST(WebRanges, WhatIsHereIsNotFetchedAgainAndWhatWasReleasedIs) {
  FileServer server;
  const std::string all = pattern(1 << 20);
  server.put("/m/a", all);
  auto folder = RemoteFolder::make(server.address() + "/m/a", {}, 0);
  ASSERT_TRUE(folder.ok());
  auto file = (*folder)->open((*folder)->path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto expect = [&](uint64_t begin, uint64_t end, size_t requests) {
    server.forget();
    ASSERT_TRUE((*file)->fetch({{begin, end}}).ok());
    EXPECT_EQ(server.heads().size(), requests) << begin << " " << end;
    EXPECT_EQ(as_text((*file)->bytes().subspan(begin, end - begin)), std::string_view(all).substr(begin, end - begin));
  };
  expect(100, 200, 1);
  expect(100, 200, 0);
  expect(150, 250, 1);
  expect(50, 300, 2);
  expect(20000, 30000, 1);
  expect(0, 40000, 3);
  EXPECT_EQ((*folder)->open((*folder)->path())->get(), file->get());
  (*file)->release({5000, 20000});  // the whole pages in it: 8192 to 16384
  expect(4096, 8192, 0);
  expect(16384, 40000, 0);
  EXPECT_EQ((*file)->bytes()[8192], std::byte{0});
  expect(0, 40000, 1);
  server.forget();
  ASSERT_TRUE((*file)->fetch({{100000, 100010}, {101000, 101010}, {300000, 300010}, {100005, 100008}}).ok());
  EXPECT_EQ(server.heads().size(), 2u) << "neighbours come together";
}

}  // namespace
}  // namespace ckpt::interop
