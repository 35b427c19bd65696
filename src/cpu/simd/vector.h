// F32: a vector of floats, 8 lanes with AVX2 and 16 with AVX-512, and the few operations the kernels need. Included
// only by the sources of this folder, inside namespace perigee::PERIGEE_SIMD, so that both widths can live in one
// program.
//
// exp and tanh: range reduction to [-ln2/2, ln2/2] and a degree-6 polynomial (Cephes' coefficients); relative error
// below 2 ulp.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "tensor/dtype.h"

namespace perigee::PERIGEE_SIMD {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;

struct F32 {
  __m512 v;
};

inline F32 set(float x) {
  return {_mm512_set1_ps(x)};
}
inline F32 zero() {
  return {_mm512_setzero_ps()};
}
inline F32 load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
inline void store(float* p, F32 x) {
  _mm512_storeu_ps(p, x.v);
}
/// BF16 widens by a shift: its bits are the upper half of a float.
inline F32 load(const bf16* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
inline F32 operator+(F32 a, F32 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
inline F32 operator-(F32 a, F32 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
inline F32 operator*(F32 a, F32 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
inline F32 operator/(F32 a, F32 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
/// a * b + c, rounded once.
inline F32 fma(F32 a, F32 b, F32 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
inline F32 min(F32 a, F32 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
inline F32 max(F32 a, F32 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
inline F32 round(F32 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// 2^n for integral n in [-126, 127].
inline F32 exp2_integer(F32 n) {
  const __m512i i = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(i, 23))};
}
inline float sum(F32 a) {
  return _mm512_reduce_add_ps(a.v);
}
inline float largest(F32 a) {
  return _mm512_reduce_max_ps(a.v);
}
/// Lanes where x is below limit become `then`; NaN stays.
inline F32 where_below(F32 x, F32 limit, F32 then, F32 otherwise) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_LT_OQ), otherwise.v, then.v)};
}

#else
inline constexpr int kLanes = 8;

struct F32 {
  __m256 v;
};

inline F32 set(float x) {
  return {_mm256_set1_ps(x)};
}
inline F32 zero() {
  return {_mm256_setzero_ps()};
}
inline F32 load(const float* p) {
  return {_mm256_loadu_ps(p)};
}
inline void store(float* p, F32 x) {
  _mm256_storeu_ps(p, x.v);
}
inline F32 load(const bf16* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16))};
}
inline F32 operator+(F32 a, F32 b) {
  return {_mm256_add_ps(a.v, b.v)};
}
inline F32 operator-(F32 a, F32 b) {
  return {_mm256_sub_ps(a.v, b.v)};
}
inline F32 operator*(F32 a, F32 b) {
  return {_mm256_mul_ps(a.v, b.v)};
}
inline F32 operator/(F32 a, F32 b) {
  return {_mm256_div_ps(a.v, b.v)};
}
inline F32 fma(F32 a, F32 b, F32 c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
inline F32 min(F32 a, F32 b) {
  return {_mm256_min_ps(a.v, b.v)};
}
inline F32 max(F32 a, F32 b) {
  return {_mm256_max_ps(a.v, b.v)};
}
inline F32 round(F32 a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline F32 exp2_integer(F32 n) {
  const __m256i i = _mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(i, 23))};
}
inline float sum(F32 a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float largest(F32 a) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline F32 where_below(F32 x, F32 limit, F32 then, F32 otherwise) {
  return {_mm256_blendv_ps(otherwise.v, then.v, _mm256_cmp_ps(x.v, limit.v, _CMP_LT_OQ))};
}
#endif

inline F32 operator-(F32 a) {
  return zero() - a;
}

/// e^x; 0 below -87.3, infinity-free above 88.3 (saturates at e^88.3). NaN stays NaN.
inline F32 exp(F32 x) {
  const F32 low = set(-87.3F);
  // The operand order keeps NaN: min and max return their second operand then.
  const F32 c = min(set(88.3F), max(low, x));
  const F32 n = round(c * set(1.44269504088896341F));
  F32 r = fma(n, set(-0.693359375F), c);
  r = fma(n, set(2.12194440e-4F), r);
  F32 p = set(1.9875691500e-4F);
  p = fma(p, r, set(1.3981999507e-3F));
  p = fma(p, r, set(8.3334519073e-3F));
  p = fma(p, r, set(4.1665795894e-2F));
  p = fma(p, r, set(1.6666665459e-1F));
  p = fma(p, r, set(5.0000001201e-1F));
  const F32 e = fma(p, r * r, r) + set(1.0F);
  return where_below(x, low, zero(), e * exp2_integer(n));
}

inline F32 sigmoid(F32 x) {
  return set(1.0F) / (set(1.0F) + exp(zero() - x));
}

/// tanh x = 1 - 2 / (e^2x + 1) loses digits near 0, so small arguments use the odd polynomial of Cephes.
inline F32 tanh(F32 x) {
  const F32 magnitude = max(x, zero() - x);
  const F32 big = set(1.0F) - set(2.0F) / (exp(magnitude + magnitude) + set(1.0F));
  const F32 signed_big = where_below(x, zero(), zero() - big, big);
  const F32 z = x * x;
  F32 p = set(-5.70498872745e-3F);
  p = fma(p, z, set(2.06390887954e-2F));
  p = fma(p, z, set(-5.37397155531e-2F));
  p = fma(p, z, set(1.33314422036e-1F));
  p = fma(p, z, set(-3.33332819422e-1F));
  const F32 small = fma(p * z, x, x);
  return where_below(magnitude, set(0.625F), small, signed_big);
}

}  // namespace perigee::PERIGEE_SIMD
