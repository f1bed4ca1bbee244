# What a machine without libckpt needs, as a prefix inside the package: ckpt/prefix/{lib,bin,share}. The tool and the
# libraries find each other, and the mappings, as they do in any prefix. A wheel holds no links: each library has the
# name that it is loaded by.
set(CKPT_RPATH "$ORIGIN/prefix/lib")
foreach(name ckpt ckpt_files)
  file(REAL_PATH "${ckpt_libdir}/lib${name}.so.0" library)
  install(FILES ${library} DESTINATION ckpt/prefix/lib RENAME lib${name}.so.0)
endforeach()
pkg_get_variable(ckpt_prefix ckpt prefix)
install(PROGRAMS ${ckpt_prefix}/bin/ckpt DESTINATION ckpt/prefix/bin)
install(DIRECTORY ${ckpt_prefix}/share/ckpt/maps DESTINATION ckpt/prefix/share/ckpt)

# On the PATH, where man and the shells look, the pages for users, and beside the package's metadata.
install(PROGRAMS ${CMAKE_CURRENT_SOURCE_DIR}/command/ckpt DESTINATION ${SKBUILD_SCRIPTS_DIR})
install(DIRECTORY ${ckpt_prefix}/share/ DESTINATION ${SKBUILD_DATA_DIR}/share PATTERN share/ckpt EXCLUDE
        PATTERN doc/ckpt/LICENSE EXCLUDE PATTERN doc/ckpt/licenses EXCLUDE PATTERN doc/ckpt/examples EXCLUDE)
install(FILES ${ckpt_prefix}/share/doc/ckpt/LICENSE DESTINATION ${SKBUILD_METADATA_DIR}/licenses)
install(DIRECTORY ${ckpt_prefix}/share/doc/ckpt/licenses DESTINATION ${SKBUILD_METADATA_DIR} OPTIONAL)
