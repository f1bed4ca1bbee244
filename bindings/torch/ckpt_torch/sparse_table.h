// ckpt_torch/sparse_table.h - rows by 64-bit id: embeddings that grow, and their optimizer slots. ckpt_torch.h includes
// it.
//
//   State{model, optimizer, {}, {}, {{"items", {ids, {{"embedding", rows}, {"exp_avg", slots}}}}}}   // to save
//   auto reader = ckpt::Reader::open(ckpt::Store::open("/data/run7"), loaded.id);
//   SparseTable mine = ckpt_torch::load_table(reader, "items", ckpt::Rowset::slice(rank, world_size));
#ifndef CKPT_TORCH_SPARSE_TABLE_H
#define CKPT_TORCH_SPARSE_TABLE_H

#include <ATen/ATen.h>
#include <ckpt.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ckpt_torch {

// The rows that a rank has, or has loaded: row i of every column belongs to ids[i].
struct SparseTable {
  at::Tensor ids;                             // int64, of one dimension; each id once
  std::map<std::string, at::Tensor> columns;  // their first dimension counts rows
  std::vector<int64_t> missing = {};          // loaded by ids: those that the table lacks
};
using SparseTables = std::map<std::string, SparseTable>;

// Adds this rank's rows to a save of ckpt.hpp; all ranks give the table the same columns. Contiguous columns of the CPU
// are read where they lie, and those of one CUDA device too, behind its current stream; columns of several devices, and
// ids, are copied to the CPU. Keep what it returns until the save is staged. INVALID for tensors that do not fit each
// other; an id that is there twice is MISMATCH when the save runs.
std::vector<at::Tensor> add_table(ckpt::Save& save, const std::string& name, const SparseTable& table,
                                  uint64_t bucket_count = CKPT_TABLE_BUCKETS);

// Loads rows into new tensors: all, a slice, buckets, a remainder, or those of a list of ids, in its order. `columns`:
// only these; empty: all. `device`: of the columns, the CPU or CUDA (else UNSUPPORTED); ids are the CPU's. NOT_FOUND,
// MISMATCH (two ranks saved an id), and what else a load throws.
SparseTable load_table(const ckpt::Reader& reader, const std::string& name,
                       const ckpt::Rowset& rows = ckpt::Rowset::all(), const std::vector<std::string>& columns = {},
                       at::Device device = at::kCPU);
// The same for one window of a share of table `name`, where the rows are too many for memory.
SparseTable load_window(const ckpt::Reader& reader, const std::string& name, const ckpt::Share& share, uint64_t window,
                        const std::vector<std::string>& columns = {}, at::Device device = at::kCPU);

#ifdef CKPT_FILE_H  // ckpt has other programs' files
// The same of a table in another program's file (ckpt::File::tables), on the CPU.
SparseTable load_window(const ckpt::FileTable& table, const ckpt::FileShare& share, uint64_t window,
                        const std::vector<std::string>& columns = {});
#endif

}  // namespace ckpt_torch
#endif  // CKPT_TORCH_SPARSE_TABLE_H
