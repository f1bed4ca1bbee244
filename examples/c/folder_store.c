/* folder_store.c - a store of one's own: "folder:///tmp/x" keeps its files in a directory (docs/write-a-store.md).
 *
 *   cc -std=c99 -shared -fPIC folder_store.c $(pkg-config --cflags --libs ckpt) -o libfolder.so
 *   ckpt check folder:///tmp/x --backend ./libfolder.so */
#define _XOPEN_SOURCE 700
#include <ckpt_backend.h>
#include <ckpt_layer.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAMELESS "%part" /* in the root: files that have no key yet */

typedef struct new_file {
  int fd, (*name)(const char*, const char*); /* link, which refuses a name that is taken, or rename */
  char from[PATH_MAX], to[PATH_MAX];
} new_file;

static ckpt_status failed(ckpt_error** err) {
  const int code = errno;
  *err = ckpt_error_new(CKPT_IO, strerror(code), NULL, NULL, 0);
  if (code == ENOENT || code == ENOTDIR) return CKPT_NOT_FOUND;
  return code == EEXIST ? CKPT_EXISTS : code == ENOSPC ? CKPT_NO_SPACE : CKPT_IO;
}

static int path_of(const char* root, const char* key, char path[PATH_MAX]) {
  const int fits = snprintf(path, PATH_MAX, "%s/%s", root, key) < PATH_MAX;
  if (!fits) errno = ENAMETOOLONG;
  return fits;
}

/* Makes the directories above a path, or makes them and what they hold durable. */
static int each_above(const char* root, char* path, int make) {
  int told = 0;
  for (char* slash = path + strlen(root); told == 0 && slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    const int fd = make ? -1 : open(path, O_RDONLY | O_DIRECTORY);
    if (make)
      mkdir(path, 0777);
    else
      told = fd < 0 ? errno != ENOENT : fsync(fd); /* an empty one may have been removed */
    if (fd >= 0) close(fd);
    *slash = '/';
  }
  return told;
}

static ckpt_status folder_open(const char* uri, void** root, ckpt_backend_traits* traits, ckpt_error** err) {
  if (strncmp(uri, "folder:///", 10) != 0) {
    *err = ckpt_error_new(CKPT_INVALID, "expected folder:///directory", NULL, NULL, 0);
    return CKPT_INVALID;
  }
  traits->promises = CKPT_BACKEND_EXCLUSIVE | CKPT_BACKEND_AGES; /* not DURABLE: a name is seen before it is synced */
  return (*root = strdup(uri + 9)) ? CKPT_OK : CKPT_NOMEM;
}

static void describe(const struct stat* found, ckpt_backend_file* file) {
  struct timespec now, then = found->st_mtim;
  clock_gettime(CLOCK_REALTIME, &now); /* the disk's clock: it is this machine's */
  const int64_t age = (now.tv_sec - then.tv_sec) * 1000 + (now.tv_nsec - then.tv_nsec) / 1000000;
  file->is_directory = S_ISDIR(found->st_mode);
  file->size = found->st_size;
  file->age_ms = age < 0 ? 0 : age;
  snprintf(file->version, sizeof file->version, "%lld.%lld.%ld", (long long)found->st_ino, (long long)then.tv_sec,
           then.tv_nsec);
}

static ckpt_status folder_look(void* root, const char* key, ckpt_backend_file* file, ckpt_error** err) {
  char path[PATH_MAX];
  struct stat found;
  if (!path_of(root, key, path) || stat(path, &found) != 0) return failed(err);
  describe(&found, file);
  return file->is_directory ? CKPT_NOT_FOUND : CKPT_OK;
}

static ckpt_status folder_read(void* root, const char* key, const char* version, uint64_t offset, void* buffer,
                               uint64_t size, uint64_t* done, ckpt_error** err) {
  char path[PATH_MAX];
  struct stat found;
  ckpt_backend_file file = {0};
  const int fd = path_of(root, key, path) ? open(path, O_RDONLY) : -1;
  if (fd < 0) return errno == ENOENT ? CKPT_GONE : failed(err);
  ssize_t got = fstat(fd, &found);
  if (got == 0) describe(&found, &file);
  const int same = strcmp(file.version, version) == 0;
  if (got == 0 && same) got = pread(fd, buffer, size, (off_t)offset);
  const ckpt_status status = got < 0 ? failed(err) : same ? CKPT_OK : CKPT_GONE;
  close(fd);
  *done = got < 0 ? 0 : (uint64_t)got;
  return status;
}

