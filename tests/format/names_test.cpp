#include "format/names.h"
#include "base/text.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "base/text.h"

namespace ckpt::format {
namespace {

using namespace std::string_literals;
using std::string;
using std::string_view;
constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kMax32 = std::numeric_limits<uint32_t>::max();

// The last element, as Store::list would return it.
string last(const string& key) { return key.substr(key.rfind('/') + 1); }

uint64_t some_number(std::mt19937_64& random) { return random() >> random() % 64; }

string some_label(std::mt19937_64& random) {
  string_view characters = "ABCxyz0123456789._=+-";
  string label;
  for (size_t size = 1 + random() % 30; label.size() < size;) label += characters[random() % characters.size()];
  if (label[0] == '.') label[0] = '-';
  return label;
}

// Changes, inserts or removes characters, mostly those that occur in names.
string mutated(string name, std::mt19937_64& random) {
  string_view characters = "0019.._-PARTxaf/ A\x80+";
  for (uint64_t edits = 1 + random() % 3; edits > 0; edits--) {
    size_t at = random() % (name.size() + 1);
    char c = characters[random() % characters.size()];
    if (random() % 3 == 0)
      name.insert(at, 1, c);
    else if (at < name.size() && random() % 2 == 0)
      name.erase(at, 1);
    else if (at < name.size())
      name[at] = c;
  }
  return name;
}

// If `parse` accepts a name, `build` must make the same name from the result.
template <typename Parse, typename Build>
void expect_canonical(const string& name, std::mt19937_64& random, Parse parse, Build build) {
  auto value = parse(name);
  ASSERT_TRUE(value.has_value()) << name;
  ASSERT_EQ(build(*value), name);
  for (int i = 0; i < 20; i++) {
    string hostile = mutated(name, random);
    if (auto other = parse(hostile)) {
      ASSERT_EQ(build(*other), hostile);
    }
  }
}

TEST(Names, PartNamesHaveThreeDigitsOrMore) {
  EXPECT_EQ(part_name(0), "PART_000");
  EXPECT_EQ(part_name(3), "PART_003");
  EXPECT_EQ(part_name(999), "PART_999");
  EXPECT_EQ(part_name(1024), "PART_1024");
  EXPECT_EQ(part_name(kMax32), "PART_4294967295");
  EXPECT_EQ(base_name({1, 0xab}, 12), "BASE_0100000000000000ab00000000000000_012");
  EXPECT_EQ(parity_name(7), "PARITY_007");
}

TEST(Names, PartParserTakesOnlyCanonicalForms) {
  EXPECT_EQ(parse_part_name("PART_000"), 0u);
  EXPECT_EQ(parse_part_name("PART_010"), 10u);
  EXPECT_EQ(parse_part_name("PART_4294967295"), kMax32);
  for (const char* name : {"", "PART_", "PART_0", "PART_03", "PART_0003", "PART_01024", "PART_4294967296", "PART_-01",
                           "PART_+01", "PART_00a", "part_003", "PART_003 ", " PART_003", "PART_003.tmp.1", "PART003",
                           "BASE_003", "PART_0000", "PART_99999999999999999999999"})
    EXPECT_FALSE(parse_part_name(name)) << name;
  EXPECT_FALSE(parse_part_name(string("PART_003\0", 9)));
  const string id = "0100000000000000ab00000000000000";
  EXPECT_EQ(parse_base_name("BASE_" + id + "_012"), (BaseName{{1, 0xab}, 12}));
  for (const string& name : {"PART_003"s, "BASE_012"s, "BASE_" + id, "BASE_" + id + "_12", "BASE_" + id + "012",
                             "BASE_" + id.substr(1) + "_012", "BASE_" + id + "0_012", "BASE_" + id + "_012.tmp.1"})
    EXPECT_FALSE(parse_base_name(name)) << name;
  EXPECT_FALSE(parse_parity_name("BASE_003"));
}

TEST(Names, CheckpointDirIsParsedFromTheRight) {
  EXPECT_EQ(checkpoint_dir("step-100", 7, 1), "step-100.7.1");
  EXPECT_EQ(parse_checkpoint_dir("step-100.7.1"), (DirName{"step-100", 7, 1}));
  EXPECT_EQ(parse_checkpoint_dir("v1.2.3.4.5"), (DirName{"v1.2.3", 4, 5}));
  EXPECT_EQ(parse_checkpoint_dir("a..7.1"), (DirName{"a.", 7, 1}));
  EXPECT_EQ(parse_checkpoint_dir("a.18446744073709551615.0"), (DirName{"a", kMax64, 0}));
  for (const char* name : {"",
                           ".",
                           "..",
                           "a",
                           "a.1",
                           "7.1",
                           ".7.1",
                           "..7.1",
                           ".a.7.1",
                           "a.7.",
                           "a..1",
                           "a.07.1",
                           "a.7.01",
                           "a.7.1 ",
                           "a b.7.1",
                           "a/b.7.1",
                           "a.18446744073709551616.1",
                           "a.7.-1",
                           "a.7.x",
                           ".ckpt",
                           "a.7.1.tmp"})
    EXPECT_FALSE(parse_checkpoint_dir(name)) << name;
  EXPECT_FALSE(parse_checkpoint_dir(string(201, 'a') + ".7.1"));
  EXPECT_TRUE(parse_checkpoint_dir(string(200, 'a') + ".7.1"));
}

TEST(Names, LongestCheckpointDirFitsAFileNameAndAnInfoRecord) {
  EXPECT_LE(checkpoint_dir(string(200, 'a'), kMax64, kMax64).size(), 255u);
  EXPECT_LE(last(attempt_key(kMax64, kMax64, string(200, 'a'))).size(), 255u);
}

TEST(Names, KeysBelowControlDir) {
  Id nonce{0x0123456789abcdef, 1};
  EXPECT_EQ(owner_key(7), ".ckpt/owners/7");
  EXPECT_EQ(run_dir("main"), ".ckpt/runs/main");
  EXPECT_EQ(run_session_name(7, nonce), "7.efcdab89674523010100000000000000");
  EXPECT_EQ(parse_run_session_name(run_session_name(7, nonce)), (RunSession{7, nonce}));
  for (const string& name : {string("7"), string("7."), "07." + to_hex(nonce), string("."), string("7.efcdab89")})
    EXPECT_FALSE(parse_run_session_name(name)) << name;
  EXPECT_EQ(pruned_key(7, 1, "step-100"), ".ckpt/sessions/7/pruned.1.step-100");
  EXPECT_EQ(closed_key(7, 1, "step-100"), ".ckpt/sessions/7/closed.1.step-100");
  EXPECT_EQ(attempt_key(7, 1, "step-100"), ".ckpt/attempts/7.1.step-100");
  EXPECT_EQ(claim_key(7, 3), ".ckpt/sessions/7/rank.3");
  EXPECT_EQ(session_dir(7), ".ckpt/sessions/7");
  EXPECT_EQ(rendezvous_dir("main"), ".ckpt/rendezvous/main");
  EXPECT_EQ(hello_name(3, nonce), "hello.3.efcdab89674523010100000000000000");
  EXPECT_EQ(welcomes_dir("main"), ".ckpt/welcomes/main");
  EXPECT_EQ(welcome_name({7, 1}), "7.1");
  for (string_view directory :
       {kOwnersDir, kRunsDir, kAttemptsDir, kSessionsDir, kRendezvousDir, kWelcomesDir, kStoreId})
    EXPECT_TRUE(directory.starts_with(string(kControlDir) + "/"));
}

TEST(Names, ParseUndoesBuildAndTakesNothingElse) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; round++) {
    uint64_t token = some_number(random), attempt = some_number(random);
    uint32_t rank = static_cast<uint32_t>(some_number(random));
    string label = some_label(random);
    Id nonce{random(), random()};
    DirName dir{label, token, attempt};
    HelloName hello{rank, nonce};
    ASSERT_EQ(parse_part_name(part_name(rank)), rank);
    ASSERT_EQ(parse_base_name(base_name(nonce, rank)), (BaseName{nonce, rank}));
    ASSERT_EQ(parse_parity_name(parity_name(rank)), rank);
    ASSERT_EQ(parse_checkpoint_dir(checkpoint_dir(label, token, attempt)), dir);
    ASSERT_EQ(parse_attempt_name(last(attempt_key(token, attempt, label))), dir);
    ASSERT_EQ(parse_owner_name(last(owner_key(token))), token);
    ASSERT_EQ(parse_session_name(last(session_dir(token))), token);
    ASSERT_EQ(parse_claim_name(last(claim_key(token, rank))), rank);
    ASSERT_EQ(parse_hello_name(hello_name(rank, nonce)), hello);

    expect_canonical(part_name(rank % 2000), random, parse_part_name, part_name);
    expect_canonical(base_name(nonce, rank % 2000), random, parse_base_name,
                     [](const BaseName& b) { return base_name(b.save, b.rank); });
    expect_canonical(parity_name(rank % 2000), random, parse_parity_name, parity_name);
    expect_canonical(checkpoint_dir(label, token, attempt), random, parse_checkpoint_dir,
                     [](const DirName& d) { return checkpoint_dir(d.label, d.token, d.attempt); });
    expect_canonical(last(attempt_key(token, attempt, label)), random, parse_attempt_name,
                     [](const DirName& d) { return last(attempt_key(d.token, d.attempt, d.label)); });
    expect_canonical(last(owner_key(token)), random, parse_owner_name, [](uint64_t t) { return last(owner_key(t)); });
    expect_canonical(last(session_dir(token)), random, parse_session_name,
                     [](uint64_t t) { return last(session_dir(t)); });
    expect_canonical(last(claim_key(1, rank)), random, parse_claim_name,
                     [](uint32_t r) { return last(claim_key(1, r)); });
    expect_canonical(hello_name(rank, nonce), random, parse_hello_name,
                     [](const HelloName& h) { return hello_name(h.rank, h.nonce); });
  }
}

