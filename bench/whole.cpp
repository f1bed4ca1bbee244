// Whole saves and loads beside the plain programs that move the same bytes, in one run and in turns (README of the
// figures: bench/RESULTS.md). Prints Markdown, writes JSON; fails only where something does not work, never for being
// slow.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "client.h"
#include "machine.h"
#include "raw_io.h"
#include "section.h"

namespace ckpt_bench {
namespace {

struct Settings {
  double gib = 2;
  unsigned rounds = 5;
  size_t small = 100000;
  size_t names = 1000000;
  std::string directory = "/tmp", json, commit, only;

  bool wants(const char* section) const { return only.empty() || only.find(section) != std::string::npos; }
};

double timed(const std::function<void()>& body) {
  double start = now();
  body();
  return now() - start;
}

// The files of one contender; each section has its own folder, which is empty again at its end.
class Folder {
 public:
  explicit Folder(const Settings& settings) : path_(settings.directory + "/ckpt-bench." + std::to_string(getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const char* name) const { return path_ + "/" + name; }
  // Deleted blocks are discarded by the disk; that must not run into what is measured next.
  void remove(const char* name) const {
    std::filesystem::remove_all(path_ + "/" + name);
    sync();
    usleep(300000);
  }

 private:
  std::string path_;
};

Model big_model(const Settings& settings) {
  constexpr size_t kTensors = 256;
  int64_t elements = static_cast<int64_t>(settings.gib * (1 << 30) / kTensors / 2) / 2048 * 2048;  // whole pages
  return Model(kTensors, CKPT_DTYPE_BF16, elements);
}

// ---- (a) durable save ----

Section bench_save(const Settings& settings, const Folder& folder) {
  Model model = big_model(settings);
  Memory source(model.bytes(), Memory::Fill::kRandom);
  std::unique_ptr<Client> client;
  auto back = [&] { back_free_memory(model.bytes() + (1 << 30)); };
  auto save = [&] { return timed([&] { call(ckpt_save_run, client->new_save("s", model, source.data()).get()); }); };
  auto open = [&] {
    back();
    client = std::make_unique<Client>(folder / "store");
    client->open_session();
  };
  auto close = [&] {
    client.reset();
    folder.remove("store");
  };
  auto remove = [&] { folder.remove("raw"); };
  return run_section(
      "Durable save", "raw O_DIRECT", model.bytes(), settings.rounds,
      {{"ckpt save", save, open, close},
       {"raw O_DIRECT", [&] { return write_direct(folder / "raw", source.data(), source.size()); }, back, remove},
       {"raw buffered + fsync", [&] { return write_buffered(folder / "raw", source.data(), source.size()); }, back,
        remove}});
}

// ---- (b) load ----

Section bench_load(const Settings& settings, const Folder& folder, bool cold) {
  Model model = big_model(settings);
  Client client(folder / "store");
  {
    Memory source(model.bytes(), Memory::Fill::kRandom);
    client.open_session();
    call(ckpt_save_run, client.new_save("s", model, source.data()).get());
    client.close_session();
    write_direct(folder / "raw", source.data(), source.size());
  }
  Memory target(model.bytes(), Memory::Fill::kZero);
  auto load = [&](int64_t verify) {
    return timed([&] {
      Reader reader = client.open_reader();
      call(ckpt_load_run, new_load(reader, model, target.data(), options_of({{"verify", verify}}).get()).get());
    });
  };
  std::string raw = folder / "raw";
  auto chill = [&] {
    if (!drop_caches()) std::fprintf(stderr, "  drop_caches was refused: this is not cold\n");
    back_free_memory(model.bytes() + (1 << 30));
  };
  auto warm_ckpt = [&] { load(0); };
  auto warm_raw = [&] { read_buffered(raw, target.data(), target.size()); };
  Section section;
  if (cold) {
    section = run_section(
        "Cold load", "raw O_DIRECT read", model.bytes(), settings.rounds,
        {{"ckpt load, verified", [&] { return load(1); }, chill},
         {"ckpt load, verify=0", [&] { return load(0); }, chill},
         {"raw O_DIRECT read", [&] { return read_direct(raw, target.data(), target.size()); }, chill},
         {"raw pread, 2 threads", [&] { return read_buffered(raw, target.data(), target.size()); }, chill}});
  } else {
    section = run_section(
        "Warm load", "raw pread, 2 threads", model.bytes(), settings.rounds,
        {{"ckpt load, verified", [&] { return load(1); }, warm_ckpt},
         {"ckpt load, verify=0", [&] { return load(0); }, warm_ckpt},
         {"raw pread, 2 threads", [&] { return read_buffered(raw, target.data(), target.size()); }, warm_raw}});
  }
  folder.remove("store");
  folder.remove("raw");
  return section;
}

// ---- (c) many small tensors ----

std::vector<Section> bench_small(const Settings& settings, const Folder& folder) {
  Model model(settings.small, CKPT_DTYPE_F32, 256);
  Memory source(model.bytes(), Memory::Fill::kRandom), target(model.bytes(), Memory::Fill::kZero);
  size_t raw_bytes = model.bytes() / 4096 * 4096;
  std::unique_ptr<Client> client;
  Save save;
  auto open = [&] {
    client = std::make_unique<Client>(folder / "store");
    client->open_session();
  };
  auto close = [&] {
    save.reset();
    client.reset();
    folder.remove("store");
  };
  auto fill = [&] {
    open();
    save = client->new_save("s", model, source.data());
  };
  std::string title = std::to_string(settings.small) + " tensors of 1 KiB: ";
  std::vector<Section> sections;
  sections.push_back(run_section(
      title + "save", "raw O_DIRECT blob", model.bytes(), settings.rounds,
      {{"ckpt save, adding included",
        [&] { return timed([&] { call(ckpt_save_run, client->new_save("s", model, source.data()).get()); }); }, open,
        close},
       {"ckpt save, run alone", [&] { return timed([&] { call(ckpt_save_run, save.get()); }); }, fill, close},
       {"raw O_DIRECT blob", [&] { return write_direct(folder / "raw", source.data(), raw_bytes); }, [] {},
        [&] { folder.remove("raw"); }}}));
  fill();
  call(ckpt_save_run, save.get());
  save.reset();
  client->close_session();
  write_direct(folder / "raw", source.data(), raw_bytes);
  Reader reader;
  Load prepared;
  auto prepare = [&] {
    reader = client->open_reader();
    prepared = new_load(reader, model, target.data());
  };
  auto load = [&] {
    return timed([&] { call(ckpt_load_run, new_load(client->open_reader(), model, target.data()).get()); });
  };
  sections.push_back(
      run_section(title + "load, warm", "raw pread blob", model.bytes(), settings.rounds,
                  {{"ckpt open + add + load", load, [] {}},
                   {"ckpt load, run alone", [&] { return timed([&] { call(ckpt_load_run, prepared.get()); }); },
                    prepare, [&] { prepared.reset(), reader.reset(); }},
                   {"ckpt open", [&] { return timed([&] { client->open_reader(); }); }},
                   {"raw pread blob", [&] { return read_buffered(folder / "raw", target.data(), raw_bytes); }}}));
  if (std::memcmp(source.data(), target.data(), raw_bytes) != 0) fail("the loaded bytes are not those saved");
  close();
  folder.remove("raw");
  return sections;
}

// ---- (d) open and list ----

std::string manifest_of(const Client& client) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(client.directory()))
    if (entry.path().filename() == "MANIFEST") return entry.path();
  fail("no MANIFEST");
}

void list_all(const Reader& reader) {
  ckpt_tensor_info info{};
  info.struct_size = sizeof info;
  uint64_t count = ckpt_reader_tensor_count(reader.get()), bytes = 0;
  for (uint64_t i = 0; i < count; i++) {
    call(ckpt_reader_tensor_at, reader.get(), i, &info);
    bytes += std::strlen(info.name) + info.bytes;
  }
  if (bytes == 0) fail("nothing listed");
}

Section bench_open(const Settings& settings, const Folder& folder, size_t count) {
  Model model(count, CKPT_DTYPE_F32, 1);
  Client client(folder / "store");
  double saved;
  {
    Memory source(model.bytes(), Memory::Fill::kRandom);
    client.open_session();
    PeakMemory memory;
    saved = timed([&] { call(ckpt_save_run, client.new_save("s", model, source.data()).get()); });
    std::fprintf(stderr, "  saved %zu names in %.2f s, %.0f MiB beyond the data\n", count, saved,
                 static_cast<double>(memory.beyond()) / (1 << 20));
    client.close_session();
  }
  std::string manifest = manifest_of(client);
  std::vector<std::byte> buffer(std::filesystem::file_size(manifest));
  Reader reader;
  char title[128];
  std::snprintf(title, sizeof title, "%zu names: open and list, warm (saved in %.2f s; manifest %.1f MiB)", count,
                saved, static_cast<double>(buffer.size()) / (1 << 20));
  Section section =
      run_section(title, "raw pread of MANIFEST", 0, settings.rounds,
                  {{"ckpt open + list", [&] { return timed([&] { list_all(client.open_reader()); }); }},
                   {"ckpt open", [&] { return timed([&] { reader = client.open_reader(); }); }},
                   {"ckpt list", [&] { return timed([&] { list_all(reader); }); },
                    [&] { reader = client.open_reader(); }, [&] { reader.reset(); }},
                   {"raw pread of MANIFEST", [&] { return read_buffered(manifest, buffer.data(), buffer.size()); }}});
  folder.remove("store");
  return section;
}

// ---- (e) the stall of a background save ----

Section bench_async(const Settings& settings, const Folder& folder) {
  Model model = big_model(settings);
  Memory source(model.bytes(), Memory::Fill::kRandom);
  auto target = std::make_unique<Memory>(model.bytes(), Memory::Fill::kZero);
  std::unique_ptr<Client> client;
  Options options = options_of({{"staging_bytes", static_cast<int64_t>(model.bytes() + (256 << 20))}});
  Save save;
  Job job;
  auto stall = [&] {
    return timed([&] {
      job = make<Job>([&](ckpt_job** out, ckpt_error** error) { return ckpt_save_start(save.get(), out, error); });
      call(ckpt_job_wait, job.get(), int32_t{CKPT_JOB_STAGED}, int64_t{-1});
    });
  };
  auto finish = [&] {
    call(ckpt_job_wait, job.get(), int32_t{CKPT_JOB_COMMITTED}, int64_t{-1});
    job.reset(), save.reset();
  };
  auto first = [&] {
    target.reset();
    back_free_memory(model.bytes() + (1 << 30));
    client = std::make_unique<Client>(folder / "store");
    client->open_session();
    save = client->new_save("first", model, source.data(), options.get());
  };
  auto second = [&] {
    first();
    stall();
    finish();
    save = client->new_save("second", model, source.data(), options.get());
  };
  auto close = [&] {
    finish();
    client.reset();
    folder.remove("store");
  };
  auto map_target = [&] {
    if (!target) target = std::make_unique<Memory>(model.bytes(), Memory::Fill::kZero);
  };
  return run_section(
      "Background save: start until staged", "memcpy, 2 threads", model.bytes(), settings.rounds,
      {{"ckpt, first save", stall, first, close},
       {"ckpt, second save", stall, second, close},
       {"memcpy, 2 threads", [&] { return copy_memory(source.data(), target->data(), source.size()); }, map_target}});
}

// ---- all ----

std::vector<Section> run_all(const Settings& settings) {
  Folder folder(settings);
  std::vector<Section> sections;
  if (settings.wants("save")) sections.push_back(bench_save(settings, folder));
  if (settings.wants("cold")) sections.push_back(bench_load(settings, folder, true));
  if (settings.wants("warm")) sections.push_back(bench_load(settings, folder, false));
  if (settings.wants("async")) sections.push_back(bench_async(settings, folder));
  if (settings.wants("small"))
    for (auto& section : bench_small(settings, folder)) sections.push_back(std::move(section));
  for (size_t count : std::set<size_t>{1000, 10000, 100000, settings.names})
    if (settings.wants("names") && count <= settings.names) sections.push_back(bench_open(settings, folder, count));
  return sections;
}

std::string heading(const Settings& settings, const MachineInfo& machine) {
  char text[1024];
  std::snprintf(text, sizeof text,
                "%s, commit %s: %s, %u cores, %s memory, kernel %s, %s. %.2g GiB of bf16 in 256 tensors, %u rounds in "
                "turns, medians; load average before: %.1f. "
                "\"Memory\" is resident memory beyond the caller's data, at its peak.\n\n",
                machine.date.c_str(), settings.commit.c_str(), machine.cpu.c_str(), machine.cores,
                machine.memory.c_str(), machine.kernel.c_str(), machine.filesystem.c_str(), settings.gib,
                settings.rounds, machine.load_average);
  return text;
}

nlohmann::json all_json(const Settings& settings, const MachineInfo& machine, const std::vector<Section>& sections) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& section : sections) list.push_back(to_json(section));
  return {{"date", machine.date},
          {"commit", settings.commit},
          {"cpu", machine.cpu},
          {"cores", machine.cores},
          {"memory", machine.memory},
          {"kernel", machine.kernel},
          {"filesystem", machine.filesystem},
          {"load_average", machine.load_average},
          {"gib", settings.gib},
          {"rounds", settings.rounds},
          {"sections", list}};
}

}  // namespace
}  // namespace ckpt_bench

