// Marker lookup and attribute escapes; see xtml.h.
//
// Called once per encoder or parser for the markers, and for every attribute that is written or read. Nothing is kept:
// the caller owns the ids and strings. White space is what Python's str.isspace() takes for it, because the family's
// encoder is Python.
#include "text/xtml.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "text/unicode.h"
#include "text/utf8.h"

namespace perigee::xtml {

Result<MarkerIds> find_markers(const Tokenizer& tokenizer) {
  MarkerIds ids;
  const std::array<std::pair<std::string_view, int32_t*>, 4> markers{
      {{kOpen, &ids.open}, {kClose, &ids.close}, {kSep, &ids.sep}, {kEndOfMessage, &ids.end_of_message}}};
  for (const auto& [name, id] : markers) {
    const auto found = tokenizer.special_id(name);
    if (!found) {
      return Error{fmt::format(
          "the tokenizer has no special token {}, which Kimi K3's chat format needs: this is not a K3 tokenizer",
          name)};
    }
    *id = *found;
  }
  return ids;
}

std::string escape_attribute(std::string_view value) {
  std::string out;
  out.reserve(value.size());
  for (const char c : value) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string unescape_attribute(std::string_view value) {
  return replace_all(replace_all(value, "&quot;", "\""), "&amp;", "&");
}

bool is_blank(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto step = utf8_step(text, i);
    if ((char_class_of(step.code_point) & char_class::kPythonSpace) == 0) return false;
    i += step.length;
  }
  return true;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t begin = 0;
  for (size_t hit = text.find(from); hit != std::string_view::npos; hit = text.find(from, begin)) {
    out += text.substr(begin, hit - begin);
    out += to;
    begin = hit + from.size();
  }
  out += text.substr(begin);
  return out;
}

}  // namespace perigee::xtml
