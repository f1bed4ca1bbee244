// Whether a name is absent, as the server of a network file system says. Its clients remember absent names, and forget
// them when the time of the directory changes; so they miss what another machine makes within the same tick of the
// server's clock (NFS 3: for up to a minute, or for ever), and in a directory that they do not open. What they remember
// of a directory's own list is dropped here, so that reading it asks the server, and brings the names with it (Linux:
// nfs_readdir_xdr_to_array, nfs_prime_dcache; tried with Linux 6.1 and 7.2, tests/netfs).
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/types.h"

namespace ckpt::store {

// So that reading this directory asks the server. Costs a local file system nothing.
void forget_listing(int directory);

// What is known of directories whose names were asked for.
class FreshNames {
 public:
  // `path`, absolute, seemed absent. Whether it is there, as the server says now. A directory of which the server was
  // asked late enough is not read again until its time changes, but always since Linux 6.19: there a client may hold a
  // delegation of a directory, and then it does not hear what another mount of the same machine (nosharecache) makes.
  bool appears(const std::string& path);

 private:
  struct Known {
    timespec time;         // of the directory
    int64_t since_ms = 0;  // when it was first seen with this time, of steady_ms()
    bool complete = false;
  };
  bool is_known(const struct stat& directory);
  void note_read(const struct stat& before, int64_t began_ms);
  bool is_listed(int directory, const std::string& path, const std::string& name);

  std::mutex mutex_;
  std::map<std::pair<dev_t, ino_t>, Known> known_;  // of NFS, whose clients ask for that time when they open
};

}  // namespace ckpt::store
