// One rank of a trainer that a test drives and kills. It reads commands line by line from standard input and answers
// each with one line, "STATUS <tab> ranks <tab> rank <tab> text". Its first line tells its process id.
//
//   open RANK WORLD STRING|- [key=value…]   session; text: its session string
//   save LABEL STEP [key=value…]            also shape=wrong, async=1, cancel=1, free=1, large=1, frozen=1
//   import PATH LABEL [key=value…]
//   export SELECTOR PATH [key=value…]
//   read PATH [key=value…]                  opens somebody's file, reads its first tensor, and closes it
//   hold SELECTOR [key=value…]              opens a reader and keeps it
//   load SELECTOR [key=value…]              opens a reader, loads all of a tensor, and closes it
//   check                                   loads and verifies what it holds
//   release
//   remove ID
//   prune [key=value…]
//   copy URI SELECTOR [key=value…]          from that store into this one
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <vector>

#include "api/small_state.h"
#include "ckpt_file.h"

namespace {

struct Command {
  std::vector<std::string> words;
  std::map<std::string, std::string> settings, extra;  // extra: for this program
};

struct State {
  ckpt_store* store = nullptr;
  ckpt_session* session = nullptr;
  ckpt_reader* reader = nullptr;
  uint32_t rank = 0, world = 1;
  ckpt_error* error = nullptr;
  std::string text;
};

Command parse(const std::string& line) {
  Command command;
  std::istringstream in(line);
  for (std::string word; in >> word;) {
    size_t equals = word.find('=');
    if (equals == std::string::npos) {
      command.words.push_back(word);
      continue;
    }
    std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    bool own =
        key == "shape" || key == "async" || key == "cancel" || key == "free" || key == "large" || key == "frozen";
    (own ? command.extra : command.settings)[key] = value;
  }
  return command;
}

ckpt_options* options_of(const Command& command) {
  ckpt_options* options = nullptr;
  if (ckpt_options_new(&options, nullptr) != CKPT_OK) std::abort();
  for (const auto& [key, value] : command.settings) {
    bool number = isdigit(static_cast<unsigned char>(value[0])) != 0;
    ckpt_status status = number ? ckpt_options_set_int(options, key.c_str(), std::stoll(value), nullptr)
                                : ckpt_options_set_str(options, key.c_str(), value.c_str(), nullptr);
    if (status != CKPT_OK) std::abort();
  }
  return options;
}

ckpt_status open(State& state, const Command& command, const ckpt_options* options) {
  ckpt_session_free(state.session);
  state.session = nullptr;
  state.rank = static_cast<uint32_t>(std::stoul(command.words[1]));
  state.world = static_cast<uint32_t>(std::stoul(command.words[2]));
  const char* string = command.words[3] == "-" ? nullptr : command.words[3].c_str();
  ckpt_status status =
      ckpt_session_open(&state.session, state.store, state.rank, state.world, string, options, &state.error);
  if (status == CKPT_OK) state.text = ckpt_session_string(state.session);
  return status;
}

ckpt_status run(State& state, const Command& command, ckpt_save* save) {
  const bool frees = command.extra.count("free") != 0;  // as soon as its memory is its own again
  if (!command.extra.count("async") && !command.extra.count("cancel") && !frees)
    return ckpt_save_run(save, &state.error);
  ckpt_job* job = nullptr;
  ckpt_status status = ckpt_save_start(save, &job, &state.error);
  if (status == CKPT_OK && command.extra.count("cancel")) {
    status = ckpt_job_wait(job, CKPT_JOB_WRITTEN, -1, &state.error);
    if (status == CKPT_OK) ckpt_job_cancel(job);
  }
  if (status == CKPT_OK) status = ckpt_job_wait(job, frees ? CKPT_JOB_STAGED : CKPT_JOB_COMMITTED, -1, &state.error);
  ckpt_job_free(job);
  return status;
}

ckpt_status save(State& state, const Command& command, const ckpt_options* options) {
  ckpt_save* save = nullptr;
  int64_t step = std::stoll(command.words[2]);
  ckpt_status status = ckpt_save_new(&save, state.session, command.words[1].c_str(), step, options, &state.error);
  if (status == CKPT_OK) {
    state.text = ckpt_save_id(save);
    status = small_state::add(save, state.rank, state.world, step, command.extra.count("shape") != 0, &state.error);
  }
  if (status == CKPT_OK && command.extra.count("large")) status = small_state::add_large(save, step, &state.error);
  if (status == CKPT_OK && command.extra.count("frozen")) status = small_state::add_frozen(save, &state.error);
  if (status == CKPT_OK && command.extra.count("frozen"))
    status = small_state::add_table(save, state.rank, state.world, step, &state.error);
  if (status == CKPT_OK) status = run(state, command, save);
  ckpt_save_free(save);
  return status;
}

ckpt_status check(State& state) {
  auto verdict = small_state::check(state.reader);
  state.text = verdict.text;
  return verdict.status;
}

ckpt_status copy(State& state, const Command& command, const ckpt_options* options) {
  ckpt_store* from = nullptr;
  ckpt_reader* reader = nullptr;
  ckpt_status status = ckpt_store_open(&from, command.words[1].c_str(), nullptr, &state.error);
  if (status == CKPT_OK) status = ckpt_reader_open(&reader, from, command.words[2].c_str(), options, &state.error);
  if (status == CKPT_OK) status = ckpt_reader_copy(reader, state.store, options, nullptr, &state.error);
  ckpt_reader_free(reader);
  ckpt_store_free(from);
  return status;
}

ckpt_status load(State& state, const Command& command, const ckpt_options* options) {
  ckpt_reader* reader = nullptr;
  ckpt_load* load = nullptr;
  ckpt_status status = ckpt_reader_open(&reader, state.store, command.words[1].c_str(), options, &state.error);
  if (status == CKPT_OK) status = ckpt_load_new(&load, reader, options, &state.error);
  ckpt_tensor_info info = {};
  info.struct_size = sizeof info;
  if (status == CKPT_OK) status = ckpt_reader_tensor_at(reader, 0, &info, &state.error);
  std::vector<unsigned char> memory(info.bytes);
  ckpt_tensor_desc desc = {};
  desc.struct_size = sizeof desc;
  desc.dtype = info.dtype;
  desc.ndim = info.ndim;
  for (int i = 0; i < info.ndim; i++) desc.shape[i] = info.shape[i];
  if (status == CKPT_OK)
    status =
        ckpt_load_add_tensor(load, info.name, &desc, memory.data(), memory.size(), CKPT_DEVICE_CPU, 0, &state.error);
  if (status == CKPT_OK) status = ckpt_load_run(load, &state.error);
  if (status == CKPT_TIMEOUT) new std::vector<unsigned char>(std::move(memory));  // a thread that was left may use it
  ckpt_load_free(load);
  ckpt_reader_free(reader);
  return status;
}

ckpt_status write_out(State& state, const Command& command, const ckpt_options* options) {
  ckpt_reader* reader = nullptr;
  ckpt_status status = ckpt_reader_open(&reader, state.store, command.words[1].c_str(), options, &state.error);
  if (status == CKPT_OK) status = ckpt_export(reader, command.words[2].c_str(), options, &state.error);
  ckpt_reader_free(reader);
  return status;
}

// The first tensor of somebody's file.
ckpt_status read_file(State& state, const Command& command, const ckpt_options* options) {
  ckpt_file* file = nullptr;
  ckpt_status status = ckpt_file_open(&file, command.words[1].c_str(), options, &state.error);
  ckpt_file_tensor info = {};
  info.struct_size = sizeof info;
  if (status == CKPT_OK) status = ckpt_file_tensor_at(file, 0, &info, &state.error);
  ckpt_tensor_desc desc = {};
  desc.struct_size = sizeof desc;
  desc.dtype = info.dtype;
  desc.ndim = info.ndim;
  std::copy_n(info.shape, CKPT_MAX_NDIM, desc.shape);
  auto* memory = new std::vector<unsigned char>(info.bytes);  // never freed: a thread that was left may use it
  if (status == CKPT_OK) status = ckpt_file_read(file, 0, &desc, memory->data(), memory->size(), &state.error);
  ckpt_file_free(file);
  return status;
}

ckpt_status execute(State& state, const Command& command, const ckpt_options* options) {
  const std::string& verb = command.words[0];
  if (verb == "open") return open(state, command, options);
  if (verb == "save") return save(state, command, options);
  if (verb == "import")
    return ckpt_import(state.store, command.words[1].c_str(), command.words[2].c_str(), 0, options, nullptr,
                       &state.error);
  if (verb == "export") return write_out(state, command, options);
  if (verb == "read") return read_file(state, command, options);
  if (verb == "hold")
    return ckpt_reader_open(&state.reader, state.store, command.words[1].c_str(), options, &state.error);
  if (verb == "load") return load(state, command, options);
  if (verb == "check") return check(state);
  if (verb == "remove") return ckpt_store_remove(state.store, command.words[1].c_str(), &state.error);
  if (verb == "prune") return ckpt_store_prune(state.store, options, nullptr, &state.error);
  if (verb == "copy") return copy(state, command, options);
  if (verb == "release") {
    ckpt_reader_free(state.reader);
    state.reader = nullptr;
    return CKPT_OK;
  }
  std::abort();
}

void answer(State& state, ckpt_status status) {
  auto detail = [&](const char* key) {
    const char* value = ckpt_error_detail(state.error, key);
    return std::string(value ? value : "");
  };
  std::string line = std::string(ckpt_status_name(status)) + "\t" + detail("ranks") + "\t" + detail("rank") + "\t" +
                     (state.error ? ckpt_error_message(state.error) : state.text) + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // the test attaches strace
  State state;
  if (ckpt_store_open(&state.store, argv[1], nullptr, nullptr) != CKPT_OK) return 3;
  state.text = std::to_string(getpid());
  answer(state, CKPT_OK);
  for (std::string line; std::getline(std::cin, line);) {
    Command command = parse(line);
    ckpt_options* options = options_of(command);
    state.text.clear();
    ckpt_error_free(state.error);
    state.error = nullptr;
    ckpt_status status = execute(state, command, options);
    ckpt_options_free(options);
    answer(state, status);
  }
  ckpt_reader_free(state.reader);
  ckpt_session_free(state.session);
  ckpt_store_free(state.store);
  ckpt_error_free(state.error);
}
