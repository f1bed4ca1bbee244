# Builds the engine of a source distribution and lets pkg-config find it. Its other packages must be on this machine:
# README.md, "Install".
set(built ${engine}/build/release) # as the preset has it: there ccache finds what another one compiled
set(settings -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr/local -DCMAKE_INSTALL_LIBDIR=lib)
foreach(step "-S;${engine};-B;${built};${settings}"
             "--build;${built};--parallel;--target;ckpt_installed" "--install;${built};--prefix;${built}/prefix")
  execute_process(COMMAND ${CMAKE_COMMAND} ${step} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
set(ENV{PKG_CONFIG_PATH} ${built}/prefix/lib/pkgconfig:$ENV{PKG_CONFIG_PATH})