TEST(Names, NumbersDoNotOverflow) {
  EXPECT_EQ(parse_owner_name("18446744073709551615"), kMax64);
  for (const char* name : {"18446744073709551616", "99999999999999999999", "184467440737095516150", "", "00", "01",
                           "-1", "+1", " 1", "1 ", "0x1"})
    EXPECT_FALSE(parse_owner_name(name)) << name;
  EXPECT_EQ(parse_claim_name("rank.4294967295"), kMax32);
  EXPECT_FALSE(parse_claim_name("rank.4294967296"));
  EXPECT_FALSE(parse_claim_name("rank.18446744073709551616"));
}

TEST(Names, HelloNonceHasExactlyThirtyTwoLowerCaseDigits) {
  EXPECT_TRUE(parse_hello_name("hello.0.000102030405060708090a0b0c0d0e0f"));
  EXPECT_FALSE(parse_hello_name("hello.0.000102030405060708090A0b0c0d0e0f"));
  EXPECT_FALSE(parse_hello_name("hello.0.000102030405060708090a0b0c0d0e0"));
  EXPECT_FALSE(parse_hello_name("hello.0.000102030405060708090a0b0c0d0e0f0"));
  EXPECT_FALSE(parse_hello_name("hello.00.000102030405060708090a0b0c0d0e0f"));
  EXPECT_FALSE(parse_hello_name("hello.0"));
}

