// Cuts text into the pieces that the BPE works on: the pre-tokenizer of the Kimi K3 family, as a hand-written matcher.
//
// Called by Tokenizer::encode(). The definition is a pattern of eight alternatives, tried in this order at each
// position (leftmost first, with backtracking; HAN is Script=Han, UP is Lu Lt Lm Lo M without HAN, LOW is Ll Lm Lo M
// without HAN, PRE is at most one character that is not CR, LF, a letter or a number, CONTR is at most one of 's 't 're
// 've 'm 'll 'd in any case, where U+017F counts as an s):
//   1. HAN+    2. PRE UP* LOW+ CONTR    3. PRE UP+ LOW* CONTR    4. one to three numbers
//   5. at most one SPACE, then a run without white space, letters, numbers, then a run of CR and LF
//   6. white space up to and with the last CR or LF of its run    7. white space not followed by a non-space    8.
//   white space
// Every character belongs to exactly one piece. Time is linear in the text.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace perigee {

/// The end (byte offset) of the piece that begins at byte `start` of valid UTF-8; start < text.size(), on a character.
size_t next_piece(std::string_view text, size_t start);

/// The limits of the long-input guard, in code points.
struct LongInputLimits {
  size_t block = 400'000;  ///< a text is cut into blocks of this length
  size_t run = 25'000;     ///< and within a block, no run of white space or of anything else may be longer
};

/// The ends (byte offsets, ascending, the last is text.size()) of the parts in which a long text is encoded, each on
/// its own. White space is Python's str.isspace. The run counter starts again at each change of kind and after each
/// cut. The text is valid UTF-8; an empty text has no parts.
std::vector<size_t> long_input_cuts(std::string_view text, const LongInputLimits& limits = {});

}  // namespace perigee
