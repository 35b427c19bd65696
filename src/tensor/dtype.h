// DType and the small number formats: bf16, e2m1 (FP4), e8m0 (block scale). Plain C++ so that g++ and nvcc agree.
//
// Formats: OCP Microscaling Formats (MX) v1.0 for E2M1 and E8M0; bfloat16 is the upper half of an IEEE float.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace perigee {

enum class DType : uint8_t {
  f32,
  bf16,
  i32,
  u8,
  mxfp4,  ///< logical [rows, cols] of E2M1 codes, two per byte (even column in the low nibble); scales apart
};

/// Bits per element (mxfp4: 4, its scales not counted).
constexpr int dtype_bits(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 32;
    case DType::bf16:
      return 16;
    case DType::u8:
      return 8;
    case DType::mxfp4:
      return 4;
  }
  return 0;
}

/// "F32", "BF16", "I32", "U8", "MXFP4": the names safetensors uses where it has one.
constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::i32:
      return "I32";
    case DType::u8:
      return "U8";
    case DType::mxfp4:
      return "MXFP4";
  }
  return "?";
}

struct bf16 {
  uint16_t bits = 0;
};

inline float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
inline float to_float(float value) {
  return value;
}

/// Round to nearest even; NaN stays NaN (quiet).
inline bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

/// The 16 values of an E2M1 code: bit 3 is the sign.
inline constexpr float kE2m1[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                    -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

/// Columns that share one E8M0 scale byte.
inline constexpr int kMxGroup = 32;

/// 2^(scale-127); 0 gives the subnormal 2^-127, 255 is NaN (refused at load).
inline float e8m0_to_float(uint8_t scale) {
  if (scale == 0) return 0x1.0p-127F;
  if (scale == 255) return std::bit_cast<float>(uint32_t{0x7FC00000});
  return std::bit_cast<float>(static_cast<uint32_t>(scale) << 23);
}

}  // namespace perigee
