/* What every file of the package includes: the C API, in a version that this binding supports. */
#ifndef CKPT_GO_H
#define CKPT_GO_H

#include <ckpt.h>
#include <ckpt_file.h>
#include <ckpt_keeper.h>
#include <ckpt_tree.h>

/* Before 1.0 a minor version may change the API. */
#if CKPT_VERSION_MAJOR != 0 || CKPT_VERSION_MINOR != 1
#error "this Go binding is for ckpt 0.1.x: install that version, or take the binding that came with yours"
#endif

/* These take the caller's memory as bytes, so cgo knows that it holds no pointers. For a void pointer, cgo checks the
 * whole Go object around the memory, and refuses a slice of an array in a struct that has a pointer elsewhere. */
static inline ckpt_status ckpt_go_save_add_tensor(ckpt_save* save, const char* name, const ckpt_tensor_desc* desc,
                                                  const uint8_t* data, uint64_t size, int32_t device_type,
                                                  int32_t device_id, ckpt_error** err) {
  return ckpt_save_add_tensor(save, name, desc, data, size, device_type, device_id, err);
}
static inline ckpt_status ckpt_go_load_add_tensor(ckpt_load* load, const char* name, const ckpt_tensor_desc* desc,
                                                  uint8_t* data, uint64_t size, int32_t device_type, int32_t device_id,
                                                  ckpt_error** err) {
  return ckpt_load_add_tensor(load, name, desc, data, size, device_type, device_id, err);
}
static inline ckpt_status ckpt_go_save_add_object(ckpt_save* save, const char* name, const char* media_type,
                                                  int32_t scope, const uint8_t* data, uint64_t size, ckpt_error** err) {
  return ckpt_save_add_object(save, name, media_type, scope, data, size, err);
}
static inline ckpt_status ckpt_go_load_add_object(ckpt_load* load, const char* name, uint32_t rank, uint8_t* data,
                                                  uint64_t size, ckpt_error** err) {
  return ckpt_load_add_object(load, name, rank, data, size, err);
}
static inline ckpt_status ckpt_go_save_add_table(ckpt_save* save, const char* name, const ckpt_table_desc* desc,
                                                 const uint8_t* ids, uint64_t ids_bytes, char** column_names,
                                                 const ckpt_column_desc* columns, uint8_t** data,
                                                 const uint64_t* data_bytes, const uint64_t* positions,
                                                 int32_t device_type, int32_t device_id, int64_t stream,
                                                 ckpt_error** err) {
  return ckpt_save_add_table(save, name, desc, ids, ids_bytes, (const char* const*)column_names, columns,
                             (const void* const*)data, data_bytes, positions, device_type, device_id, stream, err);
}
static inline ckpt_status ckpt_go_load_add_table(ckpt_load* load, const ckpt_share* share, uint64_t window,
                                                 uint8_t* ids, uint64_t ids_bytes, uint64_t column_count,
                                                 char** columns, uint8_t** data, const uint64_t* data_bytes,
                                                 int32_t device_type, int32_t device_id, int64_t stream,
                                                 ckpt_error** err) {
  return ckpt_load_add_table(load, share, window, ids, ids_bytes, column_count, (const char* const*)columns,
                             (void* const*)data, data_bytes, device_type, device_id, stream, err);
}
static inline ckpt_status ckpt_go_file_read(ckpt_file* file, uint64_t index, const ckpt_tensor_desc* desc,
                                            uint8_t* data, uint64_t size, ckpt_error** err) {
  return ckpt_file_read(file, index, desc, data, size, err);
}
static inline ckpt_status ckpt_go_tree_add_bytes(ckpt_tree* tree, const uint8_t* data, uint64_t size,
                                                 ckpt_error** err) {
  return ckpt_tree_add_bytes(tree, data, size, err);
}

#endif /* CKPT_GO_H */
