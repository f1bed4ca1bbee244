#include "client.h"

#include <algorithm>
#include <cstdlib>

namespace ckpt_bench {

static bool is_number(const std::string& key) {
  ckpt_option_info info{};
  info.struct_size = sizeof info;
  for (int32_t i = 0; i < ckpt_option_count(); i++) {
    call(ckpt_option_at, i, &info);
    if (key == info.key) return info.kind == CKPT_OPTION_INT;
  }
  return false;
}

Options options_of(const OptionValues& values) {
  Options options = make<Options>(ckpt_options_new);
  for (const auto& [key, value] : values) {
    if (is_number(key))
      call(ckpt_options_set_int, options.get(), key.c_str(), static_cast<int64_t>(std::atoll(value.c_str())));
    else
      call(ckpt_options_set_str, options.get(), key.c_str(), value.c_str());
  }
  return options;
}

ckpt_tensor_desc descriptor(const Piece& piece) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = piece.tensor->dtype;
  desc.ndim = static_cast<int32_t>(piece.tensor->shape.size());
  std::copy(piece.tensor->shape.begin(), piece.tensor->shape.end(), desc.shape);
  if (piece.rows != piece.tensor->shape[0]) {
    desc.region_kind = CKPT_REGION_BOX;
    std::copy(piece.tensor->shape.begin(), piece.tensor->shape.end(), desc.extent);
    desc.offset[0] = piece.first_row;
    desc.extent[0] = piece.rows;
  }
  return desc;
}

void Client::open_session(uint32_t rank, uint32_t world) {
  if (world > 1) call(ckpt_options_set_int, options_.get(), "rendezvous", int64_t{1});
  session_ = make<Session>(ckpt_session_open, store_.get(), rank, world, nullptr, options_.get());
}

Save Client::new_save(const std::string& label, const Share& share, const std::byte* data) const {
  Save save = make<Save>(ckpt_save_new, session_.get(), label.c_str(), int64_t{-1}, options_.get());
  for (const auto& piece : share.pieces) {
    ckpt_tensor_desc desc = descriptor(piece);
    call(ckpt_save_add_tensor, save.get(), piece.tensor->name.c_str(), &desc, data + piece.offset, piece.bytes,
         int32_t{CKPT_DEVICE_CPU}, 0);
  }
  return save;
}

Load Client::new_load(const Reader& reader, const Share& share, std::byte* data) const {
  Load load = make<Load>(ckpt_load_new, reader.get(), options_.get());
  for (const auto& piece : share.pieces) {
    ckpt_tensor_desc desc = descriptor(piece);
    call(ckpt_load_add_tensor, load.get(), piece.tensor->name.c_str(), &desc, data + piece.offset, piece.bytes,
         int32_t{CKPT_DEVICE_CPU}, 0);
  }
  return load;
}

Job start(const Save& save) {
  return make<Job>([&](ckpt_job** out, ckpt_error** error) { return ckpt_save_start(save.get(), out, error); });
}

Job start(const Load& load) {
  return make<Job>([&](ckpt_job** out, ckpt_error** error) { return ckpt_load_start(load.get(), out, error); });
}

void wait_until(const Job& job, int32_t state) { call(ckpt_job_wait, job.get(), state, int64_t{-1}); }

nlohmann::json stats_of(const Job& job) {
  ckpt_job_stats stats{};
  stats.struct_size = sizeof stats;
  call(ckpt_job_stats_get, job.get(), &stats);
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
          {"commit_us", stats.commit_us}};
}

}  // namespace ckpt_bench
