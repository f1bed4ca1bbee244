#include "store/cloud/xml.h"

namespace ckpt::store::cloud {

const XmlElement* XmlElement::child(std::string_view wanted) const {
  for (const XmlElement& element : children)
    if (element.name == wanted) return &element;
  return nullptr;
}

std::string_view XmlElement::text_of(std::string_view wanted) const {
  const XmlElement* found = child(wanted);
  return found ? std::string_view(found->text) : std::string_view();
}

std::string xml_escape(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else
      escaped += c;
  }
  return escaped;
}

namespace {

constexpr int kMaxDepth = 16;             // S3's answers have up to 5
constexpr size_t kMaxElements = 1 << 18;  // a list of 1,000 keys has a twentieth of it

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == ':' || (c & 0x80) != 0;
}

class XmlParser {
 public:
  explicit XmlParser(std::string_view text) : rest_(text), size_(text.size()) {}
  Result<XmlElement> document();

 private:
  Status wrong(const char* what) const {
    return Status(CKPT_FORMAT, strformat("XML: at byte {}: {}", size_ - rest_.size(), what));
  }
  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void skip_space() {
    while (!rest_.empty() && is_space(rest_[0])) rest_.remove_prefix(1);
  }
  // Everything up to `end`, which is taken too.
  Result<std::string_view> up_to(std::string_view end) {
    const size_t at = rest_.find(end);
    if (at == rest_.npos) return wrong("the end is missing");
    const std::string_view text = rest_.substr(0, at);
    rest_.remove_prefix(at + end.size());
    return text;
  }
  Status skip_between();
  Result<std::string_view> name();
  Status attributes();
  Status element(XmlElement* out, int depth);
  Status content(XmlElement* out, int depth);
  Status reference(std::string* out);

  std::string_view rest_;
  const size_t size_;
  size_t elements_ = 0;
};

// What may stand before and after the root.
Status XmlParser::skip_between() {
  for (;;) {
    skip_space();
    if (!take("<!--")) return Ok();
    CKPT_TRY(up_to("-->").status());
  }
}

Result<XmlElement> XmlParser::document() {
  take("\xef\xbb\xbf");
  skip_space();
  if (take("<?xml")) CKPT_TRY(up_to("?>").status());
  CKPT_TRY(skip_between());
  XmlElement root;
  CKPT_TRY(element(&root, 0));
  CKPT_TRY(skip_between());
  if (!rest_.empty()) return wrong("something follows the root");
  return root;
}

Result<std::string_view> XmlParser::name() {
  size_t end = 0;
  while (end < rest_.size() && is_name(rest_[end])) end++;
  if (end == 0) return wrong("a name is missing");
  const std::string_view found = rest_.substr(0, end);
  rest_.remove_prefix(end);
  return found;
}

Status XmlParser::attributes() {
  for (;;) {
    const bool space = !rest_.empty() && is_space(rest_[0]);
    skip_space();
    if (rest_.starts_with(">") || rest_.starts_with("/>")) return Ok();
    if (!space) return wrong("an attribute without a blank before it");
    CKPT_TRY(name().status());
    skip_space();
    if (!take("=")) return wrong("an attribute without a value");
    skip_space();
    const char quote = rest_.empty() ? 0 : rest_[0];
    if (quote != '"' && quote != '\'') return wrong("a value without quotation marks");
    rest_.remove_prefix(1);
    CKPT_ASSIGN(std::string_view value, up_to(std::string_view(&quote, 1)));
    if (value.find('<') != value.npos) return wrong("a '<' in a value");
  }
}

Status XmlParser::element(XmlElement* out, int depth) {
  if (depth >= kMaxDepth) return wrong("elements are nested too deeply");
  if (++elements_ > kMaxElements) return wrong("there are too many elements");
  if (!take("<")) return wrong("an element is missing");
  CKPT_ASSIGN(std::string_view tag, name());
  out->name = tag.substr(tag.rfind(':') + 1);
  if (out->name.empty()) return wrong("a name is missing");
  CKPT_TRY(attributes());
  if (take("/>")) return Ok();
  take(">");
  CKPT_TRY(content(out, depth));
  CKPT_ASSIGN(std::string_view end, name());
  skip_space();
  if (end != tag || !take(">")) return wrong("the end of another element");
  return Ok();
}

// Up to the "</" of the end, which is taken.
Status XmlParser::content(XmlElement* out, int depth) {
  for (;;) {
    if (rest_.empty()) return wrong("the end of an element is missing");
    if (take("</")) return Ok();
    if (take("<!--")) {
      CKPT_TRY(up_to("-->").status());
    } else if (take("<![CDATA[")) {
      CKPT_ASSIGN(std::string_view text, up_to("]]>"));
      out->text += text;
    } else if (rest_[0] == '<') {
      CKPT_TRY(element(&out->children.emplace_back(), depth + 1));
    } else if (rest_[0] == '&') {
      CKPT_TRY(reference(&out->text));
    } else {
      out->text += rest_[0];
      rest_.remove_prefix(1);
    }
  }
}

void append_utf8(std::string* out, uint32_t c) {
  if (c < 0x80) {
    *out += static_cast<char>(c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static constexpr uint32_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  *out += static_cast<char>(kFirst[more] | c >> (6 * more));
  for (int i = more - 1; i >= 0; i--) *out += static_cast<char>(0x80 | (c >> (6 * i) & 0x3f));
}

Status XmlParser::reference(std::string* out) {
  struct Named {
    std::string_view name;
    char c;
  };
  for (const auto& [entity, c] :
       {Named{"&amp;", '&'}, Named{"&lt;", '<'}, Named{"&gt;", '>'}, Named{"&quot;", '"'}, Named{"&apos;", '\''}})
    if (take(entity)) {
      *out += c;
      return Ok();
    }
  if (!take("&#")) return wrong("an entity that is not known");
  const uint32_t base = take("x") ? 16 : 10;
  uint32_t value = 0;
  size_t digits = 0;
  for (; !rest_.empty() && rest_[0] != ';'; rest_.remove_prefix(1), digits++) {
    const char c = rest_[0] >= 'A' && rest_[0] <= 'F' ? static_cast<char>(rest_[0] - 'A' + 'a') : rest_[0];
    const uint32_t digit = c >= '0' && c <= '9'   ? static_cast<uint32_t>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<uint32_t>(c - 'a' + 10)
                                                  : 16;
    if (digit >= base || digits >= 7) return wrong("a character reference that is no number");
    value = value * base + digit;
  }
  if (digits == 0 || !take(";")) return wrong("a character reference without an end");
  if (value == 0 || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return wrong("no such character");
  append_utf8(out, value);
  return Ok();
}

}  // namespace

Result<XmlElement> parse_xml(std::string_view text) { return XmlParser(text).document(); }

}  // namespace ckpt::store::cloud