TEST(Names, AWelcomeHasATokenAndABatch) {
  EXPECT_EQ(parse_welcome_name("7.1"), (WelcomeName{7, 1}));
  for (const char* name : {"7", "7.", ".7", "7.x", "x.7", "7.1.1"}) EXPECT_FALSE(parse_welcome_name(name)) << name;
}

TEST(CheckLabel, TakesWhatFormatAllows) {
  for (const char* label : {"a", "step-100", "ep1-ba42", "v1.2.3", "a=b+c_d", "-", "0", "a."}) {
    EXPECT_TRUE(check_label(label).ok()) << label;
    EXPECT_TRUE(check_run(label).ok()) << label;
  }
  EXPECT_TRUE(check_label(string(200, 'x')).ok());
}

TEST(CheckLabel, RefusesTheRest) {
  for (const char* label : {"", ".", "..", ".ckpt", ".hidden", "a/b", "a b", "a\n", "a:b", "ä", "a*", "a\\b", "~"}) {
    EXPECT_EQ(check_label(label).code(), CKPT_INVALID) << label;
    EXPECT_EQ(check_run(label).code(), CKPT_INVALID) << label;
  }
  EXPECT_EQ(check_label(string(201, 'x')).code(), CKPT_INVALID);
  EXPECT_EQ(check_label(string("a\0b", 3)).code(), CKPT_INVALID);
}

TEST(CheckLabel, AllowsExactlyItsAlphabet) {
  string allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._=+-";
  for (int c = 0; c < 256; c++) {
    string label = string("x") + static_cast<char>(c);
    EXPECT_EQ(check_label(label).ok(), allowed.find(static_cast<char>(c)) != string::npos) << c;
  }
}

TEST(CheckLabel, ErrorIsOnePrintableLine) {
  EXPECT_EQ(check_label("a\nb").message(), R"(label "a\nb": expected only letters, digits and . _ = + -)");
  EXPECT_EQ(check_label("größe").message(), R"(label "größe": expected only letters, digits and . _ = + -)");
  EXPECT_EQ(check_label("a\xff").message(), R"(label "a\\xff": expected only letters, digits and . _ = + -)");
}

TEST(CheckTensorName, TakesPathsAndUnicode) {
  for (const char* name : {"w", "model.layers.0.weight", "a/b/c", "größe", "模型", "😀", "a..b", "...", "a/.../b",
                           "..a", "a..", "/", "a//b", " ", "."})
    EXPECT_TRUE(check_tensor_name(name).ok()) << name;
  EXPECT_TRUE(check_tensor_name(string(4096, 'x')).ok());
}

TEST(CheckTensorName, RefusesTheRest) {
  for (const char* name :
       {"", "..", "../a", "a/..", "a/../b", "/..", "../", "a\tb", "a\n", "\x7f", "\x1f", "a\x80", "\xc0\xaf"})
    EXPECT_EQ(check_tensor_name(name).code(), CKPT_INVALID) << name;
  EXPECT_EQ(check_tensor_name(string(4097, 'x')).code(), CKPT_INVALID);
  EXPECT_EQ(check_tensor_name(string("a\0", 2)).code(), CKPT_INVALID);
}

