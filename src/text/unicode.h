// The character classes that the splitter's pattern and the long-input guard ask about, one byte per code point.
//
// The data are Unicode's (generated: unicode_tables.cpp), expanded once per process into a flat read-only table of 1.1
// MB of which a text touches only the few lines of its scripts. Thread-safe.
#pragma once

#include <cstdint>
#include <span>

namespace perigee {

constexpr uint32_t kCodePoints = 0x110000;

/// Bits of a code point's class byte. Han letters are `letter` but neither `upper` nor `lower`.
namespace char_class {
constexpr uint8_t kHan = 1;            ///< Script=Han
constexpr uint8_t kUpper = 2;          ///< Lu, Lt, Lm, Lo or M, and not Han
constexpr uint8_t kLower = 4;          ///< Ll, Lm, Lo or M, and not Han
constexpr uint8_t kLetter = 8;         ///< L
constexpr uint8_t kNumber = 16;        ///< N
constexpr uint8_t kSpace = 32;         ///< White_Space
constexpr uint8_t kNewline = 64;       ///< CR or LF
constexpr uint8_t kPythonSpace = 128;  ///< Python's str.isspace: kSpace and U+001C..U+001F
}  // namespace char_class

/// The table: kCodePoints class bytes, indexed by code point. Built at the first call.
const uint8_t* char_class_table();

/// The class byte of one code point; 0 for values above U+10FFFF.
inline uint8_t char_class_of(char32_t code_point) {
  return code_point < kCodePoints ? char_class_table()[code_point] : uint8_t{0};
}

/// The generated data: code points at which the class byte changes, ascending, each as (code point << 8 | class byte).
std::span<const uint32_t> char_class_changes();

}  // namespace perigee
