/* ckpt_file.h - other people's checkpoint files, opened in place: no Python, no code run, nothing copied.
 *
 * Reads PyTorch's .pt (the zip form and the older one) and safetensors. ckpt_import brings such a file into a store;
 * ckpt_export writes one. ckpt.h has the conventions of calls.
 */
#ifndef CKPT_FILE_H
#define CKPT_FILE_H

#include "ckpt_tree.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ckpt_file ckpt_file;

/* Maps the file and reads its structure, not its tensors. A pickle is turned into values and never executed; if it
 * calls a function that ckpt does not know, the status is UNSUPPORTED and the error names the function. A file that
 * somebody truncates while it is open can end the process with SIGBUS. Options: verify (1, the default: first checks
 * the CRC-32 of every zip entry, which reads the whole file; 0: checks only the entries that it reads), threads.
 * Statuses: NOT_FOUND, FORMAT, UNSUPPORTED, CORRUPT, IO. */
CKPT_API ckpt_status ckpt_file_open(ckpt_file** out, const char* path, const ckpt_options* options, ckpt_error** err);
CKPT_API void ckpt_file_free(ckpt_file* file);

/* "pt" (zip), "pt-legacy", "safetensors". Static text. */
CKPT_API const char* ckpt_file_format(const ckpt_file* file);

typedef struct ckpt_file_tensor {
  uint32_t struct_size;
  int32_t dtype;
  int32_t ndim;
  int32_t reserved;
  int64_t shape[CKPT_MAX_NDIM];
  int64_t strides[CKPT_MAX_NDIM]; /* in elements */
  const void* data;               /* the first element, perhaps unaligned; borrowed. NULL without elements */
  uint64_t data_bytes;            /* to the end of the last element, with the gaps between strides */
  uint64_t bytes;                 /* of the elements */
  const char* name;               /* its path in the tree, or ~storage/KEY: shared memory. Borrowed, like alias_of */
  const char* alias_of;           /* the tensor whose memory it shares; else NULL */
  int64_t alias_offset;           /* its first element in the flattened target */
} ckpt_file_tensor;
/* Tensors in the order of the tree; an alias comes after its target. */
CKPT_API uint64_t ckpt_file_tensor_count(const ckpt_file* file);
CKPT_API ckpt_status ckpt_file_tensor_at(const ckpt_file* file, uint64_t index, ckpt_file_tensor* out,
                                         ckpt_error** err);

/* Everything in the file as a tree, with its tensors as leaves. Borrowed from the file. */
CKPT_API ckpt_status ckpt_file_tree(const ckpt_file* file, const ckpt_tree** out, ckpt_error** err);

#ifdef __cplusplus
}
#endif
#endif /* CKPT_FILE_H */