TEST(CheckTensorName, JudgesEveryByteOfNamesOfEverySizeAlike) {
  // Names are checked 16 bytes at a time. Nothing may slip through where two steps meet.
  for (size_t size = 1; size <= 70; size++)
    for (size_t at = 0; at < size; at++) {
      for (char wrong : {'\0', '\n', '\x1f', '\x7f', '\x80', '\xff'}) {
        string name(size, 'n');
        name[at] = wrong;
        ASSERT_EQ(check_tensor_name(name).code(), CKPT_INVALID) << size << " " << at;
      }
      for (char right : {' ', '.', '/', '~', '-'}) {
        string name(size, 'n');
        name[at] = right;
        ASSERT_TRUE(check_tensor_name(name).ok()) << name;
      }
      string dots(size, 'n');
      dots.replace(at, 2, "..");
      ASSERT_EQ(check_tensor_name(dots).ok(), dots != "..") << dots;
      for (const string& element : {"/.." + string(size - at, '/'), "/.."s}) {
        string path = string(at, 'n') + element;
        ASSERT_EQ(check_tensor_name(path).code(), CKPT_INVALID) << path;
      }
    }
}

TEST(CheckAttrKey, HasTwoHundredFiftyFiveBytesAtMost) {
  EXPECT_TRUE(check_attr_key("optimizer.lr").ok());
  EXPECT_TRUE(check_attr_key("..").ok());
  EXPECT_TRUE(check_attr_key(string(255, 'k')).ok());
  EXPECT_EQ(check_attr_key(string(256, 'k')).code(), CKPT_INVALID);
  EXPECT_EQ(check_attr_key("").code(), CKPT_INVALID);
  EXPECT_EQ(check_attr_key("a\nb").code(), CKPT_INVALID);
  EXPECT_EQ(check_attr_key("\xff").code(), CKPT_INVALID);
}

TEST(CheckText, TakesAnyUtf8WithoutNul) {
  EXPECT_TRUE(check_text("").ok());
  EXPECT_TRUE(check_text("{\n\t\"a\": 1\n}").ok());
  EXPECT_TRUE(check_text(string(1 << 20, 'x')).ok());
  EXPECT_EQ(check_text(string("a\0b", 3)).code(), CKPT_INVALID);
  EXPECT_EQ(check_text("\xed\xa0\x80").code(), CKPT_INVALID);
}

// Encodes without any rule, into the shortest form or one byte longer.
string encode_utf8(uint32_t code, int bytes) {
  string text;
  if (bytes == 1) return string(1, static_cast<char>(code));
  const unsigned lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (int i = 0; i < bytes; i++) {
    unsigned bits = code >> (6 * (bytes - 1 - i));
    text += static_cast<char>(i == 0 ? lead[bytes] | bits : 0x80 | (bits & 0x3f));
  }
  return text;
}

int shortest(uint32_t code) { return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; }

TEST(WentBackName, IsReadAsItIsWrittenAndNothingElseIs) {
  const WentBack went{{7, 3}, {5, 2}};
  EXPECT_EQ(parse_went_back_name(went_back_name(went)), went);
  for (const char* other : {"back.7.3.5", "back.7.3.5.2.1", "back.7.3.5.x", "back.7..5.2", "anew.7.3.5.2"})
    EXPECT_FALSE(parse_went_back_name(other)) << other;
}

TEST(ValidUtf8, TakesEveryCodePointInItsShortestFormOnly) {
  for (uint32_t code = 0; code < 0x200000; code++) {
    bool scalar = code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    string text = encode_utf8(code, shortest(code));
    ASSERT_EQ(valid_utf8(text), scalar) << code;
    for (int bytes = shortest(code) + 1; bytes <= 4; bytes++)
      ASSERT_FALSE(valid_utf8(encode_utf8(code, bytes))) << code;
    if (code % 97 == 0 && text.size() > 1) {
      ASSERT_FALSE(valid_utf8(text.substr(0, text.size() - 1))) << code;
      ASSERT_FALSE(valid_utf8(text.substr(1))) << code;
    }
  }
}

TEST(ValidUtf8, EveryPairOfBytesIsJudgedRight) {
  for (unsigned a = 0; a < 256; a++)
    for (unsigned b = 0; b < 256; b++) {
      char text[] = {static_cast<char>(a), static_cast<char>(b)};
      bool two = a >= 0xc2 && a <= 0xdf && b >= 0x80 && b <= 0xbf;
      ASSERT_EQ(valid_utf8({text, 2}), (a < 0x80 && b < 0x80) || two) << a << " " << b;
    }
}

}  // namespace
}  // namespace ckpt::format
