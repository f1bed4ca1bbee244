#include "client.h"

#include <cstdlib>

namespace ckpt_bench {

static ckpt::Options options_of(const OptionValues& values) {
  ckpt::Options options;
  for (const auto& [key, value] : values) {
    const auto known = ckpt::option_find(key);
    if (known && known->kind == CKPT_OPTION_INT)
      options.set(key, std::atoll(value.c_str()));
    else
      options.set(key, value);
  }
  return options;
}

static ckpt::Tensor describe(const Range& range) {
  const auto& shape = range.tensor->shape;
  ckpt::Tensor tensor(range.tensor->dtype, shape);
  if (range.rows != shape[0]) {
    ckpt::Extents offset(shape.size()), extent = shape;
    offset[0] = range.first_row;
    extent[0] = range.rows;
    tensor.box(offset, extent);
  }
  return tensor;
}

Client::Client(const std::string& directory, const OptionValues& options)
    : options_(options_of(options)), store_(ckpt::Store::open(directory, options_)) {}

void Client::open_session(uint32_t rank, uint32_t world) {
  if (world > 1) options_.set("rendezvous", 1);
  session_ = ckpt::Session::open(store_, rank, world, "", options_);
}

ckpt::Save Client::new_save(const std::string& name, int64_t step, const Share& share, const std::byte* data) const {
  auto save = ckpt::Save::create(session_, name + "-" + std::to_string(step), step, options_);
  for (const auto& range : share.ranges)
    save.add_tensor(range.tensor->name, describe(range), {data + range.offset, range.bytes});
  return save;
}

ckpt::Load Client::new_load(const ckpt::Reader& reader, const Share& share, std::byte* data) const {
  auto load = ckpt::Load::create(reader, options_);
  for (const auto& range : share.ranges)
    load.add_tensor(range.tensor->name, describe(range), {data + range.offset, range.bytes});
  return load;
}

nlohmann::json stats_of(const ckpt::Job& job) {
  const ckpt::JobStats stats = job.stats();
  return {{"direct_io", stats.direct_io},
          {"io_engine", stats.io_engine},
          {"recycled", stats.recycled},
          {"threads", stats.threads},
          {"job_bytes_read", stats.bytes_read},
          {"job_bytes_written", stats.bytes_written},
          {"bytes_requested", stats.bytes_requested},
          {"staging_peak_bytes", stats.staging_peak_bytes},
          {"arena_us", stats.arena_us},
          {"stage_us", stats.stage_us},
          {"write_us", stats.write_us},
          {"commit_us", stats.commit_us},
          {"get_count", stats.get_count},
          {"put_count", stats.put_count},
          {"list_count", stats.list_count},
          {"delete_count", stats.delete_count},
          {"retry_count", stats.retry_count},
          {"bytes_sent", stats.bytes_sent},
          {"bytes_received", stats.bytes_received}};
}

}  // namespace ckpt_bench
