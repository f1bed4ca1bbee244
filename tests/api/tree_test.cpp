// State trees through the C API: saved with their tensors, read back; and what is refused. Every kind of node:
// tests/conformance/scenarios/trees_build.txt.
#include "ckpt_tree.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "api/ranks.h"

namespace ckpt_test {
namespace {

using Tree = std::unique_ptr<ckpt_tree, Freer<ckpt_tree_free>>;

CKPT_ON_EVERY_STORE(TreeInStore);

Tree new_tree() {
  ckpt_tree* tree = nullptr;
  Error error;
  EXPECT_EQ(ckpt_tree_new(&tree, error), CKPT_OK) << error.text();
  return Tree(tree);
}

Tree parse(const std::string& json) {
  ckpt_tree* tree = nullptr;
  Error error;
  EXPECT_EQ(ckpt_tree_parse(&tree, json.data(), json.size(), error), CKPT_OK) << error.text();
  return Tree(tree);
}

std::string json_of(const Tree& tree) {
  const char* json = nullptr;
  uint64_t size = 0;
  Error error;
  EXPECT_EQ(ckpt_tree_json(tree.get(), &json, &size, error), CKPT_OK) << error.text();
  return {json, size};
}

// One of everything, with two tensors.
constexpr const char* kFilled =
    R"({"model":{"$":"record","class":"torch.nn.parameter.Parameter","items":{"data":{"$":"tensor","name":"model"}}},)"
    R"("state":{"$":"dict","items":[[0,{"$":"tensor","name":"own name"}],["0",null],)"
    R"([-9223372036854775808,9223372036854775807]]},"values":{"$":"tuple","items":[true,-9223372036854775808,)"
    R"({"$":"int","value":"-9223372036854775809"},12,-0.0,{"$":"float","value":"nan"},{"$":"float","value":"-inf"},)"
    R"("a\u0000ä","",{"$":"bytes","base64":"AP8="},{"$":"set","items":[]},[]]}})";

TEST(Tree, RefusesNulls) {
  Error error;
  Tree tree = new_tree();
  ckpt_tree* t = tree.get();
  const char* json = nullptr;
  uint64_t size = 0;
  ckpt_node node{};
  EXPECT_EQ(ckpt_tree_new(nullptr, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_tree_add_null(nullptr, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_tree_add_text(t, nullptr, 1, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_tree_add_bigint(t, nullptr, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_tree_json(t, &json, &size, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_tree_begin(t, CKPT_NODE_RECORD, nullptr, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_tree_begin(t, CKPT_NODE_DICT, nullptr, error), CKPT_OK);
  EXPECT_EQ(ckpt_tree_at(t, 0, &node, error), CKPT_INVALID);  // no struct_size
  EXPECT_EQ(ckpt_tree_at(t, 0, nullptr, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_tree_parse(&t, "{]", 2, error), CKPT_FORMAT);
  EXPECT_EQ(t, tree.get()) << "an output was touched";
  EXPECT_EQ(ckpt_tree_node_count(nullptr), 0u);
  ckpt_tree_free(nullptr);
}

TEST(Tree, ACallerWithAShorterNodeGetsWhatItKnows) {
  Tree tree = parse("[5]");
  ckpt_node node{};
  node.struct_size = offsetof(ckpt_node, float_value);
  node.float_value = 7;
  Error error;
  ASSERT_EQ(ckpt_tree_at(tree.get(), 1, &node, error), CKPT_OK) << error.text();
  EXPECT_EQ(node.int_value, 5);
  EXPECT_EQ(node.float_value, 7);
}

TEST(Tree, AForkedChildCanOnlyFree) {
  Tree tree = parse("[5]");
  pid_t child = fork();
  if (child == 0) {
    auto node = sized<ckpt_node>();
    const char* json = nullptr;
    uint64_t size = 0;
    const bool refused = ckpt_tree_at(tree.get(), 0, &node, nullptr) == CKPT_FORKED &&
                         ckpt_tree_json(tree.get(), &json, &size, nullptr) == CKPT_FORKED &&
                         ckpt_tree_add_null(tree.get(), nullptr) == CKPT_FORKED;
    ckpt_tree_free(tree.get());
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Tree, ManyThreadsGetTheSameJson) {
  Tree tree = parse(kFilled);
  std::vector<const char*> texts(8);
  std::vector<std::thread> threads;
  for (auto& text : texts)
    threads.emplace_back([&] {
      uint64_t size = 0;
      EXPECT_EQ(ckpt_tree_json(tree.get(), &text, &size, nullptr), CKPT_OK);
    });
  for (auto& thread : threads) thread.join();
  for (const char* text : texts) EXPECT_EQ(text, texts[0]);
  EXPECT_STREQ(texts[0], kFilled);
}

// ---- in a checkpoint ----

ckpt_status read_tree(const Reader& reader, const char* name, Tree* out, Error& error) {
  ckpt_tree* tree = nullptr;
  ckpt_status status = ckpt_reader_tree(reader.get(), name, &tree, error);
  out->reset(tree);
  return status;
}

void add_tree(ckpt_save* save, const char* name, const Tree& tree) {
  Error error;
  EXPECT_EQ(ckpt_save_add_tree(save, name, tree.get(), error), CKPT_OK) << error.text();
}

TEST_P(TreeInStore, ComesBackWithItsTensors) {
  World world(place.uri(), 2);
  Tree tree = parse(kFilled), second = parse("[" + std::string(100000, ' ') + "\"" + std::string(50000, 'x') + "\"]");
  const char* names[] = {"model", "own name"};
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    ckpt_tensor_desc mine = whole(CKPT_DTYPE_F32, {5});
    mine.replica_count = 1;
    add(save, names[rank], mine, world.keep(pattern(20, rank)));
    if (rank == 0) add_tree(save, nullptr, tree);
    add_tree(save, "second", second);
  });
  Reader reader = open_reader(world.store);
  Error error;
  Tree found;
  for (const char* name : {static_cast<const char*>(nullptr), "state"}) {
    ASSERT_EQ(read_tree(reader, name, &found, error), CKPT_OK) << error.text();
    EXPECT_EQ(json_of(found), kFilled);
  }
  ASSERT_EQ(read_tree(reader, "second", &found, error), CKPT_OK) << error.text();
  EXPECT_EQ(json_of(found).size(), 50004u);
  EXPECT_EQ(read_tree(reader, "third", &found, error), CKPT_NOT_FOUND);
  EXPECT_NE(error.text().find("\"third\""), std::string::npos) << error.text();
}

// "[{"$":"tensor","name":"a"}, …]", with blanks to make it longer than what an index holds.
Tree tree_of(const std::vector<std::string>& names, size_t blanks = 0) {
  std::string json;
  for (const std::string& name : names)
    json += (json.empty() ? "" : ",") + (R"({"$":"tensor","name":")" + name + "\"}");
  return parse("{\"model\":[" + json + "],\"text\":\"" + std::string(blanks, 'x') + "\"}");
}

TEST_P(TreeInStore, ATensorThatNobodyAddedIsAMismatchBeforeTheCommit) {
  World world(place.uri(), 2);
  for (const size_t blanks : {0, 100000}) {
    const std::vector<Outcome> outcomes = world.save("a", {}, [&](uint32_t rank, ckpt_save* save) {
      add(save, "here", whole(CKPT_DTYPE_F32, {5}), world.keep(pattern(20, 1)));
      if (rank == 0) add_tree(save, nullptr, tree_of({"here", "gone", "here"}, blanks));
    });
    EXPECT_EQ(outcomes[0].status, CKPT_MISMATCH) << outcomes[0].text;
    EXPECT_EQ(outcomes[0].tensor, "gone");
    EXPECT_EQ(outcomes[0].ranks, "0");
    EXPECT_NE(outcomes[0].text.find("at \"model/1\""), std::string::npos) << outcomes[0].text;
    EXPECT_EQ(outcomes[1].status, CKPT_ABORTED) << outcomes[1].text;
  }
  EXPECT_EQ(committed_count(world.store), 0u);
}

TEST_P(TreeInStore, ATreeOfOneRankIsLookedAtToo) {
  World world(place.uri(), 2);
  const std::vector<Outcome> outcomes = world.save("a", {}, [&](uint32_t rank, ckpt_save* save) {
    const Tree tree = tree_of({"gone"});
    const std::string json = json_of(tree);
    Error error;
    if (rank == 0) return;
    EXPECT_EQ(
        ckpt_save_add_object(save, "mine", CKPT_TREE_MEDIA_TYPE, CKPT_OBJECT_PER_RANK, json.data(), json.size(), error),
        CKPT_OK)
        << error.text();
  });
  EXPECT_EQ(outcomes[0].status, CKPT_MISMATCH) << outcomes[0].text;
  EXPECT_EQ(outcomes[0].ranks, "1");
}

TEST_P(TreeInStore, TensorsOfOtherRanksAndAliasesCount) {
  World world(place.uri(), 3);
  std::vector<std::string> names;
  for (int i = 0; i < 3000; i++) names.push_back("layer." + std::to_string(i * 7919 % 3000));
  names.push_back("alias");
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    for (size_t i = rank; i < 3000; i += 3) {
      ckpt_tensor_desc mine = whole(CKPT_DTYPE_F32, {1});
      mine.replica_count = 1;
      add(save, names[i], mine, world.keep(pattern(4, i)));
    }
    Error error;
    if (rank == 0) add_tree(save, nullptr, tree_of(names));
    if (rank != 1) return;
    EXPECT_EQ(ckpt_save_add_alias(save, "alias", names[0].c_str(), nullptr, error), CKPT_OK) << error.text();
  });
  Tree found;
  Error error;
  EXPECT_EQ(read_tree(open_reader(world.store), nullptr, &found, error), CKPT_OK) << error.text();
}

}  // namespace
}  // namespace ckpt_test
