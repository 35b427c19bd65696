# Compiler flags shared by every target. Kernels add their instruction set per file (src/CMakeLists.txt).
add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror)
# x86-64-v2 is the floor; faster instruction sets are chosen at run time.
add_compile_options(-march=x86-64-v2)
# Results must not depend on whether the compiler chose to fuse a multiply and an add.
add_compile_options(-ffp-contract=off)
# Structs of options are filled by name; the rest keeps its default.
add_compile_options(-Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these inside libstdc++ and fmt where nothing is wrong.
  add_compile_options(-Wno-uninitialized -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds
                      -Wno-stringop-overread -Wno-dangling-pointer -Wno-psabi -Wno-mismatched-new-delete)
endif()
if(PERIGEE_SANITIZE)
  add_compile_options(-fsanitize=${PERIGEE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PERIGEE_SANITIZE})
endif()
if(PERIGEE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_link_options(-fuse-ld=lld)
endif()
