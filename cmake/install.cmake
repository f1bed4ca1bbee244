# `cmake --install`: headers, libraries, tool, ckpt.pc, CMake package, documents. The prefix can be moved afterwards.
include(CMakePackageConfigHelpers)

set(installed ${CKPT_KINDS})
list(TRANSFORM installed PREPEND ckpt_)
install(TARGETS ${installed} EXPORT ckptTargets)
install(FILES include/ckpt.h include/ckpt_maintain.h include/ckpt_table.h include/ckpt_tree.h include/ckpt_keeper.h
              include/ckpt_layer.h include/ckpt_backend.h
              bindings/cpp/ckpt.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY bindings/cpp/ckpt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

file(RELATIVE_PATH bin_to_lib /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
if(TARGET ckpt_tool) # installed by src/cli
  set_target_properties(ckpt_tool PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
endif()

# ckpt.pc finds the prefix relative to itself, unless libdir or includedir is an absolute path.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
  set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
  set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  set(pc_datadir ${CMAKE_INSTALL_FULL_DATADIR})
else()
  file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(pc_prefix "\${pcfiledir}/${up}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_datadir "\${prefix}/${CMAKE_INSTALL_DATADIR}")
endif()
set(pc_more "") # a program needs what the archive needs, where there is no shared library
if(NOT "shared" IN_LIST CKPT_KINDS)
  set(pc_more " \${needs}")
endif()
set(packages ckpt)
if(CKPT_INTEROP)
  list(APPEND packages ckpt-files)
  foreach(kind ${CKPT_KINDS})
    list(APPEND installed ${files_${kind}})
  endforeach()
endif()
foreach(pc ${packages})
  configure_file(pkgconfig/${pc}.pc.in ${pc}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ckpt)
configure_package_config_file(cmake/ckptConfig.cmake.in ckptConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(ckptConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ckptConfig.cmake ${PROJECT_BINARY_DIR}/ckptConfigVersion.cmake
        DESTINATION ${package_dir})
install(EXPORT ckptTargets NAMESPACE ckpt:: DESTINATION ${package_dir})

install(FILES ${PROJECT_BINARY_DIR}/api.json DESTINATION ${CMAKE_INSTALL_DATADIR}/ckpt)

# The pages for users, all that are there.
file(GLOB pages CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     README.md CHANGELOG.md docs/*.md schemas/*.md schemas/ckpt.fbs include/*.md bindings/*.md bindings/*/*.md
     bindings/*/docs/*.md bench/*.md bench/*.svg contrib/*/*.md)
set(pages_folder ${PROJECT_BINARY_DIR}/pages)
set(copy_pages ${PROJECT_SOURCE_DIR}/cmake/copy_pages.py)
add_custom_command(OUTPUT ${pages_folder}/README.md
                   COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages_folder}
                   COMMAND ${Python3_EXECUTABLE} ${copy_pages} ${pages_folder} ${pages}
                   WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} DEPENDS ${pages} ${copy_pages} VERBATIM)
add_custom_target(ckpt_pages ALL DEPENDS ${pages_folder}/README.md)
install(DIRECTORY ${pages_folder}/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples/c DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# All that `cmake --install` takes, for who builds no tests.
add_custom_target(ckpt_installed)
foreach(target ${installed} ckpt_tool ckpt_api_json ckpt_pages)
  if(TARGET ${target})
    add_dependencies(ckpt_installed ${target})
  endif()
endforeach()
