/* ckpt_backend.h - a store of your own: a table of calls that a scheme names.
 *
 *   static const ckpt_backend calls = {.struct_size = sizeof calls, .open = mine_open, .look = mine_look, …};
 *   ckpt_backend_register("mine", &calls, &err);                        once in a process
 *   ckpt_store_open(&store, "mine://somewhere/run7", NULL, &err);       as any other store
 *
 * docs/write-a-store.md teaches it, examples/c/folder_store.c is one, and `ckpt check mine://somewhere --backend LIB`
 * tries all that is promised here. ckpt.h has the conventions.
 *
 * What a store is. It keeps files under keys: UTF-8, elements joined by '/', none of them empty, "." or ".."
 * ("step-100.7.1/PART_000"). Directories are prefixes of keys: none is made, none is removed. A file never changes; it
 * is put whole, replaced whole, or removed. Whatever a call has returned OK for is durable.
 *
 * Threads. Any call may come from any thread of the engine, several at once. Calls on one `file` come one at a time.
 *
 * Errors. Return a status, and explain it by *err = ckpt_error_new(…) of ckpt_layer.h if you like: a line without
 * secrets; the engine adds the key. NOT_FOUND, EXISTS and GONE mean what each call says; INVALID, UNSUPPORTED, CORRUPT,
 * NO_SPACE and NOMEM are passed on; any other failure is IO, and so is an exception. Try again what may pass: the
 * engine does so only where it must know what became of a put.
 *
 * Time. Ask ckpt_backend_left_ms while you wait. A call that goes on long after its time is left behind on its thread
 * (ABI.md): the context and the memory that it was given stay until it returns.
 */
#ifndef CKPT_BACKEND_H
#define CKPT_BACKEND_H

#include "ckpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a store promises -------------------------------------------------------------------------------- */

enum {
  CKPT_BACKEND_EXCLUSIVE = 1, /* flag: of several processes that put one key if it is absent, one gets OK. Without it
                               * only one process may write, and sessions of several ranks are UNSUPPORTED */
  CKPT_BACKEND_DURABLE = 2,   /* flag: what can be seen is durable, not only what a call has returned OK for. So
                               * reading tells what became of a put without an answer */
  CKPT_BACKEND_AGES = 4,      /* flag: it tells how old files are. So heartbeats tell of a rank that has died */
  CKPT_BACKEND_REMOTE = 8     /* flag: looks, reads, appends, lists and removals are requests to a server. So jobs
                               * count them, loads ask for more at once, and option cache is allowed */
};

/* What open() says of the store: zero when it gets it, and zero means that the engine chooses. */
typedef struct ckpt_backend_traits {
  uint32_t struct_size;  /* set by the engine: fields beyond it are not there */
  uint32_t promises;     /* CKPT_BACKEND_* */
  int64_t list_delay_ms; /* a list may lack what was put, and show what was removed, less than so long before; at
                          * most 60,000 */
  uint64_t read_bytes;   /* neighbouring bytes are best read together up to this size */
  uint64_t write_bytes;  /* the best size of an append */
  uint32_t read_depth;   /* so many reads at once are best */
  uint32_t write_depth;  /* so many writes of several files at once are best */
} ckpt_backend_traits;

#define CKPT_BACKEND_VERSION_BYTES 128

/* A file, or a directory in a list. */
typedef struct ckpt_backend_file {
  uint32_t struct_size; /* set by the engine for look(), by the store for its list */
  int32_t is_directory; /* 1 in a list, where something lies below this name */
  int64_t size;
  int64_t age_ms; /* how long ago it was put, by the clock of the store; -1 if it does not tell */
  /* Another text each time that something is put under this key, with its NUL. "" if nobody can tell: then a reader of
   * what was replaced may get other bytes, which checksums find. */
  char version[CKPT_BACKEND_VERSION_BYTES];
} ckpt_backend_file;

/* ---- the calls -------------------------------------------------------------------------------------------- */

/* Where option values and credentials come from is the store's own affair: environment, files, the address. `*context`
 * is given to all other calls. Asks no server. */
typedef ckpt_status (*ckpt_backend_open)(const char* uri, void** context, ckpt_backend_traits* traits,
                                         ckpt_error** err);
/* Once for each open(), after the last call on that context has returned, by whoever is the last to let go of the
 * store: ckpt_store_free, or a thread of the engine. Nobody bounds it, so it asks no server. */
typedef void (*ckpt_backend_release)(void* context);

