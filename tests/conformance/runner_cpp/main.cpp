// RUNNER TOKENS | RUNNER --commands: see ../README.md.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "runner.hpp"

namespace conformance {

// Jobs first: until they have ended, the engine uses the memory.
Runner::~Runner() {
  for (auto at = objects_.begin(); at != objects_.end();) {
    const auto* job = std::get_if<ckpt::Job>(&at->second);
    if (job) job->cancel();
    at = job ? objects_.erase(at) : std::next(at);
  }
}

// A scenario that frees a job wants its end; dropping the job of a save does not end it.
void Runner::free(const std::string& name) {
  const auto found = objects_.find(name);
  const auto* job = found == objects_.end() ? nullptr : std::get_if<ckpt::Job>(&found->second);
  if (job && job->state() < CKPT_JOB_COMMITTED) {
    job->cancel();
    (void)ckpt_job_wait(job->get(), CKPT_JOB_COMMITTED, -1, nullptr);
  }
  if (!objects_.erase(name)) fail("expected an object ", name, ", found none");
  owners_.erase(name);
  for (auto at = owners_.begin(); at != owners_.end();) {
    if (at->second != name) {
      ++at;
      continue;
    }
    objects_.erase(at->first);
    at = owners_.erase(at);
  }
}

void Runner::put_borrowed(const std::string& name, ckpt::TreeView tree, const std::string& owner) {
  put(name, Object(tree));
  owners_[name] = owner;
}

ckpt::TreeView Runner::tree(const std::string& name) {
  return owners_.count(name) ? get<ckpt::TreeView>(name) : get<ckpt::Tree>(name).view();
}

namespace {

// False at the end.
bool read_token(std::istream& file, Token* out) {
  size_t size = 0;
  if (!file.get(out->kind) || !(file >> size)) return false;
  out->value.resize(size);
  file.get();
  file.read(out->value.data(), static_cast<std::streamsize>(size)).get();
  if (std::string("=>ise~").find(out->kind) != std::string::npos) {
    const size_t sign = out->value.find('=');
    out->key = out->value.substr(0, sign);
    out->value.erase(0, sign + 1);
  }
  return true;
}

// The next command; nothing at the end.
std::optional<Call> read_call(std::istream& file) {
  Call call;
  for (Token token; read_token(file, &token);) switch (token.kind) {
      case ':':
        call.where = token.value;
        break;
      case 'c':
      case 't':
        call.name = token.value;
        call.timed = token.kind == 't';
        break;
      case 'w':
        call.words.push_back(token.value);
        break;
      case 'i':
        call.options.set(token.key, static_cast<int64_t>(std::stoll(token.value)));
        break;
      case 's':
        call.options.set(token.key, token.value);
        break;
      case '!':
        call.status = token.value;
        break;
      case '.':
        return call;
      default:
        (token.kind == '=' || token.kind == '>' ? call.keys : call.details).push_back(token);
    }
  return std::nullopt;
}

Commands all_commands() {
  Commands all;
  for (const Commands* some : {&kLibrary, &kMemory, &kStore, &kSave, &kJob, &kReader, &kLoad, &kTree, &kFile, &kTable})
    all.insert(some->begin(), some->end());
  return all;
}

void check_details(const Call& call, const ckpt::Error& error) {
  for (const Token& detail : call.details) {
    const auto fact = error.details().find(detail.key);
    const std::string found = detail.key == "message"         ? error.what()
                              : fact != error.details().end() ? fact->second
                                                              : "";
    const bool right = detail.kind == 'e' ? found == detail.value : found.find(detail.value) != std::string::npos;
    if (!right) fail("expected ", detail.key, " ", detail.kind, " '", detail.value, "', found '", found, "'");
  }
}

void carry_out(Runner& runner, const Call& call) {
  static const Commands all = all_commands();
  std::string found = "OK", message;
  const auto run = all.at(call.name);
  const auto start = std::chrono::steady_clock::now();
  try {
    run(runner, call);
  } catch (const ckpt::Error& error) {
    found = error.status_name();
    message = error.what();
    if (found == call.status) check_details(call, error);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (call.timed) std::printf("%.6f %s\n", seconds.count(), call.name.c_str());
  if (found != call.status) fail("expected ", call.status, ", found ", found, ": ", message);
}

int run(const char* path) {
  Runner runner;
  std::ifstream file(path, std::ios::binary);
  for (size_t count = 0;; count++) {
    auto call = read_call(file);
    if (!call) return std::printf("ok %zu\n", count) < 0;
    try {
      if (const auto job = call->text("job")) call->options.set_job(runner.get<ckpt::Job>(*job));
      carry_out(runner, *call);
    } catch (const std::exception& failure) {
      std::cerr << call->where << ": " << failure.what() << "\n";
      return 1;
    }
  }
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " TOKENS | --commands\n";
    return 2;
  }
  if (std::string(argv[1]) != "--commands") return conformance::run(argv[1]);
  for (const auto& command : conformance::all_commands()) std::cout << command.first << "\n";
  return 0;
}
