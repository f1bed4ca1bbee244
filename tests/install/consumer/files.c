/* A stranger's program of ckpt_file.h: writes a .npy file, imports it, and exports it. Its argument is what the files'
 * names begin with. */
#include <ckpt_file.h>
#include <stdio.h>
#include <string.h>

static int fail(const char* what, ckpt_error* err) {
  fprintf(stderr, "%s: %s\n", what, ckpt_error_message(err));
  return 1;
}

int main(int argc, char** argv) {
  static const char head[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  char path[4096], to[4096], file[128 + 8];
  ckpt_store* store = NULL;
  ckpt_reader* reader = NULL;
  ckpt_error* err = NULL;
  FILE* out;
  if (argc < 2 || strcmp(ckpt_file_version_string(), ckpt_version_string())) return fail("the versions differ", NULL);
  memset(file, ' ', 128);
  memcpy(file, head, sizeof head - 1);
  file[127] = '\n';
  memset(file + 128, 0, 8);
  snprintf(path, sizeof path, "%s-w.npy", argv[1]);
  snprintf(to, sizeof to, "%s-w.safetensors", argv[1]);
  remove(to);
  out = fopen(path, "wb");
  if (!out || fwrite(file, 1, sizeof file, out) != sizeof file || fclose(out)) return fail(path, NULL);
  if (ckpt_store_open(&store, "mem:files", NULL, &err)) return fail("store", err);
  if (ckpt_import(store, path, "w", -1, NULL, NULL, &err)) return fail("import", err);
  if (ckpt_reader_open(&reader, store, "latest", NULL, &err)) return fail("reader", err);
  if (ckpt_export(reader, to, NULL, &err)) return fail("export", err);
  printf("%llu tensor\n", (unsigned long long)ckpt_reader_tensor_count(reader));
  ckpt_reader_free(reader);
  ckpt_store_free(store);
  return 0;
}
