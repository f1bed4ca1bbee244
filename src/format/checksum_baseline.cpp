// XXH3 for every machine: SSE2 on x86-64, NEON on ARM, or what else xxHash finds.
#include "format/checksum_body.inc"

namespace ckpt::format {

constinit const ChecksumVariant kChecksumBaseline = make_variant("baseline");

}  // namespace ckpt::format
