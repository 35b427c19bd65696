# Each file of src/cpu/simd is compiled once per instruction set: the sources are named .inc and a generated .cpp per set
# includes them with PERIGEE_SIMD naming the namespace.
set(PERIGEE_SIMD_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi2)
set(PERIGEE_SIMD_FLAGS_avx512 ${PERIGEE_SIMD_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
file(GLOB SIMD_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cpu/simd/*.inc)
foreach(SET avx2 avx512)
  foreach(SOURCE ${SIMD_SOURCES})
    get_filename_component(NAME ${SOURCE} NAME_WE)
    set(GENERATED ${CMAKE_CURRENT_BINARY_DIR}/simd/${NAME}_${SET}.cpp)
    file(CONFIGURE OUTPUT ${GENERATED} CONTENT "#define PERIGEE_SIMD ${SET}\n#include \"cpu/simd/${NAME}.inc\"\n")
    set_source_files_properties(${GENERATED} PROPERTIES COMPILE_OPTIONS "${PERIGEE_SIMD_FLAGS_${SET}}" OBJECT_DEPENDS ${SOURCE})
    target_sources(perigee_cpu PRIVATE ${GENERATED})
  endforeach()
endforeach()
