// Tag assembly; see tag_reader.h.
//
// Called by the chat parser for every marker and piece of text. The reader owns the tag that is being spelled; it
// gives it back as text as soon as no known tag can come of it, so that little is ever held back.
#include "text/tag_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/xtml.h"

namespace perigee {
namespace {

/// A header longer than this is no tag: it bounds how much text can be held back. Keys and function names fit by far.
constexpr size_t kMaxHeader = 16384;

constexpr std::array<std::pair<std::string_view, TagName>, 7> kTags{{{"message", TagName::message},
                                                                     {"think", TagName::think},
                                                                     {"response", TagName::response},
                                                                     {"tools", TagName::tools},
                                                                     {"call", TagName::call},
                                                                     {"argument", TagName::argument},
                                                                     {"json", TagName::json}}};

constexpr std::string_view kSpaces = " \t\r\n";

std::optional<TagName> tag_named(std::string_view name) {
  for (const auto& [known, tag] : kTags) {
    if (known == name) return tag;
  }
  return std::nullopt;
}

void add_text(std::string_view text, std::vector<XtmlEvent>& out) {
  if (text.empty()) return;
  if (!out.empty() && out.back().kind == XtmlEvent::Kind::text) {
    out.back().text += text;
  } else {
    out.push_back({XtmlEvent::Kind::text, TagName::message, std::string(text)});
  }
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

std::optional<std::string> tag_attribute(std::string_view tag, std::string_view key) {
  std::optional<std::string> found;
  for (size_t quote = tag.find("=\""); quote != std::string_view::npos; quote = tag.find("=\"", quote)) {
    size_t begin = quote;
    while (begin > 0 && is_word(tag[begin - 1])) --begin;
    const size_t value = quote + 2;
    const size_t end = tag.find('"', value);
    if (end == std::string_view::npos) break;
    if (tag.substr(begin, quote - begin) == key) found = xtml::unescape_attribute(tag.substr(value, end - value));
    quote = end + 1;
  }
  return found;
}

void TagReader::text(std::string_view text, std::vector<XtmlEvent>& out) {
  if (pending_.empty()) {
    add_text(text, out);
    return;
  }
  pending_ += text;
  if (!viable()) release(out);
}

void TagReader::marker(Marker marker, std::vector<XtmlEvent>& out) {
  if (marker == Marker::end_of_message) {
    out.push_back({XtmlEvent::Kind::end_of_message, TagName::message, std::string(xtml::kEndOfMessage)});
    return;
  }
  if (marker != Marker::sep) {
    release(out);
    opening_ = marker == Marker::open;
    pending_ = opening_ ? xtml::kOpen : xtml::kClose;
    return;
  }
  const std::string_view header =
      std::string_view(pending_).substr(std::min(pending_.size(), opening_ ? xtml::kOpen.size() : xtml::kClose.size()));
  const auto tag = tag_named(header.substr(0, header.find_first_of(kSpaces)));
  pending_ += xtml::kSep;
  if (!tag) {
    release(out);
    return;
  }
  out.push_back({opening_ ? XtmlEvent::Kind::open : XtmlEvent::Kind::close, *tag, std::exchange(pending_, {})});
}

void TagReader::finish(bool keep, std::vector<XtmlEvent>& out) {
  if (keep) release(out);
  pending_.clear();
}

/// Can the pending header still become one of the tags?
bool TagReader::viable() const {
  const std::string_view header =
      std::string_view(pending_).substr(opening_ ? xtml::kOpen.size() : xtml::kClose.size());
  if (header.size() > kMaxHeader) return false;
  const size_t space = header.find_first_of(kSpaces);
  if (space != std::string_view::npos) return opening_ && tag_named(header.substr(0, space)).has_value();
  return std::any_of(kTags.begin(), kTags.end(), [&](const auto& entry) { return entry.first.starts_with(header); });
}

void TagReader::release(std::vector<XtmlEvent>& out) {
  add_text(std::exchange(pending_, {}), out);
}

}  // namespace perigee
