// Builds and parses every name that the engine gives to a file, and checks the names that callers give; nothing else
// does. Pure. A parser accepts exactly what its builder makes (numbers without leading zeros, hexadecimal in lower
// case), so a name in the store has one meaning or none.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::format {

inline constexpr std::string_view kManifestName = "MANIFEST";
inline constexpr std::string_view kControlDir = ".ckpt";
inline constexpr std::string_view kStoreId = ".ckpt/store";
inline constexpr std::string_view kOwnersDir = ".ckpt/owners";
inline constexpr std::string_view kRunsDir = ".ckpt/runs";
inline constexpr std::string_view kAttemptsDir = ".ckpt/attempts";
inline constexpr std::string_view kSessionsDir = ".ckpt/sessions";
inline constexpr std::string_view kBeatsDir = ".ckpt/beats";
inline constexpr std::string_view kCopyBeatsDir = ".ckpt/beats/copies";
inline constexpr std::string_view kRendezvousDir = ".ckpt/rendezvous";
inline constexpr std::string_view kWelcomesDir = ".ckpt/welcomes";
inline constexpr std::string_view kKeptDir = ".ckpt/kept";
inline constexpr std::string_view kGivenNamesDir = ".ckpt/names";

inline constexpr size_t kMaxAttrValue = 1 << 20;

// ---- names that callers give (FORMAT §7): INVALID with a reason ----
Status check_label(std::string_view label);       // 1-200 of [A-Za-z0-9._=+-], no leading dot
Status check_run(std::string_view run);           // the same
Status check_given_name(std::string_view name);   // the same
Status check_tensor_name(std::string_view name);  // of tensors, aliases, objects: 1-4096 bytes of text, no element ".."
Status check_attr_key(std::string_view key);      // 1-255 bytes of text
Status check_text(std::string_view text);         // any length, UTF-8 without NUL; line feeds are fine

// ---- files of a checkpoint ----
std::string part_name(uint32_t number);                             // "PART_003", "PART_1024"
std::string base_name(const Id& save, uint32_t rank);               // "BASE_<32 hexadecimal digits>_003"
std::string parity_name(uint32_t number);                           // "PARITY_003"
std::string slot_key(std::string_view directory);                   // "<directory>/MANIFEST"
std::string part_key(std::string_view directory, uint32_t number);  // "<directory>/PART_003"
std::string file_key(std::string_view directory, const std::string& name);
std::string holding_key(std::string_view directory,
                        uint32_t number);                            // "<directory>/HELD_003", while it is being saved
std::string holders_key(std::string_view directory);                 // "<directory>/HELD", the same
std::string group_key(std::string_view directory, uint32_t number);  // "<directory>/GROUP_003", while it is being saved
std::optional<uint32_t> parse_part_name(std::string_view name);
struct BaseName {
  Id save;
  uint32_t rank = 0;
  bool operator==(const BaseName&) const = default;
};
std::optional<BaseName> parse_base_name(std::string_view name);
std::optional<uint32_t> parse_parity_name(std::string_view name);

// ---- checkpoint directories: "<label>.<token>.<attempt>" ----
struct DirName {
  std::string label;
  uint64_t token = 0, attempt = 0;
  bool operator==(const DirName&) const = default;
};
std::string checkpoint_dir(std::string_view label, uint64_t token, uint64_t attempt);
std::optional<DirName> parse_checkpoint_dir(std::string_view name);

