// The event-stream format in both directions, and cut anywhere.
#include "http/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace perigee {
namespace {

TEST(Sse, WritesEventsLineByLine) {
  std::string out;
  append_sse_event(out, "", R"({"a":1})");
  append_sse_event(out, "delta", "one\ntwo\r\nthree\rfour\n");
  append_sse_event(out, "", "");
  append_sse_comment(out, "pi\nng");
  EXPECT_EQ(out,
            "data: {\"a\":1}\n\n"
            "event: delta\ndata: one\ndata: two\ndata: three\ndata: four\ndata: \n\n"
            "data: \n\n"
            ": pi ng\n\n");
}

struct Read {
  std::vector<SseEvent> events;
  std::vector<std::string> comments;
};

Read read_in_pieces(std::string_view text, size_t piece) {
  Read read;
  SseParser parser;
  for (size_t i = 0; i < text.size(); i += piece) {
    EXPECT_TRUE(parser.feed(
        text.substr(i, piece), [&](const SseEvent& event) { read.events.push_back(event); },
        [&](std::string_view comment) { read.comments.emplace_back(comment); }));
  }
  return read;
}

TEST(Sse, ReadsWhateverTheCutsAndLineEnds) {
  constexpr std::string_view kText =
      "data: a\r\ndata:b\r\n\r\nevent: x\rdata:  c\r\r: note\nid: 4\ndata\n\nevent: lost\n\ndata: d\n\ndata: "
      "unfinished\n";
  for (size_t piece = 1; piece <= kText.size(); ++piece) {
    const Read read = read_in_pieces(kText, piece);
    ASSERT_EQ(read.events.size(), 4u) << piece;
    EXPECT_EQ(read.events[0].data, "a\nb");
    EXPECT_EQ(read.events[1].event, "x");
    EXPECT_EQ(read.events[1].data, " c");
    EXPECT_EQ(read.events[2].data, "");
    EXPECT_EQ(read.events[2].event, "");
    EXPECT_EQ(read.events[3].data, "d");
    EXPECT_EQ(read.events[3].event, "");
    ASSERT_EQ(read.comments.size(), 1u);
    EXPECT_EQ(read.comments[0], "note");
  }
}

TEST(Sse, WhatIsWrittenIsRead) {
  const std::string data = "x\n\ny: z\n";
  std::string out;
  append_sse_event(out, "e", data);
  const Read read = read_in_pieces(out, 3);
  ASSERT_EQ(read.events.size(), 1u);
  EXPECT_EQ(read.events[0].event, "e");
  EXPECT_EQ(read.events[0].data, data);
}

TEST(Sse, RefusesEventsWithoutEnd) {
  SseParser parser;
  bool fits = true;
  for (int i = 0; i < 100 && fits; ++i) fits = parser.feed("data: 0123456789\n", [](const SseEvent&) {}, {}, 500);
  EXPECT_FALSE(fits);
}

}  // namespace
}  // namespace perigee