int main(int argc, char** argv) {
  using namespace ckpt_bench;
  Settings settings;
  CLI::App app("Whole saves and loads beside plain programs that move the same bytes");
  app.add_option("--gib", settings.gib, "size of the big state")->capture_default_str()->check(CLI::Range(0.05, 64.0));
  app.add_option("--rounds", settings.rounds, "how often each contender runs")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--small", settings.small, "tensors of 1 KiB")->capture_default_str();
  app.add_option("--names", settings.names, "tensors of the largest checkpoint that is opened and listed")
      ->capture_default_str();
  app.add_option("--dir", settings.directory, "where to write; the disk that is measured")->capture_default_str();
  app.add_option("--json", settings.json, "file for the raw figures");
  app.add_option("--commit", settings.commit, "what is measured, for the heading");
  app.add_option("--only", settings.only, "sections to run: save,cold,warm,async,small,names");
  CLI11_PARSE(app, argc, argv);
  uint64_t needed = static_cast<uint64_t>(settings.gib * 3 * (1 << 30));
  if (available_memory() < needed + kReserve)
    fail("needs three times --gib and 8 GiB of free memory; choose a smaller --gib");
  MachineInfo machine = describe_machine(settings.directory);
  auto sections = run_all(settings);
  std::string text = heading(settings, machine);
  for (const auto& section : sections) text += to_markdown(section);
  std::fputs(text.c_str(), stdout);
  if (!settings.json.empty() &&
      !(std::ofstream(settings.json) << all_json(settings, machine, sections).dump(1) << "\n"))
    fail("cannot write " + settings.json);
}