// ---- .ckpt: builders make whole keys, parsers take the last element as Store::list returns it ----
std::string owner_key(uint64_t token);  // ".ckpt/owners/7"
std::optional<uint64_t> parse_owner_name(std::string_view name);
// ".ckpt/runs/main": the sessions of a run, told without reading another run's records.
std::string run_dir(std::string_view run);
std::string run_session_name(uint64_t token, const Id& session);  // "7.<32 hexadecimal digits>"
struct RunSession {
  uint64_t token = 0;
  Id session;
  bool operator==(const RunSession&) const = default;
};
std::optional<RunSession> parse_run_session_name(std::string_view name);
std::string import_key(std::string_view run);  // ".ckpt/runs/import/import.lock": the import that has its turn locks it
std::string anew_name(uint64_t token);  // "anew.7" beside it: that session did not go on from what was there before
std::optional<uint64_t> parse_anew_name(std::string_view name);
// "back.7.3.5.2" beside it: session 7's third checkpoint went on from session 5's second, not from what came after
// that.
struct WentBack {
  std::pair<uint64_t, uint64_t> before, to;  // Summary::when()
  bool operator==(const WentBack&) const = default;
};
std::string went_back_name(const WentBack& went);
std::optional<WentBack> parse_went_back_name(std::string_view name);
std::string attempt_key(uint64_t token, uint64_t attempt, std::string_view label);  // ".ckpt/attempts/7.1.step-100"
std::optional<DirName> parse_attempt_name(std::string_view name);
// What such a record says of a directory that is being copied: "/copy <save id>". That of a save says its run, and no
// run has a '/'.
std::string copy_record(const Id& save);
bool is_copy_record(std::string_view text);
std::string kept_key(std::string_view directory, uint64_t number);  // ".ckpt/kept/step-100.7.1.2": see commit/kept.h
std::string given_names_dir(std::string_view run);                  // ".ckpt/names/main"
// ".ckpt/names/main/production.3": see checkpoint/given_names.h
std::string given_name_key(std::string_view run, std::string_view name, uint64_t number);
std::optional<std::string> parse_given_name(std::string_view file);  // the name
std::string session_dir(uint64_t token);                             // ".ckpt/sessions/7"
std::optional<uint64_t> parse_session_name(std::string_view name);
std::string mirror_key(const Id& mirror);                 // ".ckpt/mirror.<32 hexadecimal digits>": it was used
std::string names_key(uint64_t token, const Id& digest);  // ".ckpt/sessions/7/names.0123…": names that ranks hold
std::string claim_key(uint64_t token, uint32_t rank);     // ".ckpt/sessions/7/rank.3"
std::optional<uint32_t> parse_claim_name(std::string_view name);
std::string refusal_key(uint64_t token, uint32_t rank);  // ".ckpt/sessions/7/refused.3": why that rank does not come
std::optional<uint32_t> parse_refusal_name(std::string_view name);
// ".ckpt/sessions/7/ask.3.1", "….here.3.1": the first question to rank 3 whether it lives, and its answer.
std::string question_key(uint64_t token, uint32_t rank, uint64_t number);
std::string answer_key(uint64_t token, uint32_t rank, uint64_t number);
std::optional<uint64_t> parse_answer_name(std::string_view name, uint32_t rank);  // the number
std::string beats_dir(uint64_t token);  // ".ckpt/beats/7": of ranks that save, see session/liveness.h
// ".ckpt/beats/7/3.step-100.7.1": of one attempt, so that what an earlier one left says nothing of this one.
std::string beat_key(uint64_t token, uint32_t rank, std::string_view attempt);
std::optional<uint32_t> parse_beat_name(std::string_view name, std::string_view attempt);  // the rank, of this attempt
// ".ckpt/beats/copies/step-100.7.1.<32 hexadecimal digits>": each process that copies has its own.
std::string copy_beat_key(std::string_view directory, const Id& process);
std::optional<std::string> parse_copy_beat_name(std::string_view name);  // the directory
// ".ckpt/sessions/7/pruned.1.step-100": that attempt was committed, and removed since.
std::string pruned_key(uint64_t token, uint64_t attempt, std::string_view label);
// ".ckpt/sessions/7/closed.1.step-100": a newer session closed that attempt, and removed it.
std::string closed_key(uint64_t token, uint64_t attempt, std::string_view label);

// ---- rendezvous: names of files in rendezvous_dir ----
struct HelloName {
  uint32_t rank = 0;
  Id nonce;
  bool operator==(const HelloName&) const = default;
};
std::string rendezvous_dir(std::string_view run);        // ".ckpt/rendezvous/main"
std::string hello_name(uint32_t rank, const Id& nonce);  // "hello.3.<32 hexadecimal digits>"
std::optional<HelloName> parse_hello_name(std::string_view name);
std::string welcomes_dir(std::string_view run);  // ".ckpt/welcomes/main"
struct WelcomeName {
  uint64_t token = 0, batch = 0;
  bool operator==(const WelcomeName&) const = default;
};
std::string welcome_name(const WelcomeName& name);  // "7.1"
std::optional<WelcomeName> parse_welcome_name(std::string_view name);

}  // namespace ckpt::format
