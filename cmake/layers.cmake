# perigee_layer(NAME deps...): one static library per folder of src/. The dependency list is the layer law in
# build form; tools/check_layers.py checks the include lines.
function(perigee_layer NAME)
  file(GLOB_RECURSE SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${NAME}/*.cpp)
  add_library(perigee_${NAME} STATIC ${SOURCES})
  target_include_directories(perigee_${NAME} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(DEP ${ARGN})
    target_link_libraries(perigee_${NAME} PUBLIC perigee_${DEP})
  endforeach()
endfunction()