/* NOT_FOUND, also for what is only a prefix of keys. */
typedef ckpt_status (*ckpt_backend_look)(void* context, const char* key, ckpt_backend_file* file, ckpt_error** err);
/* Bytes from `offset` on of that version of a file: at least one, at most `size`; `*done` says how many. GONE if
 * another version is there, or none. */
typedef ckpt_status (*ckpt_backend_read)(void* context, const char* key, const char* version, uint64_t offset,
                                         void* buffer, uint64_t size, uint64_t* done, ckpt_error** err);
/* What is in a directory; "" is the root. Calls found(list, name, file) for each file in it, and at least once for each
 * name below which something lies; `name` is the element after the directory. If found() does not return OK, ends and
 * returns the same. OK without a call if nothing is there. */
typedef ckpt_status (*ckpt_backend_found)(void* list, const char* name, const ckpt_backend_file* file);
typedef ckpt_status (*ckpt_backend_list)(void* context, const char* directory, ckpt_backend_found found, void* list,
                                         ckpt_error** err);

enum {
  CKPT_BACKEND_IF_ABSENT = 0, /* EXISTS if a file is there: once that is durable */
  CKPT_BACKEND_OVER = 1       /* whatever is there: readers see the old file or the new one */
};
/* A file from front to back: create, append, append, …, and then publish or discard, which end `file`, whatever they
 * return. Nothing is under the key before publish, which puts it there in one step. How large it becomes is a guess;
 * most files are small, so one request at publish is best for them. What a crash leaves of a file is the store's to
 * remove. */
typedef ckpt_status (*ckpt_backend_create)(void* context, const char* key, uint64_t expected_size, int32_t how,
                                           void** file, ckpt_error** err);
typedef ckpt_status (*ckpt_backend_append)(void* context, void* file, const void* data, uint64_t size,
                                           ckpt_error** err);
typedef ckpt_status (*ckpt_backend_publish)(void* context, void* file, ckpt_error** err);
typedef void (*ckpt_backend_discard)(void* context, void* file);
/* NOT_FOUND */
typedef ckpt_status (*ckpt_backend_remove)(void* context, const char* key, ckpt_error** err);

/* A store that is only read has NULL from create on; what writes is UNSUPPORTED then. */
typedef struct ckpt_backend {
  uint32_t struct_size;
  uint32_t reserved;
  ckpt_backend_open open;
  ckpt_backend_release release;
  ckpt_backend_look look;
  ckpt_backend_read read;
  ckpt_backend_list list;
  ckpt_backend_create create;
  ckpt_backend_append append;
  ckpt_backend_publish publish;
  ckpt_backend_discard discard;
  ckpt_backend_remove remove;
} ckpt_backend;

/* From now on "SCHEME://…" opens such a store, in this process, until its end: so the code must stay loaded. `backend`
 * is copied. A scheme has letters, digits, '+', '-' and '.' in lower case, at most 32. Statuses: INVALID (no scheme, or
 * one of ckpt's own; a call is missing), EXISTS (it is registered already). */
CKPT_API ckpt_status ckpt_backend_register(const char* scheme, const ckpt_backend* backend, ckpt_error** err);

/* In a call of the engine, on its thread: how many milliseconds it may still take. 0: end now, with TIMEOUT or
 * CANCELLED. -1: nobody bounds it. */
CKPT_API int64_t ckpt_backend_left_ms(void);

enum {
  CKPT_BACKEND_HOLDS = 0,
  CKPT_BACKEND_LACKS = 1, /* it is not promised, and ckpt does without it */
  CKPT_BACKEND_BROKEN = 2 /* something that ckpt needs does not hold */
};
typedef void (*ckpt_backend_tell)(void* user, const char* name, int32_t state, const char* found);
/* Tries what a store promises, whatever store it is, in a directory of its own in .ckpt, and removes that. Calls
 * tell(user, name, state, found) for each promise, on this thread; `state` is one of these, `found` says more. This is
 * what `ckpt check ADDRESS` does. Fails where nothing can be said: the statuses of the store. */
CKPT_API ckpt_status ckpt_backend_check(const ckpt_store* store, ckpt_backend_tell tell, void* user, ckpt_error** err);

/* What a library of stores exports for `ckpt --backend LIB`: it registers its schemes. */
typedef ckpt_status (*ckpt_backend_init_function)(ckpt_error** err); /* ckpt_backend_init */

#ifdef __cplusplus
}
#endif
#endif /* CKPT_BACKEND_H */
