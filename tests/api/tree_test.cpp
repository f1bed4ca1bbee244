// State trees through the C API: built, read, saved with their tensors, read back; and what is refused.
#include "ckpt_tree.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <thread>

#include "api/ranks.h"

namespace ckpt_test {
namespace {

using namespace std::string_literals;
using Tree = std::unique_ptr<ckpt_tree, Freer<ckpt_tree_free>>;
constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();

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

ckpt_node at(const Tree& tree, uint64_t number) {
  ckpt_node node{};
  node.struct_size = sizeof node;
  Error error;
  EXPECT_EQ(ckpt_tree_at(tree.get(), number, &node, error), CKPT_OK) << error.text();
  return node;
}

uint64_t find(const Tree& tree, uint64_t parent, const char* key) {
  uint64_t found = CKPT_NODE_END;
  Error error;
  EXPECT_EQ(ckpt_tree_find(tree.get(), parent, key, &found, error), CKPT_OK) << error.text();
  return found;
}

std::string text_of(const ckpt_node& node) { return {node.text, node.text_size}; }

// Adds one of everything to `tree`. Returns the names of its two tensors.
std::vector<std::string> fill(ckpt_tree* tree) {
  std::vector<std::string> names;
  Error e;
  auto ok = [&](ckpt_status status) { EXPECT_EQ(status, CKPT_OK) << e.text(); };
  auto key = [&](const std::string& text) { ok(ckpt_tree_key(tree, text.data(), text.size(), e)); };
  auto tensor = [&](const char* name) {
    const char* path = nullptr;
    ok(ckpt_tree_add_tensor(tree, name, &path, e));
    names.push_back(path);
  };
  ok(ckpt_tree_begin(tree, CKPT_NODE_DICT, nullptr, e));
  key("model");
  ok(ckpt_tree_begin(tree, CKPT_NODE_RECORD, "torch.nn.parameter.Parameter", e));
  key("data");
  tensor(nullptr);
  ok(ckpt_tree_end(tree, e));
  key("state");
  ok(ckpt_tree_begin(tree, CKPT_NODE_DICT, nullptr, e));
  ok(ckpt_tree_key_int(tree, 0, e));
  tensor("own name");
  key("0");
  ok(ckpt_tree_add_null(tree, e));
  ok(ckpt_tree_key_int(tree, kMin, e));
  ok(ckpt_tree_add_int(tree, kMax, e));
  ok(ckpt_tree_end(tree, e));
  key("values");
  ok(ckpt_tree_begin(tree, CKPT_NODE_TUPLE, nullptr, e));
  ok(ckpt_tree_add_bool(tree, 7, e));
  ok(ckpt_tree_add_int(tree, kMin, e));
  ok(ckpt_tree_add_bigint(tree, "-9223372036854775809", e));
  ok(ckpt_tree_add_bigint(tree, "12", e));
  ok(ckpt_tree_add_float(tree, -0.0, e));
  ok(ckpt_tree_add_float(tree, NAN, e));
  ok(ckpt_tree_add_float(tree, -INFINITY, e));
  ok(ckpt_tree_add_text(tree, "a\0ä", 4, e));
  ok(ckpt_tree_add_text(tree, nullptr, 0, e));
  ok(ckpt_tree_add_bytes(tree, "\0\xff", 2, e));
  ok(ckpt_tree_begin(tree, CKPT_NODE_SET, nullptr, e));
  ok(ckpt_tree_end(tree, e));
  ok(ckpt_tree_begin(tree, CKPT_NODE_LIST, nullptr, e));
  ok(ckpt_tree_end(tree, e));
  ok(ckpt_tree_end(tree, e));
  ok(ckpt_tree_end(tree, e));
  return names;
}

constexpr const char* kFilled =
    R"({"model":{"$":"record","class":"torch.nn.parameter.Parameter","items":{"data":{"$":"tensor","name":"model"}}},)"
    R"("state":{"$":"dict","items":[[0,{"$":"tensor","name":"own name"}],["0",null],)"
    R"([-9223372036854775808,9223372036854775807]]},"values":{"$":"tuple","items":[true,-9223372036854775808,)"
    R"({"$":"int","value":"-9223372036854775809"},12,-0.0,{"$":"float","value":"nan"},{"$":"float","value":"-inf"},)"
    R"("a\u0000ä","",{"$":"bytes","base64":"AP8="},{"$":"set","items":[]},[]]}})";

TEST(Tree, HoldsWhatWasAddedToIt) {
  Tree tree = new_tree();
  EXPECT_EQ(fill(tree.get()), (std::vector<std::string>{"model", "own name"}));
  EXPECT_EQ(json_of(tree), kFilled);
  ASSERT_EQ(ckpt_tree_node_count(tree.get()), 20u);
  ckpt_node root = at(tree, 0);
  EXPECT_EQ(root.kind, CKPT_NODE_DICT);
  EXPECT_EQ(root.key_kind, CKPT_KEY_NONE);
  EXPECT_EQ(root.parent, CKPT_NODE_END);
  EXPECT_EQ(root.next_sibling, CKPT_NODE_END);
  EXPECT_EQ(root.child_count, 3u);
  ckpt_node record = at(tree, root.first_child);
  EXPECT_EQ(record.kind, CKPT_NODE_RECORD);
  EXPECT_EQ(std::string(record.key, record.key_size), "model");
  EXPECT_EQ(text_of(record), "torch.nn.parameter.Parameter");
  EXPECT_EQ(record.parent, 0u);
  ckpt_node state = at(tree, record.next_sibling);
  ckpt_node zero = at(tree, state.first_child), text_zero = at(tree, zero.next_sibling);
  EXPECT_EQ(zero.key_kind, CKPT_KEY_INT);
  EXPECT_EQ(zero.kind, CKPT_NODE_TENSOR);
  EXPECT_STREQ(zero.text, "own name");
  EXPECT_EQ(text_zero.key_kind, CKPT_KEY_TEXT);
  EXPECT_EQ(text_zero.kind, CKPT_NODE_NULL);
  EXPECT_EQ(at(tree, text_zero.next_sibling).key_int, kMin);
  EXPECT_EQ(at(tree, text_zero.next_sibling).int_value, kMax);
}

TEST(Tree, ValuesComeBackFromJson) {
  Tree tree = parse(kFilled);
  EXPECT_EQ(json_of(tree), kFilled);
  uint64_t node = at(tree, find(tree, 0, "values")).first_child;
  auto next = [&] {
    ckpt_node value = at(tree, node);
    node = value.next_sibling;
    return value;
  };
  EXPECT_EQ(next().bool_value, 1);
  EXPECT_EQ(next().int_value, kMin);
  ckpt_node big = next();
  EXPECT_EQ(big.kind, CKPT_NODE_BIGINT);
  EXPECT_STREQ(big.text, "-9223372036854775809");
  EXPECT_EQ(next().int_value, 12);
  ckpt_node zero = next();
  EXPECT_EQ(zero.kind, CKPT_NODE_FLOAT);
  EXPECT_TRUE(zero.float_value == 0 && std::signbit(zero.float_value));
  EXPECT_TRUE(std::isnan(next().float_value));
  EXPECT_EQ(next().float_value, -INFINITY);
  EXPECT_EQ(text_of(next()), "a\0ä"s);
  EXPECT_EQ(next().text_size, 0u);
  ckpt_node bytes = next();
  EXPECT_EQ(bytes.kind, CKPT_NODE_BYTES);
  EXPECT_EQ(text_of(bytes), "\0\xff"s);
  EXPECT_EQ(next().kind, CKPT_NODE_SET);
  EXPECT_EQ(next().kind, CKPT_NODE_LIST);
  EXPECT_EQ(node, CKPT_NODE_END);
}

TEST(Tree, FindsByKeyAndPlaceAndSaysWhatIsNotThere) {
  Tree tree = parse(R"({"a":{"$":"dict","items":[[5,[10,11]],["5",0]]}})");
  Error error;
  uint64_t found = 0;
  const uint64_t a = find(tree, 0, "a");
  ASSERT_EQ(ckpt_tree_find_int(tree.get(), a, 5, &found, error), CKPT_OK) << error.text();
  ASSERT_EQ(ckpt_tree_find_int(tree.get(), found, 1, &found, error), CKPT_OK) << error.text();
  EXPECT_EQ(at(tree, found).int_value, 11);
  EXPECT_EQ(at(tree, find(tree, a, "5")).kind, CKPT_NODE_INT);
  EXPECT_EQ(ckpt_tree_find(tree.get(), a, "x", &found, error), CKPT_NOT_FOUND);
  EXPECT_NE(error.text().find("key \"x\": not in \"a\""), std::string::npos) << error.text();
  EXPECT_EQ(ckpt_tree_find_int(tree.get(), a, 6, &found, error), CKPT_NOT_FOUND);
  EXPECT_EQ(ckpt_tree_find_int(tree.get(), 99, 6, &found, error), CKPT_NOT_FOUND);
  ckpt_node node{};
  node.struct_size = sizeof node;
  EXPECT_EQ(ckpt_tree_at(tree.get(), CKPT_NODE_END, &node, error), CKPT_NOT_FOUND);
}

TEST(Tree, RefusesNullsAndWhatIsOutOfPlace) {
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
  EXPECT_EQ(ckpt_tree_add_bigint(t, "1e5", error), CKPT_INVALID);
  EXPECT_EQ(ckpt_tree_json(t, &json, &size, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_tree_key(t, "a", 1, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_tree_begin(t, CKPT_NODE_RECORD, nullptr, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_tree_begin(t, CKPT_NODE_DICT, nullptr, error), CKPT_OK);
  EXPECT_EQ(ckpt_tree_add_null(t, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_tree_key(t, "a", 1, error), CKPT_OK);
  EXPECT_EQ(ckpt_tree_add_null(t, error), CKPT_OK);
  EXPECT_EQ(ckpt_tree_key(t, "a", 1, error), CKPT_INVALID);
  EXPECT_NE(error.text().find("\"a\" comes twice"), std::string::npos) << error.text();
  EXPECT_EQ(ckpt_tree_at(t, 0, &node, error), CKPT_INVALID);  // no struct_size
  EXPECT_EQ(ckpt_tree_at(t, 0, nullptr, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_tree_parse(&t, "{]", 2, error), CKPT_FORMAT);
  EXPECT_EQ(t, tree.get());
  EXPECT_EQ(ckpt_tree_parse(&t, R"({"$":"new"})", 11, error), CKPT_REVISION);
  EXPECT_EQ(error.detail("found"), "new");
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
    ckpt_node node{};
    node.struct_size = sizeof node;
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
  Tree tree = new_tree(), second = parse("[" + std::string(100000, ' ') + "\"" + std::string(50000, 'x') + "\"]");
  const auto names = fill(tree.get());
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

TEST_P(TreeInStore, ACheckpointWithoutOneHasADictOfItsTensors) {
  World world(place.uri(), 1);
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) {
    Error error;
    add(save, "b/c", whole(CKPT_DTYPE_F32, {5}), world.keep(pattern(20, 1)));
    add(save, "a", whole(CKPT_DTYPE_F32, {5}), world.keep(pattern(20, 1)));
    EXPECT_EQ(ckpt_save_add_alias(save, "alias", "a", nullptr, error), CKPT_OK) << error.text();
    EXPECT_EQ(ckpt_save_add_object(save, "state", "text/plain", CKPT_OBJECT_SHARED, "x", 1, error), CKPT_OK);
  });
  Reader reader = open_reader(world.store);
  Error error;
  Tree found;
  ASSERT_EQ(read_tree(reader, nullptr, &found, error), CKPT_OK) << error.text();
  EXPECT_EQ(json_of(found), R"({"a":{"$":"tensor","name":"a"},"alias":{"$":"tensor","name":"alias"},)"
                            R"("b/c":{"$":"tensor","name":"b/c"}})");
  EXPECT_EQ(read_tree(reader, "state", &found, error), CKPT_FORMAT);
  EXPECT_EQ(error.detail("found"), "text/plain");
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

TEST_P(TreeInStore, AnObjectThatIsNoTreeIsRefusedByName) {
  World world(place.uri(), 1);
  const std::string broken = "{\"a\":1,\"a\":2}";
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) {
    Error error;
    EXPECT_EQ(ckpt_save_add_object(save, "state", CKPT_TREE_MEDIA_TYPE, CKPT_OBJECT_SHARED, broken.data(),
                                   broken.size(), error),
              CKPT_OK);
    EXPECT_EQ(ckpt_save_add_tree(save, "open", new_tree().get(), error), CKPT_INVALID);
  });
  Reader reader = open_reader(world.store);
  Error error;
  Tree found;
  EXPECT_EQ(read_tree(reader, nullptr, &found, error), CKPT_FORMAT);
  EXPECT_NE(error.text().find("object \"state\": "), std::string::npos) << error.text();
  EXPECT_NE(error.text().find("comes twice"), std::string::npos) << error.text();
}

}  // namespace
}  // namespace ckpt_test
