/* ckpt_file.h - other people's checkpoint files: saved into a store, written from a checkpoint, opened in place.
 *
 * No Python is needed, and no code in a file is executed. ckpt.h has the conventions of calls. All of this is a library
 * of its own above libckpt: libckpt_files, `pkg-config ckpt-files`, of the same version. -DCKPT_INTEROP=OFF leaves it
 * out.
 */
#ifndef CKPT_FILE_H
#define CKPT_FILE_H

#include "ckpt_tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0": of the loaded libckpt_files. Static text. */
CKPT_API const char* ckpt_file_version_string(void);

/* ---- import and export ------------------------------------------------------------------------------------ */

/* Saves other people's files as a checkpoint. The content decides what they are, and no code in them runs.
 *
 *   path      a PyTorch .pt, a directory of torch.distributed.checkpoint (DCP), an hfai directory of PART_*.pt, a
 *             safetensors file, a Hugging Face set (a directory or its index.json), a directory of Hugging Face's
 *             Trainer, of accelerate, torchtune, Meta, OLMo, RecIS, DeepSpeed or Megatron, one of a .pt of each rank, a
 *             pipeline of diffusers, or a file of Composer, NeMo or numpy, or a pickle. It may be the address of a file
 *             on a web server ("https://host/model.safetensors"), an index.json among them, or of a file or directory
 *             on an object store ("s3://bucket/run7/checkpoint-500"). That is read by ranges, when they are wanted, and
 *             is GONE if it changes meanwhile. Files of this machine are mapped: one that somebody truncates meanwhile
 *             can end the process with SIGBUS.
 *   run       Option run. Without it "main", where a load without options finds the checkpoint; but "import" if a
 *             trainer has used "main" since the last import, so that the import does not fence it. `info` (nullable)
 *             says which, and all else about the result. Imports into one run take turns: each waits for the others for
 *             at most timeout_ms, then returns TIMEOUT. FENCED: on a file system without locks another import, or a
 *             trainer, took the run meanwhile; import again.
 *   kept      Tensors, aliases and a state tree (ckpt_tree.h); of safetensors the file split and the metadata, as
 *             attributes for ckpt_export. Attribute import.unchecked counts what a .pt or hfai directory has no
 *             checksums of.
 *   choices   only, exclude and cast choose tensors and their dtype; a value that cannot be read is an error only if
 *             they keep it. map names a mapping (docs/mappings.md), by which tensors get other names, are rearranged,
 *             cut or put together as they are read; strict=none lets it leave some as they are. With verify_after=1
 *             what was saved is read back and compared.
 *
 * Options: run, verify, verify_after, on_existing, compression, incremental, threads, timeout_ms; map, map_at,
 * map_back, config, prefixes, only, exclude, cast, strict; endpoint, region, path_style, profile (s3), account,
 * sas_token (az), ca_file, http_header (https). Statuses: NOT_FOUND (also what a mapping needs), MISMATCH (a mapping
 * that does not fit), FORMAT, UNSUPPORTED, CORRUPT, EXISTS, TIMEOUT, FENCED, GONE (https, s3), IO, NO_SPACE. */
CKPT_API ckpt_status ckpt_import(const ckpt_store* store, const char* path, const char* label, int64_t step,
                                 const ckpt_options* options, ckpt_checkpoint_info* info, ckpt_error** err);

/* Writes the checkpoint to `path`, which must not exist or be an empty directory, in what option format says:
 *
 *   auto              pt where `path` ends in .pt or .pth, else safetensors.
 *   safetensors       Its tensors, in one file or in a directory with the split that was imported. A tensor that torch
 *                     conjugates, negates or scales when it uses it is UNSUPPORTED.
 *   pt                Its main tree as torch.save does, for torch.load(weights_only=True), which takes nothing of
 *                     numpy's: its arrays become tensors and its numbers Python's.
 *   hfai              That in `shards` files PART_nnn.pt, as hfai's load takes them.
 *   dcp               Each tensor and value of it by itself, in `shards` files, as torch.distributed.checkpoint's load
 *                     takes them.
 *   composer          A .pt, or a tar of one, packed as the ending of `path` says.
 *   olmo              model.pt, optim.pt and train.pt, or what was imported, with the config.yaml that an import kept.
 *   olmo-safetensors  The same, with model and optim as OLMo's safetensors.
 *   torchtune         The files that were imported, or epoch_0, or, as "safetensors", those that the index of a model's
 *                     directory names, which is option config.
 *   meta              consolidated.NN.pth as Meta's Llama has them, in `shards` files or as many as were imported. They
 *                     divide the weights as Meta's models do.
 *   recis             A run with one checkpoint, its tables in `shards` shards, as RecIS' loader takes them
 *                     (ckpt_{step} alone where `path` ends in such a name).
 *
 * Programs load files of composer and olmo without weights_only, so numpy's values, dates and paths are written as
 * such. Option shard_bytes cuts a directory of safetensors into files of at most so many bytes, with an index. Option
 * at writes only what is below a place of the state, by the names that it has there (safetensors: its keys, joined by
 * dots). What has no place in the format (other objects, tensors outside the tree) is left out. Mappings and selections
 * are as in ckpt_import. With verify_after=1 what was written, and stays, is read back and compared.
 * Options: format, shards, shard_bytes, at, opaque, threads, timeout_ms, map, map_at, map_back, config, only, exclude,
 * cast, strict, verify_after. Statuses: EXISTS, NOT_FOUND (at), UNSUPPORTED (a dtype, or an object's class: "found"),
 * MISMATCH (hfai: the tree is not {"model": ...}; dcp, olmo, torchtune, meta, recis: it is no such dict; meta: a weight
 * does not divide), FORMAT (a tree that does not fit the checkpoint), INVALID (an option of another format), CORRUPT,
 * IO, NO_SPACE. */
