/* The objects of a scenario, by name. */
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static const char* const kKinds[] = {"memory", "a store", "a session", "a save", "a job",   "a report", "a reader",
                                     "a load", "a tree",  "a file",    "rows",   "a share", "a keeper"};

#define FREES(kind, function) \
  case kind:                  \
    function(o->handle);      \
    break;
static void handle_free(object* o) {
  if (!o->owner) switch (o->kind) {
      FREES(MEMORY, free)
      FREES(STORE, ckpt_store_free)
      FREES(SESSION, ckpt_session_free)
      FREES(SAVE, ckpt_save_free)
      FREES(JOB, ckpt_job_free)
      FREES(REPORT, ckpt_report_free)
      FREES(READER, ckpt_reader_free)
      FREES(LOAD, ckpt_load_free)
      FREES(TREE, ckpt_tree_free)
      FREES(FILE_OBJECT, ckpt_file_free)
      FREES(ROWS, rows_free)
      FREES(SHARE, ckpt_share_free)
      FREES(KEEPER, ckpt_keeper_free)
    }
  free(o->name);
  free(o);
}

static object** place(runner* r, const char* name) {
  object** at = &r->objects;
  while (*at && strcmp((*at)->name, name) != 0) at = &(*at)->next;
  return at;
}

/* Unlinks the object and everything that it owns. */
static void unlink_and_free(runner* r, object** at) {
  object* gone = *at;
  *at = gone->next;
  for (object** other = &r->objects; *other;)
    if ((*other)->owner && (*other)->owner == gone->handle)
      unlink_and_free(r, other);
    else
      other = &(*other)->next;
  handle_free(gone);
}

void object_free(runner* r, const char* name) {
  object** at = place(r, name);
  if (!*at) fail(r, "expected an object %s, found none", name);
  unlink_and_free(r, at);
}

static void put(runner* r, size_t i, object made) {
  const token* name = &r->tokens[i];
  object** at = place(r, name->text);
  if (*at) unlink_and_free(r, at);
  object* kept = allocate(sizeof *kept);
  *kept = made;
  kept->name = allocate(name->size + 1);
  memcpy(kept->name, name->text, name->size);
  kept->next = r->objects;
  r->objects = kept;
}

ckpt_status keep(runner* r, size_t i, kind kind, void* handle, ckpt_status status) {
  if (!status) put(r, i, (object){.kind = kind, .handle = handle});
  return status;
}

ckpt_status keep_borrowed(runner* r, size_t i, kind kind, const void* handle, const void* owner) {
  put(r, i, (object){.kind = kind, .handle = (void*)(uintptr_t)handle, .owner = owner});
  return CKPT_OK;
}

memory* keep_memory(runner* r, size_t i, const void* bytes, uint64_t size) {
  memory* made = allocate(sizeof *made + size);
  made->size = size;
  if (bytes && size) memcpy(made->data, bytes, size);
  (void)keep(r, i, MEMORY, made, CKPT_OK);
  return made;
}

void* get_named(runner* r, const char* name, kind kind) {
  object* found = *place(r, name);
  if (!found || found->kind != kind)
    fail(r, "expected %s %s, found %s", kKinds[kind], name, found ? kKinds[found->kind] : "none");
  return found->handle;
}

void* get(runner* r, size_t i, kind kind) { return get_named(r, word(r, i), kind); }

memory* get_memory(runner* r, size_t i) { return *word(r, i) ? get(r, i, MEMORY) : NULL; }

/* Jobs first: until they have ended, the engine uses the memory. */
void objects_free(runner* r) {
  for (object** at = &r->objects; *at;)
    if ((*at)->kind == JOB)
      unlink_and_free(r, at);
    else
      at = &(*at)->next;
  while (r->objects) unlink_and_free(r, &r->objects);
}
