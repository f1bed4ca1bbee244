/* The objects of a scenario, by name. */
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static const char* const kKinds[] = {"memory",   "a store",  "a session", "a save", "a job",
                                     "a report", "a reader", "a load",    "a tree", "a file"};

static void handle_free(object* o) {
  switch (o->kind) {
    case MEMORY:
      free(((memory*)o->handle)->data);
      free(o->handle);
      break;
    case STORE:
      ckpt_store_free(o->handle);
      break;
    case SESSION:
      ckpt_session_free(o->handle);
      break;
    case SAVE:
      ckpt_save_free(o->handle);
      break;
    case JOB:
      ckpt_job_free(o->handle);
      break;
    case REPORT:
      ckpt_report_free(o->handle);
      break;
    case READER:
      ckpt_reader_free(o->handle);
      break;
    case LOAD:
      ckpt_load_free(o->handle);
      break;
    case TREE:
      if (!o->owner) ckpt_tree_free(o->handle);
      break;
    case FILE_OBJECT:
      ckpt_file_free(o->handle);
      break;
  }
  free(o->name);
  free(o);
}

static object** place(runner* r, const word* name) {
  object** at = &r->objects;
  while (*at && strcmp((*at)->name, name->text) != 0) at = &(*at)->next;
  return at;
}

/* Unlinks the object and what is borrowed from it. */
static void unlink_and_free(runner* r, object** at) {
  object* gone = *at;
  *at = gone->next;
  for (object** other = &r->objects; *other;) {
    if ((*other)->owner && (*other)->owner == gone->handle) {
      object* borrowed = *other;
      *other = borrowed->next;
      handle_free(borrowed);
    } else {
      other = &(*other)->next;
    }
  }
  handle_free(gone);
}

void object_free(runner* r, const word* name) {
  object** at = place(r, name);
  if (!*at) fail(r, "expected an object %s, found none", name->text);
  unlink_and_free(r, at);
}

void object_put_borrowed(runner* r, const word* name, kind kind, const void* handle, const void* owner) {
  object** at = place(r, name);
  if (*at) unlink_and_free(r, at);
  object* made = allocate(sizeof *made);
  made->name = allocate(name->size + 1);
  memcpy(made->name, name->text, name->size);
  made->kind = kind;
  made->handle = (void*)(uintptr_t)handle;
  made->owner = owner;
  made->next = r->objects;
  r->objects = made;
}

void object_put(runner* r, const word* name, kind kind, void* handle) {
  object_put_borrowed(r, name, kind, handle, NULL);
}

void* object_get(runner* r, const word* name, kind kind) {
  object* found = *place(r, name);
  if (!found) fail(r, "expected %s %s, found none", kKinds[kind], name->text);
  if (found->kind != kind) fail(r, "expected %s %s, found %s", kKinds[kind], name->text, kKinds[found->kind]);
  return found->handle;
}

/* Jobs first: until they have ended, memory is the engine's. */
void objects_free(runner* r) {
  for (object** at = &r->objects; *at;)
    if ((*at)->kind == JOB)
      unlink_and_free(r, at);
    else
      at = &(*at)->next;
  while (r->objects) unlink_and_free(r, &r->objects);
}

memory* memory_new(runner* r, const word* name, uint64_t size) {
  memory* made = allocate(sizeof *made);
  made->data = allocate(size ? size : 1);
  made->size = size;
  object_put(r, name, MEMORY, made);
  return made;
}
