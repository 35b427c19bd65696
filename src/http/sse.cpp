// Writing and reading the event-stream format.
#include "http/sse.h"

#include <algorithm>

namespace perigee {

void append_sse_event(std::string& out, std::string_view event, std::string_view data) {
  if (!event.empty()) {
    out += "event: ";
    out += event;
    out += '\n';
  }
  // A lone CR ends a line for the reader too, so it must be split on as well.
  while (true) {
    const size_t end = std::min(data.find_first_of("\r\n"), data.size());
    out += "data: ";
    out += data.substr(0, end);
    out += '\n';
    if (end == data.size()) break;
    data.remove_prefix(end + (data.substr(end).starts_with("\r\n") ? 2 : 1));
  }
  out += '\n';
}

void append_sse_comment(std::string& out, std::string_view text) {
  out += ": ";
  for (const char c : text) out += c == '\n' || c == '\r' ? ' ' : c;
  out += "\n\n";
}

bool SseParser::feed(std::string_view bytes, const std::function<void(const SseEvent&)>& event,
                     const std::function<void(std::string_view)>& comment, size_t limit) {
  while (!bytes.empty()) {
    if (after_cr_ && bytes[0] == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    line_ += bytes.substr(0, end);
    if (line_.size() + current_.data.size() > limit) return false;
    if (end == bytes.size()) break;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    take_line(event, comment);
    line_.clear();
  }
  return true;
}

void SseParser::take_line(const std::function<void(const SseEvent&)>& event,
                          const std::function<void(std::string_view)>& comment) {
  if (line_.empty()) {
    if (has_data_) event(current_);
    current_ = {};
    has_data_ = false;
    return;
  }
  const std::string_view line = line_;
  const size_t colon = std::min(line.find(':'), line.size());
  const std::string_view field = line.substr(0, colon);
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (colon == 0) {
    if (comment) comment(value);
  } else if (field == "event") {
    current_.event = value;
  } else if (field == "data") {
    if (has_data_) current_.data += '\n';
    current_.data += value;
    has_data_ = true;
  }
}

}  // namespace perigee
