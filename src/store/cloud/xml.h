// A small, strict reader of the XML that S3 servers answer: elements, text, attributes that it skips, character
// references, CDATA, comments. No document types, so no entities of anybody's own. What it does not know it refuses.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ckpt::store::cloud {

struct XmlElement {
  std::string name;  // without the prefix of a namespace
  std::string text;  // all of it that is not inside a child
  std::vector<XmlElement> children;

  // The first child of that name, or null.
  const XmlElement* child(std::string_view wanted) const;
  // The text of that child; "" if there is none.
  std::string_view text_of(std::string_view wanted) const;
};

// FORMAT
Result<XmlElement> parse_xml(std::string_view text);

// Text as XML has it.
std::string xml_escape(std::string_view text);

}  // namespace ckpt::store::cloud