static ckpt_status folder_list(void* root, const char* key, ckpt_backend_found found, void* list, ckpt_error** err) {
  char path[PATH_MAX];
  DIR* dir = path_of(root, key, path) ? opendir(path) : NULL;
  if (!dir) return errno == ENOENT || errno == ENOTDIR ? CKPT_OK : failed(err);
  ckpt_status status = CKPT_OK;
  for (struct dirent* entry; status == CKPT_OK && (entry = readdir(dir));) { /* ckpt leaves out "." and ".." itself */
    ckpt_backend_file file = {.struct_size = sizeof file};
    struct stat about;
    if (strcmp(entry->d_name, NAMELESS) == 0 || fstatat(dirfd(dir), entry->d_name, &about, 0) != 0) continue;
    describe(&about, &file);
    status = found(list, entry->d_name, &file);
  }
  closedir(dir);
  return status;
}

static ckpt_status folder_create(void* root, const char* key, uint64_t size, int32_t how, void** out,
                                 ckpt_error** err) {
  (void)size;
  new_file* file = calloc(1, sizeof *file);
  if (!file) return CKPT_NOMEM;
  file->name = how == CKPT_BACKEND_OVER ? rename : link;
  if (path_of(root, key, file->to) && path_of(root, NAMELESS "/XXXXXX", file->from) &&
      each_above(root, file->from, 1) == 0 && (file->fd = mkstemp(file->from)) >= 0)
    return *out = file, CKPT_OK;
  const ckpt_status status = failed(err);
  free(file);
  return status;
}

static ckpt_status folder_append(void* root, void* opaque, const void* data, uint64_t size, ckpt_error** err) {
  (void)root;
  for (const char* at = data; size > 0;) {
    const ssize_t wrote = write(((new_file*)opaque)->fd, at, size);
    if (wrote < 0) return failed(err);
    at += wrote, size -= (uint64_t)wrote;
  }
  return CKPT_OK;
}

static void folder_discard(void* root, void* opaque) {
  (void)root;
  new_file* file = opaque;
  close(file->fd), unlink(file->from), free(file);
}

static ckpt_status folder_publish(void* root, void* opaque, ckpt_error** err) {
  new_file* file = opaque;
  int told = fsync(file->fd);
  for (int tries = 100, again = told == 0; again; again = told != 0 && errno == ENOENT && --tries > 0) {
    each_above(root, file->to, 1); /* again where a removal took one that was still empty */
    told = file->name(file->from, file->to);
  }
  ckpt_status status = told == 0 ? CKPT_OK : failed(err);
  if ((status == CKPT_OK || status == CKPT_EXISTS) && each_above(root, file->to, 0) != 0) status = CKPT_IO;
  folder_discard(root, file);
  return status;
}

static ckpt_status folder_remove(void* root, const char* key, ckpt_error** err) {
  char path[PATH_MAX];
  if (!path_of(root, key, path) || unlink(path) != 0) return failed(err);
  if (each_above(root, path, 0) != 0) return CKPT_IO;
  while (*strrchr(path, '/') = 0, strlen(path) > strlen(root) && rmdir(path) == 0) continue;
  return CKPT_OK;
}

ckpt_status ckpt_backend_init(ckpt_error** err) {
  const ckpt_backend calls = {.struct_size = sizeof calls,
                              .open = folder_open,
                              .release = free,
                              .look = folder_look,
                              .read = folder_read,
                              .list = folder_list,
                              .create = folder_create,
                              .append = folder_append,
                              .publish = folder_publish,
                              .discard = folder_discard,
                              .remove = folder_remove};
  return ckpt_backend_register("folder", &calls, err);
}
