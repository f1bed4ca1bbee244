// The bytes as the XML of an S3 server: either refused, or elements whose own XML gives the same elements again.
#include "fuzz/harness.h"
#include "store/cloud/xml.h"

namespace ckpt::fuzz {
namespace {

using store::cloud::XmlElement;

std::string to_xml(const XmlElement& element) {
  std::string text = "<" + element.name + ">" + store::cloud::xml_escape(element.text);
  for (const XmlElement& child : element.children) text += to_xml(child);
  return text + "</" + element.name + ">";
}

bool equal(const XmlElement& a, const XmlElement& b) {
  if (a.name != b.name || a.text != b.text || a.children.size() != b.children.size()) return false;
  for (size_t i = 0; i < a.children.size(); i++)
    if (!equal(a.children[i], b.children[i])) return false;
  return true;
}

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ckpt;
  auto root = store::cloud::parse_xml(as_text(fuzz::input(data, size)));
  fuzz::must_blame_the_bytes(root.status());
  if (!root.ok()) return 0;
  auto again = store::cloud::parse_xml(fuzz::to_xml(*root));
  fuzz::must(again.ok() && fuzz::equal(*root, *again));
  return 0;
}
