// Hashes of bytes and of file contents (XXH3). Not for keys that an attacker may choose to collide.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace perigee {

inline uint64_t hash64(std::string_view bytes, uint64_t seed = 0) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace perigee
