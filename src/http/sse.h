// The text format of server-sent events (WHATWG HTML, section 9.2), both ways: writing for the server, reading for
// the client. Pure functions and one small parser, no sockets.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace perigee {

struct SseEvent {
  std::string event;  ///< empty: no event line ("message" in a browser)
  std::string data;   ///< data lines joined by '\n'
};

/// Appends "event: ...\n" when `event` is not empty, one "data: ..." line per line of `data`, and the blank line.
void append_sse_event(std::string& out, std::string_view event, std::string_view data);

/// Appends ": text\n\n"; line breaks in `text` become spaces.
void append_sse_comment(std::string& out, std::string_view text);

/// Incremental reader; bytes may be cut anywhere. Lines end in LF, CR or CRLF. id and retry lines are skipped.
class SseParser {
 public:
  /// Calls `event` for each event completed by `bytes`, `comment` for each comment line. False when one event grew
  /// beyond `limit` bytes; the parser is then of no more use.
  bool feed(std::string_view bytes, const std::function<void(const SseEvent&)>& event,
            const std::function<void(std::string_view)>& comment = {}, size_t limit = 64 << 20);

 private:
  void take_line(const std::function<void(const SseEvent&)>& event,
                 const std::function<void(std::string_view)>& comment);
  std::string line_;
  SseEvent current_;
  bool has_data_ = false;
  bool after_cr_ = false;
};

}  // namespace perigee
