#include "store/mount.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <vector>

#include "store/kernel.h"

namespace ckpt::store {

static std::vector<std::string_view> fields_of(std::string_view text, char separator) {
  std::vector<std::string_view> fields;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    fields.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return fields;
}

// The kernel writes blanks and backslashes as "\040".
static std::string unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); i++) {
    const std::string_view code = text.substr(i, 4);
    const bool escaped = code.size() == 4 && code[0] == '\\' && code.find_first_not_of("01234567", 1) == code.npos;
    if (!escaped) {
      plain += text[i];
      continue;
    }
    plain += static_cast<char>((code[1] - '0') * 64 + (code[2] - '0') * 8 + (code[3] - '0'));
    i += 3;
  }
  return plain;
}

// "36 35 98:0 / /data rw,relatime shared:1 - ext4 /dev/sda1 rw"
Mount parse_mount(std::string_view line) {
  const auto words = fields_of(line, ' ');
  const auto dash = std::find(words.begin(), words.end(), "-");
  if (words.size() < 10 || words.end() - dash < 4) return {};
  Mount mount;
  mount.type = unescaped(dash[1]);
  mount.source = unescaped(dash[2]);
  mount.point = unescaped(words[4]);
  mount.options = std::string(words[5]) + "," + std::string(dash[3]);
  return mount;
}

// Since Linux 5.8 the kernel tells the number of the mount; before, only that of the file system.
static std::string number_of(int fd, size_t* column) {
  kernel::Statx found{};
  if (!kernel::get_statx(fd, AT_STATX_DONT_SYNC, kernel::kStatxMntId, &found)) return "";
  *column = found.mask & kernel::kStatxMntId ? 0 : 2;
  if (*column == 0) return std::to_string(found.mnt_id);
  return std::to_string(found.dev_major) + ":" + std::to_string(found.dev_minor);
}

namespace {

struct LocalType {
  std::string_view name;
  uint32_t f_type;  // as statfs(2) tells it; 0: it shares that of others
};
constexpr LocalType kLocalTypes[] = {{"ext4", 0xef53},
                                     {"ext3", 0xef53},
                                     {"ext2", 0xef53},
                                     {"xfs", 0x58465342},
                                     {"btrfs", 0x9123683e},
                                     {"tmpfs", 0x01021994},
                                     {"ramfs", 0x858458f6},
                                     {"overlay", 0x794c7630},
                                     {"zfs", 0x2fc12fc1},
                                     {"f2fs", 0xf2f52010},
                                     {"bcachefs", 0xca451a4e},
                                     {"squashfs", 0x73717368},
                                     {"hugetlbfs", 0x958458f6},
                                     {"jfs", 0x3153464a},
                                     {"ntfs", 0x5346544e},
                                     {"ntfs3", 0x7366746e},
                                     {"nilfs2", 0x3434},
                                     {"reiserfs", 0x52654973},
                                     {"erofs", 0xe0f5e1e2},
                                     {"vfat", 0x4d44},
                                     {"exfat", 0x2011bab0},
                                     {"fuseblk", 0},
                                     {"rootfs", 0}};

}  // namespace

std::string_view local_type(uint32_t f_type) {
  for (const LocalType& one : kLocalTypes)
    if (one.f_type == f_type && f_type != 0) return one.name;
  return "";
}

// The kernel lists only mounts below the root of the process: in a chroot the root itself is none.
static Mount find_unlisted(int fd) {
  struct statfs found = {};
  Mount mount;
  if (fstatfs(fd, &found) == 0) mount.type = local_type(static_cast<uint32_t>(found.f_type));
  return mount;
}

Mount find_mount(int fd) {
  size_t column = 0;
  const std::string number = number_of(fd, &column);
  std::ifstream mounts("/proc/self/mountinfo");
  Mount found;
  for (std::string line; !number.empty() && std::getline(mounts, line);)
    if (const auto words = fields_of(line, ' '); words.size() > column && words[column] == number)
      found = parse_mount(line);
  return found.type.empty() ? find_unlisted(fd) : found;
}

bool Mount::has(std::string_view option) const {
  const auto all = fields_of(options, ',');
  return std::find(all.begin(), all.end(), option) != all.end();
}

static bool is_nfs(const Mount& mount) { return mount.type == "nfs" || mount.type == "nfs4"; }

bool Mount::shared() const {
  return std::ranges::none_of(kLocalTypes, [&](const LocalType& one) { return one.name == type; });
}

// docs/file-systems.md has the source of each.
Mount::Locks Mount::locks() const {
  static constexpr std::array kForAll = {"ceph",     "fuse.ceph",    "fuse.ceph-fuse", "fuse.glusterfs",
                                         "fuse.mfs", "fuse.moosefs", "fuse.juicefs",   "fuse.lizardfs"};
  static constexpr std::array kOfThisMachine = {"gpfs",          "fuse.sshfs",   "fuse.s3fs",
                                                "fuse.rclone",   "fuse.gcsfuse", "fuse.goofys",
                                                "fuse.mount-s3", "fuse.geesefs", "fuse.blobfuse2"};
  if (!shared()) return Locks::kForAll;
  if (is_nfs(*this))
    return has("nolock") || has("local_lock=all") || has("local_lock=flock") ? Locks::kOfThisMachine : Locks::kForAll;
  if (type == "lustre") return has("flock") ? Locks::kForAll : Locks::kOfThisMachine;
  if (type == "gfs2" || type == "ocfs2") return has("localflocks") ? Locks::kOfThisMachine : Locks::kForAll;
  if (type == "cifs" || type == "smb3") return has("nobrl") ? Locks::kOfThisMachine : Locks::kForAll;
  if (type == "fuse" && source.starts_with("mfs#")) return Locks::kForAll;
  if (std::find(kForAll.begin(), kForAll.end(), type) != kForAll.end()) return Locks::kForAll;
  if (std::find(kOfThisMachine.begin(), kOfThisMachine.end(), type) != kOfThisMachine.end())
    return Locks::kOfThisMachine;
  return Locks::kUnknown;
}

// JuiceFS' client follows one or two streams for a descriptor (measured: bench/RESULTS.md, network file systems). So
// MooseFS and GlusterFS were no slower, and ceph-fuse, by threads, three times as fast as by io_uring.
bool Mount::follows_streams() const {
  static constexpr std::array kTypes = {"fuse.ceph", "fuse.ceph-fuse", "fuse.glusterfs", "fuse.juicefs", "fuse.mfs"};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end() ||
         (type == "fuse" && source.starts_with("mfs#"));
}

std::string Mount::harmful() const {
  struct Harm {
    std::string_view types, option;
  };
  static constexpr std::array kHarms = {Harm{"nfs nfs4", "nocto"},          Harm{"nfs nfs4", "nolock"},
                                        Harm{"nfs nfs4", "local_lock=all"}, Harm{"nfs nfs4", "local_lock=flock"},
                                        Harm{"nfs nfs4", "nordirplus"},     Harm{"lustre", "localflock"},
                                        Harm{"lustre", "noflock"},          Harm{"gfs2 ocfs2", "localflocks"},
                                        Harm{"cifs smb3", "cache=loose"},   Harm{"cifs smb3", "nobrl"}};
  for (const Harm& harm : kHarms) {
    const auto types = fields_of(harm.types, ' ');
    if (std::find(types.begin(), types.end(), type) != types.end() && has(harm.option)) return std::string(harm.option);
  }
  return "";
}

}  // namespace ckpt::store
