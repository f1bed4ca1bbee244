// What is mounted where a file lies, and what that promises to several machines: by the kernel's words alone, since one
// machine cannot try it. docs/file-systems.md has the sources of each row.
// Pure, but for find_mount. The tool compiles it, too, so it needs nothing else of the engine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ckpt::store {

struct Mount {
  std::string type;     // "ext4", "nfs4", "fuse.sshfs"; "" if the kernel does not tell
  std::string source;   // "server:/export"
  std::string point;    // "/data"
  std::string options;  // of the mount and of its file system, with commas between them

  // An option without a value, or "name=value".
  bool has(std::string_view option) const;
  // Whether other machines may change the files, too.
  bool shared() const;
  // Who sees a lock of flock(2): all that have the file open; only this machine, so that others do not keep it; nobody
  // can tell, so it is as good as the latter.
  enum class Locks { kForAll, kOfThisMachine, kUnknown };
  Locks locks() const;
  // Whether reads are fastest as a few streams, each by a descriptor of its own.
  bool follows_streams() const;
  // An option of the mount that breaks what ckpt needs; "" if there is none.
  std::string harmful() const;
};

// One line of /proc/self/mountinfo. An empty type if it is none.
Mount parse_mount(std::string_view line);
// The mount of an open file or directory. Where the kernel does not list it (a process in a chroot, or without /proc),
// the type alone, if it is one of this machine's own.
Mount find_mount(int fd);

// Of what statfs(2) calls f_type: the file system that no other machine has open; "" if others may have it.
std::string_view local_type(uint32_t f_type);

}  // namespace ckpt::store
