#include "interop/pt/export.h"

#include "interop/files.h"
#include "interop/pt/encoder.h"
#include "interop/pt/file_writer.h"
#include "interop/tree_view.h"

namespace ckpt::interop {

Status export_pt(const ckpt_reader* reader, const std::string& path, bool opaque_as_dict, const ckpt_options* options) {
  CKPT_ASSIGN(const TreeHandle tree, tree_of(reader));
  const PtEncoderOptions encoding{opaque_as_dict, {}};
  PtEncoder encoder(reader, TreeView(tree.get()), encoding);
  CKPT_TRY(encoder.value(0));
  const std::string pickle = encoder.pickle().finish();
  CKPT_ASSIGN(Output output, Output::begin_file(path));
  const PtBuffer buffer;
  CKPT_TRY(write_pt_file({reader, options, buffer.bytes()}, pickle, encoder.storages().storages(), output.temporary()));
  return output.publish();
}

}  // namespace ckpt::interop
