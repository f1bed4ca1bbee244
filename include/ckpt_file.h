/* ckpt_file.h - other people's checkpoint files, opened in place: no Python, no code run, nothing copied.
 *
 * Reads PyTorch's .pt (the zip form and the older one), and safetensors. Conventions of calls: ckpt.h. To bring such a
 * file into a store: ckpt_import; to write one: ckpt_export.
 */
#ifndef CKPT_FILE_H
#define CKPT_FILE_H

#include "ckpt_tree.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ckpt_file ckpt_file;

/* Maps the file and reads its structure, not its tensors. What a pickle says is turned into values, never carried out;
 * one that calls a function which ckpt does not know is UNSUPPORTED, and the error names the function.
 * A file that somebody truncates while it is open can end the process with SIGBUS.
 * Options: verify (1, the default: the zip's CRC-32 of every entry is compared first, which reads the whole file; 0: of
 * what is read here only), threads. Statuses: NOT_FOUND, FORMAT, UNSUPPORTED, CORRUPT, IO. */
CKPT_API ckpt_status ckpt_file_open(ckpt_file **out, const char *path, const ckpt_options *options, ckpt_error **err);
CKPT_API void ckpt_file_free(ckpt_file *file);

/* "pt" (zip), "pt-legacy", "safetensors". Static text. */
CKPT_API const char *ckpt_file_format(const ckpt_file *file);

typedef struct ckpt_file_tensor {
  uint32_t struct_size;
  int32_t dtype;
  int32_t ndim;
  int32_t reserved;
  int64_t shape[CKPT_MAX_NDIM];
  int64_t strides[CKPT_MAX_NDIM]; /* in elements */
  const void *data;      /* the first element, not always aligned; borrowed from the file. NULL without elements */
  uint64_t data_bytes;   /* to the end of the last element, gaps of the strides included */
  uint64_t bytes;        /* of the elements */
  const char *name;      /* its path in the tree; ~storage/KEY: memory shared in pieces. Borrowed, as alias_of */
  const char *alias_of;  /* the tensor whose memory it shares; else NULL */
  int64_t alias_offset;  /* its first element in the flattened target */
} ckpt_file_tensor;
/* In the order of the tree; a tensor that shares memory comes after the one it shares it with. */
CKPT_API uint64_t ckpt_file_tensor_count(const ckpt_file *file);
CKPT_API ckpt_status ckpt_file_tensor_at(const ckpt_file *file, uint64_t index, ckpt_file_tensor *out,
                                         ckpt_error **err);

/* All that the file holds, tensors as leaves by their names. Borrowed from the file. */
CKPT_API ckpt_status ckpt_file_tree(const ckpt_file *file, const ckpt_tree **out, ckpt_error **err);

#ifdef __cplusplus
}
#endif
#endif /* CKPT_FILE_H */