CKPT_API ckpt_status ckpt_export(const ckpt_reader* reader, const char* path, const ckpt_options* options,
                                 ckpt_error** err);

/* ---- a file in place -------------------------------------------------------------------------------------- */

typedef struct ckpt_file ckpt_file;

/* Maps what ckpt_import takes and reads its structure, not its tensors. A pickle is turned into values and never
 * executed; if it calls a function that ckpt does not know, the status is UNSUPPORTED and the error names the function.
 * A tensor that is cut into several pieces has no address: its data is NULL, and ckpt_file_read gives its elements. A
 * file that somebody truncates while it is open can end the process with SIGBUS. Of an address
 * ("https://host/model.pt", "s3://bucket/run7") the bytes of all tensors are fetched into memory; with tensor_data=0
 * only what describes them is, and their data is NULL. Options: verify (1, the default: first checks the CRC-32 of
 * every zip entry, which reads the whole file; 0: checks only the entries that it reads), threads, tensor_data,
 * timeout_ms (also of each ckpt_file_read); map, map_at, map_back, config, prefixes, only, exclude, cast, strict;
 * endpoint, region, path_style, profile (s3), account, sas_token (az), ca_file, http_header (https). What a mapping
 * rearranges is computed now. Statuses: NOT_FOUND (also of a directory without files of any format; its detail
 * "expected" is "a known format"), FORMAT, UNSUPPORTED, CORRUPT, GONE (https, s3; or it was cut short), TIMEOUT, IO. */
CKPT_API ckpt_status ckpt_file_open(ckpt_file** out, const char* path, const ckpt_options* options, ckpt_error** err);
CKPT_API void ckpt_file_free(ckpt_file* file);

/* "pt" (zip), "pt-legacy", "pickle", "safetensors", "hfai", "dcp", "bin", "hf-trainer", "accelerate", "diffusers",
 * "torchtune", "meta", "olmo", "composer", "nemo", "npz", "npy", "recis", "ranks", "deepspeed", "megatron". Static
 * text. Sparse tables of recis are tensors here: T/ids, T/COLUMN, and T, an alias of the ids. */
CKPT_API const char* ckpt_file_format(const ckpt_file* file);

/* Name `index` of what is in the directory and was not read: "meta.pt", or "runs/" of a directory; NULL after the last.
 * Of very many some are counted only. An import keeps them as attribute import.left_out. Borrowed from the file. */
CKPT_API const char* ckpt_file_left_out(const ckpt_file* file, uint64_t index);

typedef struct ckpt_file_tensor {
  uint32_t struct_size;
  int32_t dtype; /* CKPT_DTYPE_* */
  int32_t ndim;
  int32_t reserved;
  int64_t shape[CKPT_MAX_NDIM];
  int64_t strides[CKPT_MAX_NDIM]; /* in elements */
  const void* data;               /* the first element, perhaps unaligned; borrowed. NULL without elements, in several
                                   * pieces, or with tensor_data=0 */
  uint64_t data_bytes;            /* to the end of the last element, with the gaps between strides; 0 if data is NULL */
  uint64_t bytes;                 /* of the elements */
  const char* name;               /* its path in the tree, or ~storage/KEY: shared memory. Borrowed, like alias_of */
  const char* alias_of;           /* the tensor whose memory it shares; else NULL */
  int64_t alias_offset;           /* its first element in the flattened target */
} ckpt_file_tensor;
/* Tensors in the order of the tree; an alias comes after its target. Elements are those that are stored, here and in
 * ckpt_file_read: that torch conjugates, negates or scales them when it uses the tensor is in the tree alone
 * (STATE_TREE.md: torch.Tensor, torch.QTensor). */
CKPT_API uint64_t ckpt_file_tensor_count(const ckpt_file* file);
CKPT_API ckpt_status ckpt_file_tensor_at(const ckpt_file* file, uint64_t index, ckpt_file_tensor* out,
                                         ckpt_error** err);

/* Copies elements of a tensor into memory: the region that `desc` describes, as in a load, of a tensor of that dtype
 * and shape. Also where a tensor has no address (its data is NULL), since it lies in several pieces, or since
 * tensor_data is 0: then only what is wanted is read. Calls on one file must not run at once. Statuses: NOT_FOUND
 * (index), INVALID, MISMATCH (dtype, shape), and those of ckpt_file_open. */
CKPT_API ckpt_status ckpt_file_read(ckpt_file* file, uint64_t index, const ckpt_tensor_desc* desc, void* data,
                                    uint64_t data_bytes, ckpt_error** err);

/* Everything in the file as a tree, with its tensors as leaves. Borrowed from the file. */
CKPT_API ckpt_status ckpt_file_tree(const ckpt_file* file, const ckpt_tree** out, ckpt_error** err);

#ifdef __cplusplus
}
#endif
#endif /* CKPT_FILE_H */
